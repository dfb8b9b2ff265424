// Gradients clipped by the norm of all of them: the norm that plain descent shows, and the same
// bits whatever the pipeline and whoever carries the squares.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "exec/weights/safetensors.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/copied_transport.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::clipping_test {
namespace {

constexpr double kNorm = 0.05;  // below the tiny model's, of about 1

RunOptions steps(int count) {
  RunOptions options;
  options.steps = count;
  options.warmup_steps = 0;
  options.trace = false;  // the tests' transport keeps no times
  return options;
}

std::string hash_after(const TinyModel& model, const Plan& plan) {
  return run(model.load(plan), steps(3), cpu_only()).parameters_sha256;
}

// All weights after so many steps, each tied one once.
std::vector<float> weights_after(const TinyModel& model, const Plan& plan, int count) {
  RunOptions options = steps(count);
  options.save = std::filesystem::temp_directory_path() /
                 ("weir-exec-test-" + std::to_string(::getpid())) / "saved.safetensors";
  static_cast<void>(run(model.load(plan), options, cpu_only()));
  const SafetensorsFile file(*options.save);
  std::vector<float> all;
  for (const auto& [name, tensor] : file.tensors()) {
    const std::vector<float> values = to_floats(tensor, name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// With rate 1 a step of plain descent is the gradient: unclipped it has its norm, clipped kNorm and
// the same direction. The head is tied, so a table counted twice would show.
TEST(Clipping, MovesTheWeightsByTheClippedGradient) {
  const TinyModel model;
  Plan plan = model.plan({2}, 4);
  plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1};
  const std::vector<float> before = weights_after(model, plan, 0);
  const std::vector<float> free = weights_after(model, plan, 1);
  plan.optimizer.clip_norm = kNorm;
  const std::vector<float> clipped = weights_after(model, plan, 1);
  double norm = 0, clipped_norm = 0, along = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double g = static_cast<double>(before[i]) - free[i];
    const double c = static_cast<double>(before[i]) - clipped[i];
    norm += g * g;
    clipped_norm += c * c;
    along += g * c;
  }
  EXPECT_GT(std::sqrt(norm), 2 * kNorm);
  EXPECT_NEAR(std::sqrt(clipped_norm), kNorm, 1e-4 * kNorm);
  EXPECT_NEAR(along / std::sqrt(norm * clipped_norm), 1, 1e-6);
}

TEST(Clipping, ANormAboveTheGradientsChangesNothing) {
  const TinyModel model;
  Plan plan = model.plan({2}, 4);
  const std::string free = hash_after(model, plan);
  plan.optimizer.clip_norm = 1e6;
  EXPECT_EQ(hash_after(model, plan), free);
}

// The norm that a step reports is that of the gradients it leaves, the same bits by threads and by
// processes, in the report while it runs too; without clipping there is none.
TEST(Clipping, EachStepSaysItsNorm) {
  const TinyModel model;
  Plan plan = model.plan({2, 4}, 4);
  RunOptions options = steps(2);
  EXPECT_EQ(run(model.load(plan), options, cpu_only()).steps[0].gradient_norm, std::nullopt);
  plan.optimizer.clip_norm = kNorm;
  options.dump = std::filesystem::temp_directory_path() /
                 ("weir-exec-test-" + std::to_string(::getpid())) / "dumped.safetensors";
  std::vector<std::optional<double>> reported;
  options.on_step = [&](const StepReport& r) { reported.push_back(r.gradient_norm); };
  const RunResult threads = run(model.load(plan), options, cpu_only());
  double squares = 0;
  const SafetensorsFile file(*options.dump);
  for (const auto& [name, tensor] : file.tensors()) {
    if (name == "logits" || name == "tokens") continue;
    for (const float value : to_floats(tensor, name))
      squares += static_cast<double>(value) * static_cast<double>(value);
  }
  ASSERT_EQ(threads.steps.size(), 2U);
  EXPECT_NEAR(threads.steps[1].gradient_norm.value(), std::sqrt(squares), 1e-9);
  EXPECT_NE(threads.steps[0].gradient_norm, threads.steps[1].gradient_norm);
  EXPECT_THAT(reported,
              testing::ElementsAre(threads.steps[0].gradient_norm, threads.steps[1].gradient_norm));
  const RunResult processes =
      run_as_threads(
          model.load(plan), steps(2), [](int) { return cpu_only(); }, copied_links())
          .leaders;
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(processes.steps[i].gradient_norm, threads.steps[i].gradient_norm) << i;
}

// The numbers of processes' messages are those of threads that read in place.
TEST(Clipping, EveryPipelineClipsBitwiseAlike) {
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    const TinyModel model;
    const auto clipped = [&](std::vector<int> boundaries, const char* schedule, int vpp = 1) {
      Plan plan = model.plan(std::move(boundaries), 4, schedule);
      plan.pp /= vpp;
      plan.vpp = vpp;
      plan.slots = 0;
      plan.optimizer = {.kind = kind, .learning_rate = 1e-2, .clip_norm = kNorm};
      return plan;
    };
    const std::string expected = hash_after(model, clipped({}, "gpipe"));
    for (const Plan& plan : {clipped({3}, "1f1b"), clipped({1}, "gpipe"), clipped({2, 4}, "zb-h1"),
                             clipped({1, 3, 4}, "interleaved-1f1b", 2),
                             clipped({1, 3, 5}, "v-half", 2), clipped({1, 2, 4}, "1f1b")}) {
      SCOPED_TRACE(plan.schedule);
      EXPECT_EQ(hash_after(model, plan), expected);
      EXPECT_EQ(run_as_threads(
                    model.load(plan), steps(3), [](int) { return cpu_only(); }, copied_links())
                    .leaders.parameters_sha256,
                expected);
    }
  }
}

// Replicas sum their gradients first, so each finds the norm of the whole mini-batch's.
TEST(Clipping, ReplicasClipAlike) {
  const TinyModel model(true, 0.0);
  Plan whole = model.plan({3}, 4);
  whole.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1, .clip_norm = kNorm};
  Plan halves = whole;
  halves.microbatches = 2;
  halves.dp = 2;
  const RunResult one = run(model.load(whole), steps(3), cpu_only());
  const RunResult two =
      run_as_threads(
          model.load(halves), steps(3), [](int) { return cpu_only(); }, copied_links())
          .leaders;
  for (std::size_t i = 0; i < one.steps.size(); ++i)
    EXPECT_NEAR(two.steps[i].loss, one.steps[i].loss, 1e-5) << i;
}

// Timed waits have no gradients, and wait for each other all the same.
TEST(Clipping, TimedWaitsMeetToo) {
  const TinyModel model;
  Plan plan = model.plan({2, 4}, 4);
  plan.optimizer.clip_norm = kNorm;
  const ResolvedPlan loaded = model.load(plan);
  RunOptions options = steps(2);
  options.backend = BackendKind::synthetic;
  options.synthetic_duration_ns.assign(loaded.program.size(), 1000);
  EXPECT_EQ(run(loaded, options, {}).steps.size(), 2U);
}

}  // namespace
}  // namespace weir::clipping_test
