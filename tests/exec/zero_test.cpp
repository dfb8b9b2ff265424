// ZeRO-1: replicas that share the optimizer's work train as those that each do all of it, to the
// last bit, and hold their share of its state.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/memory/memory.hpp"
#include "exec/training/replica_share.hpp"
#include "exec/training/trainable.hpp"
#include "exec/weights/safetensors.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/mesh_training.hpp"
#include "tests/exec/spans.hpp"

namespace weir::zero_test {
namespace {

using testing::HasSubstr;

// Six micro-batches, dealt to `dp` replicas.
Plan shared_by(const TinyModel& model, int dp, std::vector<int> boundaries,
               const char* schedule = "1f1b") {
  Plan plan = model.plan(std::move(boundaries), 6 / dp, schedule);
  plan.dp = dp;
  plan.zero = 1;
  plan.slots = 0;
  return plan;
}

// 100 numbers in lines of 16: of three replicas two have 48 and the last what is left; of nine the
// last two have none.
TEST(Zero, SlicesAreWholeCacheLines) {
  EXPECT_EQ(replica_slice(100, 0, 3), (Slice{0, 48}));
  EXPECT_EQ(replica_slice(100, 2, 3), (Slice{96, 4}));
  EXPECT_EQ(replica_slice(100, 6, 9), (Slice{96, 4}));
  EXPECT_EQ(replica_slice(100, 7, 9), (Slice{100, 0}));
  EXPECT_EQ(replica_slice(100, 0, 1), (Slice{0, 100}));
}

// Sums are made in one order either way, and an update is each number's own.
TEST(Zero, ReplicasUpdateBitwiseAsThoseThatShareNothing) {
  using enum OptimizerKind;
  const std::vector<Optimizer> rules{{.learning_rate = 1e-2},
                                     {.kind = sgd, .learning_rate = 1e-2},
                                     {.kind = rmsprop, .learning_rate = 1e-2, .momentum = 0.9}};
  for (const bool tied : {true, false}) {
    const TinyModel model(tied, 0.1, 37);  // 37 rows: no slice ends with a row
    for (Plan plan : {shared_by(model, 2, {}, "gpipe"), shared_by(model, 3, {2}),
                      shared_by(model, 2, {1, 3}, "zb-h1")}) {
      for (const Optimizer& rule : rules) {
        SCOPED_TRACE(fmt::format("{} D{} {}", plan.schedule, plan.dp, to_string(rule.kind)));
        plan.optimizer = rule;
        plan.overlap_grad_reduce = plan.dp == 3;
        Plan whole = plan;
        whole.zero = 0;
        EXPECT_EQ(trained(model, plan, steps(2)).parameters_sha256,
                  trained(model, whole, steps(2)).parameters_sha256);
      }
    }
  }
}

// A norm is of slices' squares, which are added in another order: in double, so the factor moves by
// less than fp32 can tell but for a rounding. The same bits each time.
TEST(Zero, ClipsAlikeEachTime) {
  const TinyModel model;
  Plan plan = shared_by(model, 3, {2});
  plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1, .clip_norm = 0.05};
  const RunResult once = trained(model, plan, steps(3));
  EXPECT_EQ(trained(model, plan, steps(3)).parameters_sha256, once.parameters_sha256);
  plan.zero = 0;
  const RunResult whole = trained(model, plan, steps(3));
  for (std::size_t i = 0; i < whole.steps.size(); ++i)
    EXPECT_NEAR(once.steps[i].loss, whole.steps[i].loss, 1e-6) << i;
}

// The gradient that a dump shows is that of all replicas, put together of their slices.
TEST(Zero, DumpsTheWholeGradient) {
  const TinyModel model;
  const auto gradient = [&](int zero) {
    Plan plan = shared_by(model, 3, {3});
    plan.zero = zero;
    RunOptions options = steps(1);
    options.dump = own_folder() / "dump.safetensors";
    static_cast<void>(trained(model, plan, options));
    const SafetensorsFile file(*options.dump);
    return to_floats(file.tensors().at("transformer.wte.weight"), "wte");
  };
  EXPECT_EQ(gradient(1), gradient(0));
}

// A checkpoint is whole: any number of replicas goes on from it, sharing or not. With as many the
// bits are the same; with fewer or more, sums are taken in another order, and losses of fp32 agree
// to 5 digits.
TEST(Zero, GoesOnWithOtherReplicas) {
  const TinyModel model;
  const Plan three = shared_by(model, 3, {2});
  const RunResult whole = trained(model, three, steps(4));
  RunOptions options = steps(2);
  options.output = own_folder() / "out";
  options.checkpoint_every = 2;
  static_cast<void>(trained(model, three, options));
  RunOptions on = steps(2);
  on.resume = own_folder() / "out";
  Plan alone = three;
  alone.zero = 0;
  for (const Plan& plan : {three, alone, shared_by(model, 3, {1, 4}, "gpipe")})
    EXPECT_EQ(trained(model, plan, on).parameters_sha256, whole.parameters_sha256);
  for (const int dp : {1, 2, 6}) {
    const RunResult rest = trained(model, shared_by(model, dp, {3}), on);
    EXPECT_EQ(rest.first_step, 2);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(rest.steps[i].loss, whole.steps[2 + i].loss, 1e-5) << dp << " " << i;
  }
  Plan other = shared_by(model, 2, {3});
  other.microbatches = 6;
  EXPECT_THAT(run_as_threads(
                  model.load(other), on, [](int) { return cpu_only(); }, copied_links())
                  .endings.begin()
                  ->second,
              HasSubstr("microbatches: the checkpoint has 2, this run has 6"));
}

TEST(Zero, TheForecastOfItsMemoryIsTheArenas) {
  const TinyModel model(true, 0.1, 500, 3);  // most of it is weights
  Bytes unshared{0};
  for (const int dp : {1, 2, 3, 6}) {
    const ResolvedPlan loaded = model.load(shared_by(model, dp, {}, "gpipe"));
    const RunResult result = trained(model, loaded.plan, steps(2));
    const std::vector<Span> spans = spans_in_order(loaded.program);
    const auto peaks =
        memory_peaks(loaded, loaded.program, std::span<const Span>(spans), result.scratch);
    const auto measured = static_cast<double>(result.peak_memory.front().count());
    EXPECT_NEAR(static_cast<double>(peaks.front().peak.count()), measured, 0.01 * measured) << dp;
    const Bytes state = peaks.front().at_peak[MemoryKind::optimizer_state];
    if (dp == 1) unshared = state;
    EXPECT_NEAR(static_cast<double>(state.count()), static_cast<double>(unshared.count()) / dp,
                64.0 * 2 * 40);  // of each of some 40 tensors a cache line
  }
}

TEST(Zero, BothBackendsTakeEveryStage) {
  const TinyModel model;
  Plan plan = shared_by(model, 2, {});
  for (plan.zero = 1; plan.zero <= 3; ++plan.zero) {
    for (const BackendKind backend : {BackendKind::cpu, BackendKind::cuda})
      EXPECT_NO_THROW(require_trainable(model.load(plan), Replicas::many, backend)) << plan.zero;
  }
}

}  // namespace
}  // namespace weir::zero_test
