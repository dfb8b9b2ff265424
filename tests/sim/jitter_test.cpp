// Jitter, barriers and what a forecast says of them.
// SPDX-License-Identifier: Apache-2.0
#include "sim/jitter.hpp"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "plan/program/lower.hpp"
#include "plan/program/repeat.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/engine/event_engine.hpp"

namespace weir::jitter_test {
namespace {

Program lowered(const char* name, int k, int m, bool optimizer = false, std::int32_t slots = 0) {
  LoweringOptions options;
  options.slots = slots;
  options.optimizer = optimizer;
  return lower(std::get<Schedule>(make_schedule(name, {k, 1, m})), options);
}

OperationCosts equal_costs(const Program& program, std::int64_t f, std::int64_t b,
                           std::int64_t w = 0) {
  CostTable table;
  const StageCost cost{{.f = Nanoseconds(f),
                        .i = Nanoseconds(b - w),
                        .w = Nanoseconds(w),
                        .b = Nanoseconds(b),
                        .optimizer = Nanoseconds(f)}};
  table.stages.assign(static_cast<std::size_t>(program.shape().stages), cost);
  table.forward_messages.assign(table.stages.size(), {});
  table.backward_messages = table.forward_messages;
  return expand(program, table);
}

// Factors of 1 alone: every sample is the time itself. Factors evenly over 0.9 to 1.1, one rank:
// the sum of 2 M draws has mean M (F + B); with eight ranks, each waiting for its neighbours, the
// mean is above (M + K - 1)(F + B) (Jensen).
TEST(Jitter, MeansAreAboveTheTimeOfMeans) {
  const Program eight = lowered("1f1b", 8, 32);
  const OperationCosts costs = equal_costs(eight, 1'000'000, 2'000'000);
  const Jitter none{.f = {1, 1}, .b = {1, 1}};
  const StepDistribution still = step_distribution(eight, costs, {}, none, {20, 1});
  EXPECT_DOUBLE_EQ(still.mean.count(), (32 + 7) * 3e-3);
  EXPECT_EQ(still.low, still.high);

  const Jitter even{.f = {0.9, 1.1}, .b = {0.9, 1.1}};
  const Program one = lowered("1f1b", 1, 32);
  const StepDistribution alone =
      step_distribution(one, equal_costs(one, 1'000'000, 2'000'000), {}, even, {400, 1});
  // Standard deviation of one step: sqrt(32 (1 + 4) / 3) * 0.1 ms = 0.73 ms; of the mean of 400:
  // 0.036 ms.
  EXPECT_NEAR(alone.mean.count(), 96e-3, 4 * 0.036e-3);
  const StepDistribution together = step_distribution(eight, costs, {}, even, {400, 1});
  EXPECT_GT(together.mean.count(), 1.01 * (32 + 7) * 3e-3);
  EXPECT_LT(together.low, together.median);
  EXPECT_LT(together.median, together.high);
}

TEST(Jitter, TheSeedDecidesAndThreadsDoNot) {
  const Program program = lowered("zb-h1", 4, 8);
  const OperationCosts costs = equal_costs(program, 1000, 2000, 900);
  const Jitter even{.f = {0.5, 1, 2}, .w = {0.9, 1.1}};
  const StepDistribution first = step_distribution(program, costs, {}, even, {100, 7});
  {
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
    EXPECT_EQ(step_distribution(program, costs, {}, even, {100, 7}), first);
  }
  EXPECT_NE(step_distribution(program, costs, {}, even, {100, 8}), first);
}

// ZB-H2 at F = I = W = 1: its span has no bubble, and steps that overlap have none either: 3 M a
// step, where a barrier costs (K - 1) F more (docs/theory.md 2.3).
TEST(Repeat, WithoutABarrierZeroBubbleIsZero) {
  const int k = 4, m = 12;
  const Program program = lowered("zb-h2", k, m);
  const auto makespan = [&](int steps) {
    const Program repeated = repeat(program, steps);
    return std::get<Timing>(simulate(repeated, equal_costs(repeated, 1, 2, 1))).makespan.count();
  };
  EXPECT_EQ(makespan(1), 3 * m + k - 1);
  EXPECT_EQ(makespan(9) - makespan(8), 3 * m);
}

// Slots are handed on: with one slot and steps in a row no edge ever holds two messages, and one
// step alone is itself.
TEST(Repeat, SlotsBindAcrossSteps) {
  const Program program = lowered("1f1b", 3, 4, true, 1);
  const Program once = repeat(program, 1);
  EXPECT_EQ(std::get<Timing>(simulate(once, equal_costs(once, 3, 5))).end_ns,
            std::get<Timing>(simulate(program, equal_costs(program, 3, 5))).end_ns);
  const Program many = repeat(program, 5);
  const OperationCosts costs = equal_costs(many, 3, 5);
  const auto timing = std::get<Timing>(simulate(many, costs));
  for (const Edge& edge : many.edges()) {
    const Lane& sends = many.lane(edge.send_lane);
    const Lane& arrivals = many.lane(edge.receive_lane);
    ASSERT_EQ(sends.last - sends.first, 5 * 4);
    std::vector<std::int64_t> freed;
    for (const OperationId r : arrivals.operations()) {
      for (const OperationId i : many.ids()) {
        for (const Dependency& d : many.predecessors(i)) {
          if (d.before == r && d.kind == DependencyKind::data) freed.push_back(timing.end_ns[i]);
        }
      }
    }
    ASSERT_EQ(freed.size(), 20U);
    for (std::int32_t i = 1; i < sends.size(); ++i)
      EXPECT_GE(timing.start_ns[sends.first + i], freed[static_cast<std::size_t>(i - 1)]);
  }
}

}  // namespace
}  // namespace weir::jitter_test
