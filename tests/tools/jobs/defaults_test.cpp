// What a job leaves open is what its tool would take, and is said. Each rule's source stands in
// docs/guides/jobs.md.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/jobs/started_job.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::defaults_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Blocks of 16 bits on 8 devices, to which each example adds its words.
std::string script(const std::string& more) {
  return "torchrun --nproc-per-node 8 pretrain_gpt.py" + kSizes +
         "--micro-batch-size 1 --global-batch-size 8 " + more + "\n";
}

AttentionKind attention(const std::string& more) {
  return read_megatron_job(script(more), "job.sh", {}).plan.attention;
}

std::string defaults(const Job& job) {
  std::string all;
  for (const Remark& taken : job.defaults) all += taken.name + " " + taken.text + "\n";
  return all;
}

// "auto" is Transformer Engine's choice: fused at 16 bits, unless the layers are not its own.
TEST(MegatronDefaults, AttentionIsWhatTransformerEngineTakes) {
  EXPECT_EQ(attention(""), AttentionKind::fused);
  EXPECT_EQ(attention("--attention-backend auto"), AttentionKind::fused);
  EXPECT_EQ(attention("--transformer-impl transformer_engine"), AttentionKind::fused);
  EXPECT_EQ(attention("--transformer-impl local"), AttentionKind::unfused);
  EXPECT_EQ(attention("--attention-backend unfused"), AttentionKind::unfused);
  EXPECT_EQ(attention("--attention-backend local --spec local"), AttentionKind::unfused);
  // Megatron-Core's own layers know one attention, whatever is asked for.
  EXPECT_EQ(attention("--transformer-impl local --attention-backend flash"),
            AttentionKind::unfused);
  EXPECT_EQ(attention("--transformer-impl local --use-flash-attn"), AttentionKind::fused);
}

// Layers that are a fork's own are fused where it is asked, by any of its words.
TEST(MegatronDefaults, ForksAreUnfusedUnlessAsked) {
  for (const char* fork : {"--deepspeed", "--zero-stage 1", "--no-pipeline-parallel",
                           "--DDP-impl local", "--checkpoint-activations", "--use-fused-rmsnorm"}) {
    const std::string own(fork);
    EXPECT_EQ(attention(own), AttentionKind::unfused) << own;
    for (const char* flash : {" --use-flash-attn", " --use-flash-attn-v1", " --use-flash-attn-v2",
                              " --use-flash-attn-triton", " --use-flash-attn-builder"})
      EXPECT_EQ(attention(own + flash), AttentionKind::fused) << own << flash;
    EXPECT_EQ(attention(own + " --transformer-impl transformer_engine"), AttentionKind::fused);
  }
}

// A script that switches both kernels off for Transformer Engine gets neither.
TEST(MegatronDefaults, EnvironmentOfTheScriptCounts) {
  const std::string off = "export NVTE_FLASH_ATTN=0 NVTE_FUSED_ATTN=0\n" + script("");
  EXPECT_EQ(read_megatron_job(off, "job.sh", {}).plan.attention, AttentionKind::unfused);
  const std::string one = "export NVTE_FLASH_ATTN=0\n" + script("");
  EXPECT_EQ(read_megatron_job(one, "job.sh", {}).plan.attention, AttentionKind::fused);
}

// What the arguments say is no default.
TEST(MegatronDefaults, OnlyWhatIsOpenIsSaid) {
  const std::string open = defaults(read_megatron_job(script(""), "job.sh", {}));
  EXPECT_THAT(open, HasSubstr("attention fused (attention-backend is auto"));
  EXPECT_THAT(open, HasSubstr("re-materialisation none\n"));
  EXPECT_THAT(open, HasSubstr("distributed optimizer off\n"));
  EXPECT_THAT(open, HasSubstr("overlap of gradient reduction off\n"));
  EXPECT_THAT(open, HasSubstr("optimizer state fp32\n"));
  EXPECT_THAT(open, Not(HasSubstr("precision")));  // --bf16
  const std::string said =
      defaults(read_megatron_job(script("--attention-backend fused --recompute-activations "
                                        "--use-distributed-optimizer --overlap-grad-reduce "
                                        "--exp-avg-dtype fp32"),
                                 "job.sh", {}));
  EXPECT_EQ(said, "");
}

// One replica has nobody to share with: nothing of it is a choice.
TEST(MegatronDefaults, OfOneReplicaNoSharingIsSaid) {
  const std::string text = defaults(read_megatron_job(
      "pretrain_gpt.py" + kSizes + "--micro-batch-size 1", "job.sh", {.gpus = 1}));
  EXPECT_THAT(text, Not(HasSubstr("distributed optimizer")));
  EXPECT_THAT(text, Not(HasSubstr("overlap")));
}

// NeMo 1 has its own layers where transformer_engine is false, as it is by default.
TEST(NemoDefaults, AttentionHangsOnTransformerEngine) {
  const auto of = [](const std::string& more) {
    const std::string text =
        "trainer: {devices: 8, num_nodes: 1, precision: bf16}\nmodel:\n  num_layers: 2\n"
        "  hidden_size: 64\n  num_attention_heads: 4\n  encoder_seq_length: 32\n"
        "  max_position_embeddings: 32\n  micro_batch_size: 1\n  global_batch_size: 8\n" +
        more;
    return read_nemo_job(text, "job.yaml", {.vocabulary = 128});
  };
  EXPECT_EQ(of("").plan.attention, AttentionKind::unfused);
  EXPECT_THAT(defaults(of("")), HasSubstr("attention unfused (transformer_engine is false)"));
  EXPECT_EQ(of("  transformer_engine: true\n").plan.attention, AttentionKind::fused);
  EXPECT_EQ(of("  transformer_engine: false\n").plan.attention, AttentionKind::unfused);
  EXPECT_EQ(of("  use_flash_attention: true\n").plan.attention, AttentionKind::fused);
}

// torchtitan 0.2: every second block is rebuilt, weights are bf16, all kernels are fused.
TEST(TorchtitanDefaults, AreItsOwn) {
  const Job job = read_torchtitan_job(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
      "[parallelism]\npipeline_parallel_degree = 1\n",
      "job.toml", {.gpus = 8});
  EXPECT_EQ(job.plan.seq_length, 2048);
  EXPECT_EQ(job.plan.attention, AttentionKind::fused);
  EXPECT_THAT(defaults(job), HasSubstr("precision bf16\n"));
  EXPECT_THAT(defaults(job), HasSubstr("re-materialisation 2,4,6,"));
}

}  // namespace
}  // namespace weir::defaults_test
