// Activations with the host in Megatron's words and in DeepSpeed's: which share of what blocks keep
// a module has, and what Megatron takes beside it.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "plan/job/recompute.hpp"
#include "plan/text/strict_json.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tests/tools/jobs/trainer_plans.hpp"
#include "tools/jobs/deepspeed/import.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/job/offload_modules.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::offload_jobs_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSection = "activation_checkpointing.cpu_checkpointing";

std::string said(const Job& job, std::string_view name) {
  for (const Remark& remark : job.remarks)
    if (remark.name == name) return remark.text;
  return "";
}

// One dense block and seven with 4 experts of which a token visits 2. Of 64 numbers, 4 heads, an
// MLP of 256 and experts of 128, both without a gate, a token leaves of attention
// 64 + 64 + 192 + 64 numbers and of the MLP's input 64, 896 bytes; 8 and 4 x 4 bytes of statistics
// and 128 of dropout's: 1048. In the dense block's MLP 2 (64 + 256 + 256): 2200 in all; at experts
// 2 (64 behind the norm, 2 x 64 visits, 3 times 2 x 128) and 18 x 4 of the router's: 3040. All
// blocks: 23480.
const std::string kMixed =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --vocab-size 1000 --micro-batch-size 1 --global-batch-size 16 "
    "--ffn-hidden-size 256 --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 128 "
    "--moe-layer-freq \"([0]*1+[1]*7)\" --fine-grained-activation-offloading ";
constexpr const char* kMoe = " --recompute-granularity selective --recompute-modules moe";

Job mixed(const std::string& more) {
  return read_megatron_job(kMixed + more, "job.args", {.dp = 1});
}
double share(const std::string& more) { return mixed(more).plan.offload_activations; }
std::string refusal(const std::string& more) {
  return complaint([&] { static_cast<void>(mixed(more)); });
}

TEST(OffloadedModules, AreCountedInAllBlocks) {
  EXPECT_DOUBLE_EQ(share("--offload-modules expert_fc1 moe_act"), 7 * 768.0 / 23480);
  EXPECT_DOUBLE_EQ(share("--offload-modules core_attn expert_fc1"),
                   (8 * 384.0 + 7 * 256.0) / 23480);
  // Shared experts of 32 keep 3 x 32 numbers more, and offload none.
  EXPECT_DOUBLE_EQ(share("--moe-shared-expert-intermediate-size 32 --offload-modules moe_act"),
                   7 * 512.0 / (23480 + 7 * 192));
}

// In 8 bits what products read has a byte, and the core's result one more for its product: of the
// dense block's attention 64 less and 64 more, of its MLP 64 + 256 less, of the other blocks'
// visits 2 x 64 and of their activation 2 x 128.
TEST(OffloadedModules, MayBeIn8Bits) {
  const double dense = 2200 - 64 + 64 - 64 - 256, routed = 3040 - 64 + 64 - 128 - 256;
  const std::string eight = " --bf16 --fp8-format hybrid --fp8-recipe tensorwise";
  EXPECT_DOUBLE_EQ(share("--offload-modules expert_fc1 moe_act" + eight),
                   7 * (128 + 512.0) / (dense + 7 * routed));
  EXPECT_DOUBLE_EQ(share("--offload-modules qkv_linear" + eight), 8 * 64.0 / (dense + 7 * routed));
}

TEST(OffloadedModules, AreASet) {
  EXPECT_DOUBLE_EQ(share("--offload-modules moe_act moe_act moe_act moe_act moe_act moe_act "
                         "moe_act"),
                   7 * 512.0 / 23480);
  EXPECT_EQ(refusal("--offload-modules attn_proj"),
            "job.args: --offload-modules: attn_proj: needs core_attn beside it");
  EXPECT_THAT(refusal("--offload-modules gdp_qkv"), HasSubstr("gdp_qkv: expected attn_norm"));
}

// A threshold above Megatron's own keeps smaller tensors on the device, which a share does not say.
TEST(OffloadedModules, SmallerTensorsThatStayAreTold) {
  const auto told = [](const std::string& least) {
    const Job job = mixed("--offload-modules moe_act --min-offloaded-tensor-size " + least);
    for (const Remark& remark : job.remarks)
      if (remark.name == "min-offloaded-tensor-size") return remark.text;
    return std::string();
  };
  EXPECT_EQ(told("1048576"), "");
  EXPECT_THAT(told("350000000"), HasSubstr("350000000: not modelled"));
}

// Whole layers go in no pipeline and beside no re-materialisation.
TEST(OffloadedLayers, GoAlone) {
  const auto layers = [](const std::string& more) {
    return complaint([&] {
      static_cast<void>(read_megatron_job(
          "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
          "--max-position-embeddings 32 --vocab-size 1000 --micro-batch-size 1 "
          "--global-batch-size 16 --cpu-offloading --cpu-offloading-num-layers 4 " +
              more,
          "job.args", {.dp = 1}));
    });
  };
  EXPECT_EQ(layers(""), "no complaint");
  EXPECT_THAT(layers("--pipeline-model-parallel-size 2"), HasSubstr("expected no pipeline"));
  EXPECT_THAT(layers("--recompute-granularity full --recompute-method uniform"),
              HasSubstr("expected no re-materialisation"));
}

// What is made again is not kept: of the dense block 2200 are left, of the others 1048 each.
TEST(OffloadedModules, AreOfWhatIsKept) {
  EXPECT_DOUBLE_EQ(share(std::string("--offload-modules core_attn") + kMoe),
                   8 * 384.0 / (2200 + 7 * 1048));
  EXPECT_EQ(refusal(std::string("--offload-modules core_attn moe_act") + kMoe),
            "job.args: --offload-modules: moe_act: excluded by moe of --recompute-modules");
  EXPECT_THAT(
      refusal("--offload-modules core_attn --recompute-granularity full "
              "--recompute-method uniform --recompute-num-layers 1"),
      HasSubstr("--fine-grained-activation-offloading: blocks that are rebuilt as a whole"));
}

TEST(OffloadedModules, AreNamedWhereABlockHasThem) {
  const Model model = mixed("--offload-modules core_attn").model;
  Recompute recompute;
  EXPECT_EQ(offload_modules(model, recompute),
            "attn_norm qkv_linear core_attn attn_proj mlp_norm expert_fc1 moe_act");
  recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::moe};
  EXPECT_EQ(offload_modules(model, recompute), "attn_norm qkv_linear core_attn attn_proj mlp_norm");
  EXPECT_DOUBLE_EQ(offloadable_share(model, recompute), 8 * 896.0 / (2200 + 7 * 1048));
  EXPECT_FALSE(is_offload_module(""));
}

// DeepSpeed's checkpoints, of which the inputs go: in the plan where the script rebuilds every
// block; of others more would go by a plan's share than there.
TEST(DeepSpeedCheckpoints, AreWithTheHostWhereBlocksAreRebuilt) {
  const Model model = llama_like(8);
  const auto read = [&](const char* recompute, const std::string& more) {
    JobOptions options{.gpus = 8, .model = &model};
    options.given.recompute = parse_recompute_word(recompute);
    return read_deepspeed_job(R"({"train_micro_batch_size_per_gpu": 1,
                                  "activation_checkpointing": {"cpu_checkpointing": true)" +
                                  more + "}}",
                              "ds.json", options);
  };
  for (const char* every : {"full", "full:2"}) {
    EXPECT_EQ(read(every, "").plan.offload_activations, 1) << every;
    EXPECT_EQ(said(read(every, ""), kSection), "") << every;
  }
  for (const char* other : {"none", "stage", "selective", "2-5"}) {
    EXPECT_EQ(read(other, "").plan.offload_activations, 0) << other;
    EXPECT_THAT(said(read(other, ""), kSection),
                HasSubstr(std::string("(recompute full); with ") + other))
        << other;
  }
  // That path copies while the device waits.
  const Job divided = read("full", R"(, "partition_activations": true)");
  EXPECT_EQ(divided.plan.offload_activations, 1);
  EXPECT_THAT(said(divided, kSection), HasSubstr("as a stack's `blocking_offload` has it"));
}

// GPT-NeoX and Megatron-DeepSpeed configure DeepSpeed's checkpoints by words of their own, before
// its section; divided among two devices an input's half is copied.
TEST(DeepSpeedCheckpoints, OfOtherTrainersAreTheirOwnWords) {
  const auto neox = [](const std::string& more) {
    return read_neox_job(
        "num_layers: 4\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 32\n"
        "train_micro_batch_size_per_gpu: 1\nmodel_parallel_size: 2\n"
        "checkpoint_activations: true\n" +
            more,
        "job.yml", {.dp = 4});
  };
  EXPECT_EQ(neox("").plan.offload_activations, 0);
  EXPECT_EQ(neox("checkpoint_in_cpu: true").plan.offload_activations, 1);
  EXPECT_EQ(neox("checkpoint_in_cpu: true\ndeepspeed_activation_checkpointing: false")
                .plan.offload_activations,
            0);
  EXPECT_THAT(
      said(neox("checkpoint_in_cpu: true\npartition_activations: true"), "checkpoint_in_cpu"),
      HasSubstr("they are of 1 in 2 of an input there, of all of it in the plan"));
  const Job section = neox("activation_checkpointing: {cpu_checkpointing: true}");
  EXPECT_EQ(section.plan.offload_activations, 0);
  EXPECT_EQ(said(section, kSection), kArgumentsSayIt);

  const auto megatron = [](const std::string& more) {
    return read_megatron_job(
        "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
        "--max-position-embeddings 32 --vocab-size 1000 --micro-batch-size 1 "
        "--global-batch-size 16 --checkpoint-activations --checkpoint-in-cpu " +
            more,
        "job.args", {.dp = 8});
  };
  const Job own = megatron("--deepspeed-activation-checkpointing");
  EXPECT_EQ(own.plan.offload_activations, 1);
  EXPECT_EQ(said(own, "checkpoint-in-cpu"), "");
  EXPECT_EQ(megatron("").plan.offload_activations, 0);
  EXPECT_THAT(said(megatron(""), "checkpoint-in-cpu"),
              HasSubstr("without effect, where --deepspeed-activation-checkpointing is not said"));
  EXPECT_THAT(said(megatron("--deepspeed-activation-checkpointing --partition-activations"),
                   "checkpoint-in-cpu"),
              HasSubstr("copies are waited for"));
}

// All of them, or the plan is refused by the row; the script hands the section on, which the engine
// does not.
TEST(DeepSpeedCheckpoints, GoOutAgain) {
  Plan plan = trainer_plans::pipeline(2, 1, 4);
  plan.recompute.mode = RecomputeMode::full;
  const auto written = [&] { return export_deepspeed(loaded(plan, llama_like(8)), {}); };
  EXPECT_THAT(written().files[0].text, Not(HasSubstr("activation_checkpointing")));
  EXPECT_THAT(written().files[1].text, HasSubstr("\nCHECKPOINTS_IN_CPU = False "));
  plan.offload_activations = 1;
  const ExportedJob job = written();
  const Json config = parse_json(job.files[0].text, "ds_config.json");
  EXPECT_EQ(config["activation_checkpointing"], (Json{{"cpu_checkpointing", true}}));
  EXPECT_THAT(job.files[1].text,
              AllOf(HasSubstr("\nCHECKPOINTS_IN_CPU = True "),
                    HasSubstr("deepspeed.checkpointing.configure(None, checkpoint_in_cpu=True)")));
  const auto refused = [&] { return complaint([&] { static_cast<void>(written()); }); };
  plan.offload_activations = 0.5;
  EXPECT_THAT(refused(), HasSubstr("(row deepspeed/offload-activations)"));
  plan.offload_activations = 1;
  plan.recompute.mode = RecomputeMode::none;
  EXPECT_THAT(refused(), HasSubstr("(row deepspeed/offload-activations)"));
}

// The user's own file, in which a plan without the word takes it away; of a model that says how
// many positions it has, and not how many are trained.
TEST(DeepSpeedCheckpoints, AreChangedInTheUsersFile) {
  Model model = llama_like(8);
  model.seq_length = 0;
  model.max_positions = 256;
  JobOptions options{.gpus = 1, .model = &model};
  options.given.seq_length = 128;
  options.given.recompute = Recompute{.mode = RecomputeMode::full};
  const Job read = read_deepspeed_job(
      R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
          "activation_checkpointing": {"cpu_checkpointing": true, "profile": false,
                                       "partition_activations": true}})",
      "ds.json", options);
  Plan plan = read.plan;
  ASSERT_EQ(plan.offload_activations, 1);
  plan.job = {.tool = "deepspeed", .devices = 1, .left_out = {}, .lines = read.lines};
  const auto away = [&] {
    const ExportedJob job = export_deepspeed(loaded(plan, model), {});
    const Json section =
        parse_json(job.files[0].text, "ds_config.json").at("activation_checkpointing");
    EXPECT_EQ(section.at("profile"), false);
    EXPECT_EQ(section.at("partition_activations"), true);
    EXPECT_TRUE(std::ranges::any_of(job.not_carried, [](const Remark& remark) {
      return remark.name == "activation_checkpointing.partition_activations";
    }));
    return section.at("cpu_checkpointing").get<bool>();
  };
  EXPECT_TRUE(away());
  plan.offload_activations = 0;
  EXPECT_FALSE(away());
  // What a script rebuilds by itself the plan does not know, and the file stays as it is.
  plan.recompute.mode = RecomputeMode::none;
  EXPECT_TRUE(away());
}

}  // namespace
}  // namespace weir::offload_jobs_test
