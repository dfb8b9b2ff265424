// Mini-batches that the number of micro-batches does not divide: every sample counts alike, whoever
// takes it.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/weights/safetensors.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/copied_transport.hpp"
#include "tests/exec/peaks.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::unequal_test {
namespace {

using testing::ElementsAre;

RunOptions steps(int count) {
  RunOptions options;
  options.steps = count;
  options.warmup_steps = 0;
  options.trace = false;  // the tests' transport keeps no times
  return options;
}

// 10 samples in 4 micro-batches: 3, 3, 2 and 2.
Plan ten_of(const TinyModel& model, std::vector<int> boundaries, const char* schedule = "1f1b") {
  Plan plan = model.plan(std::move(boundaries), 4, schedule);
  plan.micro_batch_size = 3;
  plan.samples = 10;
  plan.slots = 0;
  return plan;
}

RunResult processes(const TinyModel& model, const Plan& plan, const RunOptions& options) {
  return run_as_threads(
             model.load(plan), options, [](int) { return cpu_only(); }, copied_links())
      .leaders;
}

TEST(UnequalMicrobatches, AreDealtAsTensorSplitDoes) {
  const TinyModel model;
  const Plan plan = ten_of(model, {});
  EXPECT_EQ(plan.global_batch_size(), 10);
  std::vector<std::int64_t> sizes, first;
  for (int m = 0; m < 4; ++m) {
    sizes.push_back(plan.samples_of(m));
    first.push_back(plan.first_sample(m));
  }
  EXPECT_THAT(sizes, ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(first, ElementsAre(0, 3, 6, 8));
  const Plan even = model.plan({}, 4);
  EXPECT_EQ(even.samples_of(3), 2);
  EXPECT_EQ(even.first_sample(3), 6);
}

TEST(UnequalMicrobatches, ReadBackAsWritten) {
  const TinyModel model;
  const std::string text = to_json(ten_of(model, {2}));
  EXPECT_THAT(text, testing::HasSubstr("\"global_batch_size\": 10"));
  EXPECT_EQ(to_json(parse_plan(text, "p.json")), text);
  for (const int samples : {8, 12}) {
    Plan wrong = ten_of(model, {2});
    wrong.samples = samples;
    EXPECT_THROW(static_cast<void>(parse_plan(to_json(wrong), "p.json")), InputError) << samples;
  }
}

// The mean over the mini-batch is the mean of its samples, not of its micro-batches: five steps of
// the undivided model have the same losses to fp32's rounding. A mean of means would weigh the
// samples of the smaller ones 3 / 2 as much.
TEST(UnequalMicrobatches, TrainAsTheUndividedModel) {
  const TinyModel model(true, 0.0);
  Plan whole = model.plan({}, 1);
  whole.micro_batch_size = 10;
  Plan parts = ten_of(model, {2}), replicas = parts;
  replicas.microbatches = 2;
  replicas.dp = 2;
  for (Plan* plan : {&whole, &parts, &replicas}) plan->optimizer.learning_rate = 1e-2;
  const RunResult expected = run(model.load(whole), steps(5), cpu_only());
  const RunResult divided = run(model.load(parts), steps(5), cpu_only());
  const RunResult replicated = processes(model, replicas, steps(5));
  for (std::size_t i = 0; i < expected.steps.size(); ++i) {
    EXPECT_NEAR(divided.steps[i].loss, expected.steps[i].loss, 2e-5) << i;
    EXPECT_NEAR(replicated.steps[i].loss, expected.steps[i].loss, 2e-5) << i;
  }
  EXPECT_LT(expected.steps.back().loss, expected.steps.front().loss - 0.01);
}

TEST(UnequalMicrobatches, AreBitwiseAlikeInEveryPipeline) {
  const TinyModel model;
  const auto hash = [&](const Plan& plan) {
    return run(model.load(plan), steps(3), cpu_only()).parameters_sha256;
  };
  const std::string expected = hash(ten_of(model, {}, "gpipe"));
  for (const RecomputeMode mode :
       {RecomputeMode::none, RecomputeMode::full, RecomputeMode::stage}) {
    for (Plan plan : {ten_of(model, {3}), ten_of(model, {1, 4}, "zb-h1")}) {
      plan.recompute.mode = mode;
      EXPECT_EQ(hash(plan), expected);
      EXPECT_EQ(processes(model, plan, steps(3)).parameters_sha256, expected);
    }
  }
}

// Logits and losses of the samples that there are: a dump has 10, not 12.
TEST(UnequalMicrobatches, DumpEverySampleOnce) {
  const TinyModel model;
  RunOptions options = steps(1);
  const auto folder =
      std::filesystem::temp_directory_path() / ("weir-exec-test-" + std::to_string(::getpid()));
  const auto logits = [&](const Plan& plan, bool threads) {
    options.dump = folder / "dump.safetensors";
    static_cast<void>(threads ? run(model.load(plan), options, cpu_only())
                              : processes(model, plan, options));
    const SafetensorsFile file(*options.dump);
    EXPECT_THAT(file.tensors().at("logits").shape, ElementsAre(10, 8, 32));
    EXPECT_THAT(file.tensors().at("tokens").shape, ElementsAre(10, 9));
    return to_floats(file.tensors().at("logits"), "logits");
  };
  const std::vector<float> one = logits(ten_of(model, {}), true);
  EXPECT_EQ(logits(ten_of(model, {2}), true), one);
  EXPECT_EQ(logits(ten_of(model, {2}), false), one);
  for (std::size_t sample = 0; sample < 10; ++sample) EXPECT_NE(one[sample * 8 * 32], 0) << sample;
}

// Every tensor has room for the largest micro-batch's, and the forecast says so.
TEST(UnequalMicrobatches, ArePredictedInMemory) {
  const TinyModel model;
  const ResolvedPlan loaded = model.load(ten_of(model, {3}));
  const RunResult result = run(loaded, traced_steps(3), cpu_only());
  const auto peaks = peaks_of_all_steps(loaded, result);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    const auto measured = static_cast<double>(result.peak_memory[rank].count());
    EXPECT_NEAR(static_cast<double>(peaks[rank].peak.count()), measured,
                0.01 * measured + 3 * 8 * 16 * 4);
  }
}

TEST(UnequalMicrobatches, GoOnFromACheckpoint) {
  const TinyModel model;
  const auto folder = std::filesystem::temp_directory_path() /
                      ("weir-exec-test-" + std::to_string(::getpid())) / "out";
  const RunResult whole = run(model.load(ten_of(model, {2})), steps(4), cpu_only());
  RunOptions options = steps(2);
  options.output = folder;
  options.checkpoint_every = 2;
  static_cast<void>(run(model.load(ten_of(model, {2})), options, cpu_only()));
  options.resume = folder;
  options.checkpoint_every = 0;
  EXPECT_EQ(run(model.load(ten_of(model, {1, 4}, "gpipe")), options, cpu_only()).parameters_sha256,
            whole.parameters_sha256);
}

}  // namespace
}  // namespace weir::unequal_test
