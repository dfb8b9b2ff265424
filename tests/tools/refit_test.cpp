// A fit is taken where it forecasts what it has not seen, and nowhere else.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/refit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/costmodel/two_blocks.hpp"

namespace weir::app::refit_test {
namespace {

using testing::HasSubstr;

// One for each rank: with fewer, ranks would share it.
Cluster two_devices() {
  Cluster cluster;
  cluster.devices_per_node = 2;
  return cluster;
}

// Three plans forecast by `first`; each took what `truth` forecasts, and its spans what `shown`
// does.
std::vector<Trial> trials(const Costs& first, const Costs& truth, const Costs& shown) {
  std::vector<Trial> made;
  for (const int batch : {1, 4, 2}) {
    Trial trial{.plan = two_blocks(2, batch)};
    trial.first = forecast(trial.plan, first, two_devices());
    trial.times = {forecast(trial.plan, truth, two_devices()).forecast.step_time.count()};
    trial.run.trace = forecast(trial.plan, shown, two_devices()).trace;
    trial.run.trace.origin = TraceOrigin::measured;
    made.push_back(std::move(trial));
  }
  return made;
}

Costs times(Costs costs, double factor) {
  costs.correction.f = costs.correction.i = costs.correction.w = costs.correction.b = factor;
  return costs;
}

// Everything takes 1.25 times the profile, and its spans show it: forecasts were 1 - 1 / 1.25 = 20
// % too short, and each plan by the two others' runs is right (transfers and the optimizer, 0.4 ms
// of 20, are not scaled).
TEST(Refit, IsTakenWhereItForecastsTheOthers) {
  const Costs base = costs_of(block(), 4), truth = times(base, 1.25);
  const Refit learnt = refit(trials(base, truth, truth), base, two_devices());
  EXPECT_TRUE(learnt.taken);
  EXPECT_EQ(why_not_taken(learnt), "");
  EXPECT_NEAR(learnt.error_first, 0.20, 0.01);
  ASSERT_TRUE(learnt.error_left_out);
  EXPECT_LT(*learnt.error_left_out, 0.002);
  EXPECT_EQ(learnt.costs.basis, Basis::calibrated);
  EXPECT_NEAR(learnt.costs.correction.f, 1.25, 1e-3);
}

// The profile was right, and the spans are twice too long (two clocks, say): what they teach is 100
// % off, so the profile stands.
TEST(Refit, IsLeftWhereItForecastsThemWorse) {
  const Costs base = costs_of(block(), 4);
  const Refit learnt = refit(trials(base, base, times(base, 2)), base, two_devices());
  EXPECT_FALSE(learnt.taken);
  EXPECT_EQ(learnt.error_first, 0);
  ASSERT_TRUE(learnt.error_left_out);
  EXPECT_GT(*learnt.error_left_out, 0.9);
  EXPECT_EQ(learnt.costs.basis, Basis::measured);
  EXPECT_EQ(learnt.costs.correction.f, base.correction.f);
  EXPECT_THAT(why_not_taken(learnt), HasSubstr("than the costs before it (0.0 %): those stand"));
}

// One of two plans says little of the other, and a fit to both has seen both: it is taken.
TEST(Refit, IsNotJudgedByTwoPlans) {
  const Costs base = costs_of(block(), 4);
  std::vector<Trial> two = trials(base, base, times(base, 2));
  two.pop_back();
  const Refit learnt = refit(two, base, two_devices());
  EXPECT_TRUE(learnt.taken);
  EXPECT_TRUE(learnt.error_left_out);
  two.pop_back();
  EXPECT_FALSE(refit(two, base, two_devices()).error_left_out);
}

}  // namespace
}  // namespace weir::app::refit_test
