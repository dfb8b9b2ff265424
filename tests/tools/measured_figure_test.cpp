// FLOP/s by the count of whoever measured them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare/measured_figure.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/layers/layer_math.hpp"
#include "plan/model/decoder.hpp"
#include "tests/plan/complaint.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir::app::measured_figure_test {
namespace {

using testing::HasSubstr;

// h 64, 4 heads of 16, no biases, a head of 128: of s tokens a sample's forward is 2 s (4 h^2 + 8
// h^2) a block for weights, 4 s^2 h for the core, and 2 s h 128 for the head. With 2 blocks and s =
// 256: 2 (6,291,456 * 4 + 16,777,216) + 4,194,304, of which cores are 33,554,432.
ResolvedPlan of_job(const std::string& tool, std::vector<std::string> lines = {}) {
  TransformerShape block{.hidden = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 256};
  const EmbeddingShape embedding{.vocabulary = 128, .hidden = 64};
  ResolvedPlan plan;
  plan.model = decoder_model(usual_decoder(embedding, block, 2), 256);
  plan.plan.seq_length = 256;
  plan.plan.job = {.tool = tool, .devices = 1, .left_out = {}, .lines = std::move(lines)};
  return plan;
}

double whole_of(const std::string& text, const ResolvedPlan& plan) {
  MeasuredFigure figure = parse_plain_figure(text, "--measured");
  static_cast<void>(count_whole(figure, plan));
  return figure.value / 1e12;
}

// With c of all FLOPs in the cores, half of them counted says 1 - c / 2 of the rate.
TEST(AttentionCount, MegatronsHalfIsBroughtToTheWhole) {
  const ResolvedPlan job = of_job("megatron");
  const double cores = 3 * 2 * 4.0 * 256 * 256 * 64;
  const double share = cores / training_flops(job.model, 256).count();
  EXPECT_NEAR(whole_of("100TFLOPs", job), 100 / (1 - share / 2), 1e-6);
  EXPECT_NEAR(whole_of("100TFLOPs:half", job), 100 / (1 - share / 2), 1e-6);
  EXPECT_EQ(whole_of("100TFLOPs:whole", job), 100);
}

// torchtitan, a plan by hand, DeepSpeed and Megatron's forks count all of it.
TEST(AttentionCount, OthersCountAll) {
  for (const char* tool : {"torchtitan", "", "neox", "deepspeed"})
    EXPECT_EQ(whole_of("100TFLOPs", of_job(tool)), 100) << tool;
  EXPECT_EQ(whole_of("100TFLOPs", of_job("megatron", {"--deepspeed", "--zero-stage 1"})), 100);
  EXPECT_GT(whole_of("100TFLOPs:half", of_job("torchtitan")), 100);
  EXPECT_EQ(whole_of("100tok/s", of_job("megatron")) * 1e12, 100);
}

TEST(AttentionCount, IsSaid) {
  const auto said = [](const std::string& text, const std::string& tool) {
    MeasuredFigure figure = parse_plain_figure(text, "--measured");
    return count_whole(figure, of_job(tool)).value_or("nothing");
  };
  EXPECT_EQ(said("100TFLOPs", "megatron"),
            "100TFLOPs: FLOPs with half of the causal attention, as Megatron's logs have it since "
            "March 2025; :whole says all");
  EXPECT_EQ(said("100TFLOPs", "torchtitan"),
            "100TFLOPs: FLOPs with all of the causal attention, as torchtitan counts; :half says "
            "half");
  EXPECT_EQ(said("3s", "megatron"), "nothing");
  try {
    static_cast<void>(parse_plain_figure("3s:half", "--measured"));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(":half and :whole say how TFLOPs count attention"));
  }
}

// A log of 96 layers is none of a model of 2.
TEST(RequireSameJob, LayersAreCompared) {
  const ResolvedPlan plan = of_job("megatron");
  JobLogSummary log;
  log.arguments = {{"num_layers", 96}};
  EXPECT_EQ(complaint([&] { require_same_job(log, plan, "p.json"); }),
            "p.json: is of num_layers 2, the log's job of 96");
  for (const char* other : {"seq_length", "global_batch_size", "micro_batch_size",
                            "tensor_model_parallel_size", "pipeline_model_parallel_size"}) {
    log.arguments = {{other, 96}};
    EXPECT_THAT(complaint([&] { require_same_job(log, plan, "p.json"); }),
                HasSubstr(fmt::format("p.json: is of {} ", other)))
        << other;
  }
  log.arguments = {{"num_layers", 2}, {"hidden_size", 64}};
  EXPECT_EQ(complaint([&] { require_same_job(log, plan, "p.json"); }), "no complaint");
}

}  // namespace
}  // namespace weir::app::measured_figure_test
