// What a user says beside a job fills what the job leaves open, and contradicts what it says.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/model/readers/model_import.hpp"
#include "plan/words/error.hpp"
#include "tests/tools/jobs/started_job.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::given_test {
namespace {

using testing::HasSubstr;

// What a user is told of an option.
template <class Action>
std::string refusal(Action&& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no refusal";
}

// Sizes alone, as model files of other frameworks have them.
const std::string kOpen =
    "MODEL_ARGS=( --num-layers 8 --hidden-size 1024 --num-attention-heads 8 --vocab-size 32000 )\n";

// 8 devices, M = 4 of b = 2: G = 2 * 4 * 8 = 64.
TEST(GivenFields, FillAMegatronJob) {
  const GivenFields given{.seq_length = 4096,
                          .dtype = Dtype::bf16,
                          .micro_batch_size = 2,
                          .microbatches = 4,
                          .attention = AttentionKind::unfused,
                          .recompute = Recompute{.mode = RecomputeMode::full}};
  const Plan plan = read_megatron_job(kOpen, "sizes.sh", {.gpus = 8, .given = given}).plan;
  EXPECT_EQ(plan.seq_length, 4096);
  EXPECT_EQ(plan.dtype, Dtype::bf16);
  EXPECT_EQ(plan.micro_batch_size, 2);
  EXPECT_EQ(plan.microbatches, 4);
  EXPECT_EQ(plan.global_batch_size(), 64);
  EXPECT_EQ(plan.attention, AttentionKind::unfused);
  EXPECT_EQ(plan.recompute.mode, RecomputeMode::full);
}

// b of G and M: 64 / (4 * 8) = 2.
TEST(GivenFields, TwoOfThreeBatchSizesGiveTheThird) {
  const JobOptions options{
      .gpus = 8, .given = {.seq_length = 128, .microbatches = 4, .global_batch_size = 64}};
  EXPECT_EQ(read_megatron_job(kOpen, "sizes.sh", options).plan.micro_batch_size, 2);
}

// A file that speaks is contradicted by another value, and not by its own; an unknown variable and
// "auto" say nothing.
TEST(GivenFields, ContradictWhereTheFileSpeaks) {
  const auto plan = [](const std::string& more, const GivenFields& given) {
    return read_megatron_job("pretrain_gpt.py" + kSizes + more, "job.sh",
                             {.gpus = 1, .given = given})
        .plan;
  };
  const auto refused = [&](const std::string& more, const GivenFields& given) {
    return refusal([&] { static_cast<void>(plan(more, given)); });
  };
  EXPECT_EQ(plan("--micro-batch-size 1", {.seq_length = 1024}).seq_length, 1024);
  EXPECT_EQ(refused("--micro-batch-size 1", {.seq_length = 4096}),
            "seq-length 4096 contradicts job.sh, which says --seq-length 1024");
  EXPECT_THAT(refused("--micro-batch-size 1", {.micro_batch_size = 2}), HasSubstr("contradicts"));
  EXPECT_THAT(refused("--micro-batch-size 1", {.dtype = Dtype::fp16}),
              HasSubstr("dtype fp16 contradicts the job, which says --bf16"));
  EXPECT_THAT(
      refused("--micro-batch-size 1 --use-flash-attn", {.attention = AttentionKind::unfused}),
      HasSubstr("attention unfused contradicts"));
  EXPECT_THAT(refused("--micro-batch-size 1 --recompute-activations",
                      {.recompute = Recompute{.mode = RecomputeMode::full}}),
              HasSubstr("recompute full contradicts job.sh, which says selective"));
  EXPECT_THAT(refused("--micro-batch-size 1 --global-batch-size 8", {.microbatches = 4}),
              HasSubstr("microbatches 4 contradicts job.sh: 4 micro-batches of 1 times 1 replicas "
                        "are not 8 samples a step"));
  EXPECT_EQ(plan("--micro-batch-size $MBS", {.micro_batch_size = 2}).micro_batch_size, 2);
  EXPECT_EQ(
      plan("--micro-batch-size 1 --attention-backend auto", {.attention = AttentionKind::unfused})
          .attention,
      AttentionKind::unfused);
}

// The file of a Hugging Face job, in which every number is the training script's: 8 devices, b = 2
// and M = 4.
TEST(GivenFields, FillWhatDeepSpeedCallsAuto) {
  const std::string open =
      R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
          "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"},
          "zero_optimization": {"stage": 2}})";
  const Model model = load_model(WEIR_SOURCE_DIR "/tools/examples/models/gpt2-mini.json");
  const GivenFields given{.seq_length = 64,
                          .dtype = Dtype::bf16,
                          .micro_batch_size = 2,
                          .microbatches = 4,
                          .attention = AttentionKind::unfused};
  const Plan plan =
      read_deepspeed_job(open, "ds.json", {.gpus = 8, .model = &model, .given = given}).plan;
  EXPECT_EQ(plan.global_batch_size(), 64);
  EXPECT_EQ(plan.zero, 2);
  EXPECT_EQ(plan.attention, AttentionKind::unfused);
  const std::string says = R"({"train_micro_batch_size_per_gpu": 4})";
  EXPECT_THAT(refusal([&] {
                static_cast<void>(read_deepspeed_job(says, "ds.json",
                                                     {.gpus = 8, .model = &model, .given = given}));
              }),
              HasSubstr("micro-batch-size 2 contradicts ds.json, which says "
                        "train_micro_batch_size_per_gpu: 4"));
}

// torchtitan: a pipeline of two, whose local batch is b M.
TEST(GivenFields, FillATorchtitanJob) {
  const std::string open =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nsteps = 10\n"
      "[parallelism]\npipeline_parallel_degree = 2\n";
  const GivenFields given{.seq_length = 512, .micro_batch_size = 2, .microbatches = 4};
  const Plan plan = read_torchtitan_job(open, "job.toml", {.gpus = 8, .given = given}).plan;
  EXPECT_EQ(plan.seq_length, 512);
  EXPECT_EQ(plan.micro_batch_size, 2);
  EXPECT_EQ(plan.microbatches, 4);
  EXPECT_THAT(refusal([&] {
                static_cast<void>(read_torchtitan_job(
                    open, "job.toml", {.gpus = 8, .given = {.attention = AttentionKind::unfused}}));
              }),
              HasSubstr("attention unfused contradicts job.toml"));
}

// Of G = 64 on 8 devices with M = 4: b = 2; and NeMo's keys are filled as Megatron's are.
TEST(GivenFields, FillANemoJob) {
  const std::string open =
      "trainer: {devices: 8, num_nodes: 1, precision: bf16}\nmodel:\n  num_layers: 2\n"
      "  hidden_size: 64\n  num_attention_heads: 4\n  global_batch_size: 64\n";
  const Plan plan =
      read_nemo_job(open, "job.yaml",
                    {.vocabulary = 128, .given = {.seq_length = 32, .microbatches = 4}})
          .plan;
  EXPECT_EQ(plan.micro_batch_size, 2);
  EXPECT_EQ(plan.seq_length, 32);
}

}  // namespace
}  // namespace weir::given_test
