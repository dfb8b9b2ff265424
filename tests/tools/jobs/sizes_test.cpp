// Sizes that have another name or are not understood, and what is not modelled of a job.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tests/tools/jobs/started_job.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/job/doubt.hpp"
#include "tools/jobs/job/unmodelled.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::sizes_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Job job_of(const std::string& more) {
  return read_megatron_job("pretrain_gpt.py" + kSizes + "--micro-batch-size 1 " + more, "job.sh",
                           {.gpus = 1});
}

std::int64_t parameters_of(const std::string& more) {
  std::int64_t sum = 0;
  for (const Layer& layer : job_of(more).model.layers) sum += parameter_count(layer);
  return sum;
}

// A fork's words for what Megatron-Core says otherwise: the same model. Two of its experts' widths
// is what Megatron calls a shared expert of 256; its first block is dense.
TEST(MegatronSizes, HaveOtherNamesInForks) {
  const std::string common = "--num-experts 4 --moe-router-topk 2 --swiglu --ffn-hidden-size 2048 ";
  const std::string fork = common +
                           "--moe-intermediate-size 128 --n-shared-experts 2 "
                           "--first-k-dense-replace 1";
  const std::string core = common +
                           "--moe-ffn-hidden-size 128 "
                           "--moe-shared-expert-intermediate-size 256 "
                           "--moe-layer-freq ([0]*1+[1]*7)";
  EXPECT_EQ(parameters_of(fork), parameters_of("'" + core + "'"));
  EXPECT_LT(parameters_of(fork), parameters_of(common));
}

TEST(MegatronSizes, LatentAttentionHasOtherNamesToo) {
  const std::string fork =
      "--multi-head-latent-attention --kv-lora-rank 128 --qk-nope-head-dim 64 "
      "--qk-rope-head-dim 32 --v-head-dim 64";
  const std::string core =
      "--multi-latent-attention --kv-lora-rank 128 --qk-head-dim 64 "
      "--qk-pos-emb-head-dim 32 --v-head-dim 64";
  EXPECT_EQ(parameters_of(fork), parameters_of(core));
}

// h = 512: an MLP of 1024 for the usual 4 h = 2048, in each of 8 blocks, has 2 * 512 * 1024 weights
// and 1024 biases fewer.
TEST(MegatronSizes, IntermediateSizeIsTheMlps) {
  EXPECT_EQ(parameters_of("") - parameters_of("--intermediate-size 1024"),
            8 * (2 * 512 * 1024 + 1024));
}

// An unknown argument that names a size doubts the forecast, and one that names none does not.
TEST(MegatronSizes, AnUnknownSizeIsDoubted) {
  for (const char* size : {"--moe-adapter-hidden-size 64", "--memory-layers 3", "--swarm-heads 2",
                           "--ngram-embedding-dim 32", "--branch-experts 4", "--dt-rank 16"}) {
    const Job job = job_of(size);
    const std::string name = std::string(size).substr(2, std::string(size).find(' ') - 2);
    EXPECT_THAT(doubts_of({.tool = "megatron", .left_out = {name}}), ElementsAre(name));
    EXPECT_THAT(job.remarks.back().text, HasSubstr("in doubt")) << size;
  }
  EXPECT_TRUE(doubts_of({.tool = "megatron",
                         .left_out = {"num-workers", "log-interval", "moe-router-num-groups",
                                      "tensorboard-queue-size", "ddp-bucket-size"}})
                  .empty());
}

// Plans have a word for most modules; the others are doubted.
TEST(MegatronRecompute, ModulesThatNoPlanHasAreDoubted) {
  const std::string selective = "--recompute-granularity selective --recompute-modules ";
  EXPECT_EQ(recompute_word(job_of(selective + "moe layernorm").plan.recompute),
            "selective:layernorm+moe");
  EXPECT_EQ(recompute_word(job_of(selective + "'[mla_up_proj moe_act]'").plan.recompute),
            "selective:mla_up_proj+moe_act");
  EXPECT_EQ(recompute_word(job_of(selective + "shared_experts,moe_act").plan.recompute),
            "selective:moe_act+shared_experts");
  const Job none = job_of(selective + "mhc gdn_norm_out");
  EXPECT_EQ(none.plan.recompute.mode, RecomputeMode::none);
  EXPECT_THAT(none.remarks.back().text, HasSubstr("mhc gdn_norm_out: the plan rebuilds nothing"));
  EXPECT_THAT(doubts_of({.tool = "megatron", .left_out = {"recompute-modules"}}),
              ElementsAre("recompute-modules"));
}

// What makes memory less and is in no plan, whatever the tool's way of writing it.
TEST(Doubts, WhatIsLeanerThanThePlanIsKnown) {
  const SourceJob job{
      .tool = "nemo",
      .left_out = {"model.recompute_modules", "model.offload_modules", "optimizer.exp_avg_dtype",
                   "model.moe_paged_stash", "partition-activations", "overlap-p2p-communication",
                   "model.num_heads"}};
  EXPECT_THAT(
      leaner_than_planned(job),
      ElementsAre("model.recompute_modules", "model.offload_modules", "optimizer.exp_avg_dtype",
                  "model.moe_paged_stash", "partition-activations"));
}

// Adapters and frozen layers of other tools than NeMo's, by whatever name.
TEST(Adapters, AreRefusedByName) {
  for (const char* name : {"--lora-rank 8", "--peft-type lora", "--freeze-embedding",
                           "--target-modules linear_qkv", "--adapter-dim 4"})
    EXPECT_THAT(complaint([&] { static_cast<void>(job_of(name)); }),
                HasSubstr("Primus's and torchtitan's LoRA alone"))
        << name;
  EXPECT_EQ(names(job_of("--multi-latent-attention --q-lora-rank 64 --kv-lora-rank 64")),
            "qk-layernorm global-batch-size ");
}

// NeMo 1's file has the sections of all its schemes; the one that it names is read.
TEST(Adapters, OfNemo1AreRead) {
  const auto read = [](const std::string& scheme, const std::string& lora) {
    return read_nemo_job(
        "trainer: {devices: 1, num_nodes: 1, precision: bf16}\nmodel:\n  num_layers: 2\n"
        "  hidden_size: 64\n  num_attention_heads: 4\n  encoder_seq_length: 32\n"
        "  max_position_embeddings: 32\n  micro_batch_size: 1\n  global_batch_size: 1\n"
        "  peft:\n    peft_scheme: " +
            scheme + "\n    adapter_tuning: {adapter_dim: 32}\n    lora_tuning: {" + lora + "}\n",
        "job.yaml", {.vocabulary = 128});
  };
  const Job job = read("lora", "target_modules: [attention_qkv, mlp], adapter_dim: 8, alpha: 16");
  EXPECT_EQ(to_string(job.plan.lora.targets), "linear_qkv+linear_fc1+linear_fc2");
  EXPECT_EQ(job.plan.lora.rank, 8);
  EXPECT_TRUE(job.model.layers[1].treated.frozen);
  EXPECT_EQ(names(job).find("peft"), std::string::npos);
  EXPECT_EQ(to_string(read("lora", "adapter_dim: 8").plan.lora.targets), "linear_qkv");
  EXPECT_EQ(read("null", "adapter_dim: 8").plan.lora.rank, 0);
  EXPECT_THAT(complaint([&] { read("ptuning", "adapter_dim: 8"); }),
              HasSubstr("model.peft.peft_scheme: ptuning: adapters"));
  EXPECT_THAT(complaint([&] { read("lora", "target_modules: [router]"); }),
              HasSubstr("model.peft.lora_tuning.target_modules: router: adapters beside it"));
}

// (30 + 1 + 1) / 4 ranks / 4 layers a chunk = 2 chunks a rank; 8 stages of 4, the first and last
// one fewer. Megatron-LM counts the embedding and the loss before it divides.
TEST(MegatronStages, AccountedEndsCountInVirtualStages) {
  const auto boundaries = [](const std::string& more, int blocks = 30) {
    const std::string text = fmt::format(
        "pretrain_gpt.py --num-layers {} --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
        "--vocab-size 128 --micro-batch-size 1 --global-batch-size 8 --bf16 "
        "--pipeline-model-parallel-size 4 {}",
        blocks, more);
    return read_megatron_job(text, "job.sh", {.gpus = 4}).plan.boundaries;
  };
  EXPECT_THAT(boundaries("--num-layers-per-virtual-pipeline-stage 4 "
                         "--account-for-embedding-in-pipeline-split "
                         "--account-for-loss-in-pipeline-split"),
              ElementsAre(4, 8, 12, 16, 20, 24, 28));
  EXPECT_THAT(complaint([&] {
                static_cast<void>(boundaries("--num-layers-per-virtual-pipeline-stage 4"));
              }),
              HasSubstr("does not divide num-layers"));
  const std::string embedding = "--account-for-embedding-in-pipeline-split ",
                    loss = "--account-for-loss-in-pipeline-split ", both = embedding + loss;
  // One end, 31 + 1 = 4 * 8: that end's stage has 7 blocks. Both, 30 + 2: both have.
  EXPECT_THAT(boundaries(embedding, 31), ElementsAre(8, 16, 24));
  EXPECT_THAT(boundaries(loss, 31), ElementsAre(9, 17, 25));
  EXPECT_THAT(boundaries(both), ElementsAre(8, 16, 24));
  // Chunks by their number; 16 of 2 with one block at each end.
  EXPECT_THAT(boundaries(both + "--num-virtual-stages-per-pipeline-rank 2"),
              ElementsAre(4, 8, 12, 16, 20, 24, 28));
  EXPECT_THAT(boundaries(both + "--num-layers-per-virtual-pipeline-stage 2"),
              ElementsAre(2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
}

// ModelLink's list of blocks a stage: 4 stages of 2, 3, 3 and 2 begin at layers 3, 6 and 9.
TEST(MegatronStages, AListOfBlocks) {
  const auto boundaries = [](const std::string& list) {
    const std::string text =
        "pretrain_gpt.py --num-layers 10 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
        "--vocab-size 128 --micro-batch-size 1 --global-batch-size 8 --bf16 "
        "--pipeline-model-parallel-size 4 --num-layer-list " +
        list;
    return read_megatron_job(text, "job.sh", {.gpus = 4}).plan.boundaries;
  };
  EXPECT_THAT(boundaries("2,3,3,2"), ElementsAre(3, 6, 9));
  const auto refusal = [&](const std::string& list) {
    return complaint([&] { static_cast<void>(boundaries(list)); });
  };
  EXPECT_THAT(refusal("2,3,5"), HasSubstr("num-layer-list: has 3 stages of 10 blocks together"));
  EXPECT_THAT(refusal("2,3,3,3"), HasSubstr("11 blocks together; expected 4 of num-layers 10"));
  for (const char* wrong : {"2,3,,2", "a", "2,3,3,", "2.8", "-1,4,4,3"})
    EXPECT_THAT(refusal(wrong), HasSubstr("expected numbers of blocks")) << wrong;
}

// Blocks of another module may be anything; Mamba's are known not to be known.
TEST(MegatronSizes, BlocksOfAModuleAreDoubted) {
  const Job job = job_of("--spec my_package.layers my_spec");
  EXPECT_THAT(job.remarks.back().text, HasSubstr("in doubt"));
  EXPECT_THAT(doubts_of({.tool = "megatron", .left_out = {"spec"}}), ElementsAre("spec"));
  EXPECT_THAT(complaint([] {
                static_cast<void>(
                    job_of("--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec"));
              }),
              HasSubstr("--spec: not modelled: Mamba blocks"));
}

// A layout says how many stages there are; v beside it must be the same.
TEST(MegatronStages, LayoutAndVirtualStagesMayAgree) {
  const auto plan = [](const std::string& more, const std::string& layout) {
    const std::string text = fmt::format(
        "pretrain_gpt.py --num-layers 10 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
        "--vocab-size 128 --micro-batch-size 1 --global-batch-size 8 --bf16 "
        "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout '{}' {}",
        layout, more);
    return read_megatron_job(text, "job.sh", {.gpus = 2}).plan;
  };
  const auto vpp = [&](const std::string& more) { return plan(more, "Et*2|t*3|t*3|t*2L").vpp; };
  EXPECT_EQ(vpp("--num-virtual-stages-per-pipeline-rank 2"), 2);
  EXPECT_THAT(
      complaint([&] { static_cast<void>(vpp("--num-virtual-stages-per-pipeline-rank 4")); }),
      HasSubstr("4 contradicts the layout's 2 stages a rank"));
  // Blocks behind the embedding: 2 3 3 2; 4 2 2 2; 1 3 3 3; 1 2 2 2 2 1; 5 5.
  const std::string two = "--num-virtual-stages-per-pipeline-rank 2";
  EXPECT_THAT(plan(two, "Ett|ttt|ttt|ttL").boundaries, ElementsAre(3, 6, 9));
  EXPECT_THAT(plan(two, "Et*4|t*2|t*2|t*2L").boundaries, ElementsAre(5, 7, 9));
  EXPECT_THAT(plan(two, "Et|t*3|t*3|t*3L").boundaries, ElementsAre(2, 5, 8));
  EXPECT_THAT(plan("--num-virtual-stages-per-pipeline-rank 3", "Et|(tt|)*4tL").boundaries,
              ElementsAre(2, 4, 6, 8, 10));
  EXPECT_THAT(plan("", "Et*5|t*5L").boundaries, ElementsAre(6));
}

}  // namespace
}  // namespace weir::sizes_test
