// How much of the time neighbours work beside a device.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/neighbours.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/table/plan_costs.hpp"
#include "tests/costmodel/two_blocks.hpp"

namespace weir::neighbours_test {
namespace {

Plan plan_of(int pp, int microbatches, int dp = 1) {
  Plan plan;
  plan.pp = pp;
  plan.microbatches = microbatches;
  plan.dp = dp;
  return plan;
}

// Rank r has micro-batch m at time r + m: of all times of a rank, those in which the other has one
// too, over all ordered pairs of ranks.
double counted(int ranks, int microbatches) {
  int beside = 0, all = 0;
  for (int r = 0; r < ranks; ++r) {
    for (int other = 0; other < ranks; ++other) {
      if (other == r) continue;
      for (int time = r; time < r + microbatches; ++time, ++all)
        beside += time >= other && time < other + microbatches ? 1 : 0;
    }
  }
  return static_cast<double>(beside) / all;
}

TEST(Neighbours, OfStagesCoincideAsCounted) {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    // Where M is at least the furthest distance no pair's share is below 0, and the mean is exact.
    for (int m = ranks - 1; m <= 20; ++m)
      EXPECT_NEAR(busy_share(plan_of(ranks, m)), counted(ranks, m), 1e-12) << ranks << " " << m;
  }
  EXPECT_EQ(busy_share(plan_of(1, 8)), 0);
  EXPECT_EQ(busy_share(plan_of(4, 1)), 0);
}

// Two replicas of one stage are always at work together; of two stages with two replicas each a
// device has three others, one of its own stage and two that are busy half the time at M = 2.
TEST(Neighbours, OfOneStageAreAlwaysBusy) {
  EXPECT_EQ(busy_share(plan_of(1, 8, 2)), 1);
  EXPECT_DOUBLE_EQ(busy_share(plan_of(2, 2, 2)), (1 + 2 * 0.5) / 3);
}

// F takes 0.81 of its time where the neighbour rests. With four micro-batches on two ranks it does
// so for a quarter: 0.81^(1/4); alone 0.81. A GPU's factor is of one that has all of it.
TEST(Neighbours, PricesTakeTheirShare) {
  Costs costs = costs_of(block(), 4);
  const auto forward = [&](int ranks) {
    return static_cast<double>(
               cost_table(two_blocks(ranks, 1), costs, {}).table.stages[0].f.count()) /
           (ranks == 1 ? 2 : 1);
  };
  const double busy = forward(2);
  costs.alone.f = 0.81;
  EXPECT_NEAR(forward(2) / busy, std::pow(0.81, 0.25), 1e-6);
  EXPECT_NEAR(forward(1) / busy, 0.81, 1e-6);
  costs.backend = "cuda";
  EXPECT_NEAR(forward(2) / busy, 1, 1e-6);
  EXPECT_NEAR(forward(1) / busy, 0.81, 1e-6);
}

}  // namespace
}  // namespace weir::neighbours_test
