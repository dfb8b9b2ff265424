// The figures of `weir evaluate`, worked by hand on four plans.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/accuracy.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::accuracy_test {
namespace {

Outcome outcome(double predicted, std::vector<double> times, std::int64_t predicted_peak = 100) {
  Outcome o;
  o.predicted = o.by_profile = Seconds(predicted);
  o.times_s = std::move(times);
  o.predicted_peak = Bytes(predicted_peak);
  o.measured_peak = Bytes(100);
  return o;
}

// Medians 10, 20, 30 and 40 s, forecast 11, 19, 30 and 28: errors 10, -5, 0 and -30 %. Their sizes
// sorted are 0, 5, 10, 30: median 7.5, nearest rank of 95 % the 4th. Of the six pairs only (30, 40)
// is forecast the wrong way round: tau = (5 - 1) / 6. The plan forecast fastest is the fastest.
TEST(Accuracy, OfFourPlans) {
  std::vector<Outcome> outcomes{outcome(11, {10, 9, 11}), outcome(19, {20, 20, 20}),
                                outcome(30, {31, 30, 29}, 97), outcome(28, {40, 40, 41})};
  outcomes[0].by_profile = Seconds(15);  // errors 50, -5, 0 and -30 %
  const Accuracy a = accuracy(outcomes);
  EXPECT_NEAR(a.median_error, 0.075, 1e-12);
  EXPECT_NEAR(a.p95_error, 0.3, 1e-12);
  EXPECT_NEAR(a.by_profile_median_error, 0.175, 1e-12);
  EXPECT_NEAR(a.by_profile_p95_error, 0.5, 1e-12);
  EXPECT_NEAR(a.tau, 4.0 / 6, 1e-12);
  EXPECT_NEAR(a.regret, 0, 1e-12);
  EXPECT_NEAR(a.memory_error.value(), 0.03, 1e-12);
  EXPECT_EQ(a.with_interval, 0);
}

// Plans of the fit, run again, took 1.2, 1.25 and 1.5 times as long, 1.25 in the median: forecasts
// of 8, 16 and 20 s are 10, 20 and 25 at that pace, against 10, 25 and 20 measured: errors 0, -20
// and 25 %. The first's interval, 7 to 8.8 s, is 8.75 to 11 then, and has 10 inside; the second's,
// 15 to 18, is 18.75 to 22.5 without 25; the third has none.
TEST(Accuracy, LessThePaceOfTheMachine) {
  std::vector<Outcome> outcomes{outcome(8, {10}), outcome(16, {25}), outcome(20, {20})};
  outcomes[0].interval = {Seconds(7), Seconds(8.8)};
  outcomes[1].interval = {Seconds(15), Seconds(18)};
  EXPECT_EQ(accuracy(outcomes).hits, 0);
  const auto again = [](double earlier, double now) {
    return RunAgain{{}, Seconds(earlier), {now, now / 2, now * 2}};
  };
  const Pace pace = pace_of(outcomes, {again(10, 12), again(2, 3), again(4, 5)});
  EXPECT_NEAR(pace.ratio, 1.25, 1e-12);
  EXPECT_EQ(pace.plans.size(), 3U);
  EXPECT_NEAR(pace.median_error, 0.2, 1e-12);
  EXPECT_EQ(pace.hits, 1);
}

// Four rounds of two steps. The first plan's even rounds take 10 and 12 s, their median of four
// steps 11; the odd ones 10 s throughout: 10 % apart. The second's differ by 2 %, the third was run
// in one round and says nothing. In the median 6 %: half of an error of 13 % is more than that, and
// the error is the forecasts'; half of one of 12 % is not.
TEST(Accuracy, RoundsOfOnePlanSayWhatOfAnErrorIsTheMachines) {
  std::vector<Outcome> outcomes{outcome(10, {10, 10, 10, 10, 12, 12, 10, 10}),
                                outcome(10, {102, 102, 100, 100, 102, 102, 100, 100}),
                                outcome(10, {10, 20})};
  outcomes[0].rounds = outcomes[1].rounds = 4;
  const auto differ = rounds_differ(outcomes);
  ASSERT_TRUE(differ);
  EXPECT_NEAR(*differ, 0.06, 1e-12);
  EXPECT_TRUE(tells(0.13, differ));
  EXPECT_FALSE(tells(0.12, differ));
  EXPECT_EQ(rounds_differ({outcomes[2]}), std::nullopt);
  EXPECT_FALSE(tells(0.5, std::nullopt));
}

// PyTorch on CPUs does not say its peak.
TEST(Accuracy, MemoryThatWasNotMeasuredHasNoError) {
  Outcome unknown = outcome(10, {10});
  unknown.measured_peak = Bytes(0);
  EXPECT_EQ(accuracy({unknown}).memory_error, std::nullopt);
}

// Medians 10 and 11 s, each with an interquartile range of 1: the pair is within its noise and
// counts for nothing. The forecast prefers the slower one: regret 10 %.
TEST(Accuracy, NoisyPairsDoNotRankAndRegretIsInMeasuredTime) {
  const Accuracy a = accuracy({outcome(10, {10, 9, 11, 10}), outcome(9, {11, 10, 12, 11})});
  EXPECT_EQ(a.tau, 1);
  EXPECT_NEAR(a.regret, 0.1, 1e-12);
}

// An interval's ends belong to it; a plan without one is neither hit nor miss.
TEST(Accuracy, CountsThePlansThatHadAnInterval) {
  Outcome at_the_end = outcome(10, {12});
  at_the_end.interval = StepInterval{Seconds(8), Seconds(12)};
  Outcome beyond = outcome(10, {12.01});
  beyond.interval = at_the_end.interval;
  const Accuracy a = accuracy({at_the_end, beyond, outcome(10, {10})});
  EXPECT_EQ(a.with_interval, 2);
  EXPECT_EQ(a.hits, 1);
}

}  // namespace
}  // namespace weir::accuracy_test
