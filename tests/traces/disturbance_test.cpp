// When a measurement is doubted: synthetic samples on either side of each threshold.
// SPDX-License-Identifier: Apache-2.0
#include "traces/disturbance.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/words/error.hpp"
#include "traces/stats.hpp"
#include "traces/trace.hpp"

namespace weir::disturbance_test {
namespace {

// Steps of so many hundredths of a second, one behind the other.
Trace steps_of(const std::vector<std::int64_t>& times) {
  Trace trace{.origin = TraceOrigin::measured, .ranks = 1};
  std::int64_t now = 0;
  for (const std::int64_t hundredths : times) {
    const std::int64_t time = hundredths * 10'000'000;
    trace.steps.push_back({Nanoseconds(now), Nanoseconds(now + time)});
    now += time;
  }
  return trace;
}

// The fastest half of {10, 10, 10, 27, 27}, with the odd one, is {10, 10, 10}: the distances to 10
// are 0, 0, 0, 1.7, 1.7. Of {10, 10, 27, 27, 27} it is {10, 10, 27}, with the distances 0, 0, 1.7,
// 1.7, 1.7: only where most are disturbed the median of them is, too.
TEST(Disturbance, SpreadIsAboutTheFastestHalf) {
  EXPECT_EQ(spread_over_fastest_half({27, 10, 10, 27, 10}), 0);
  EXPECT_DOUBLE_EQ(spread_over_fastest_half({27, 10, 10, 27, 27}), 1.7);
  EXPECT_DOUBLE_EQ(spread_over_fastest_half({10, 20}), 0.5);  // about 10: 0 and 1
  EXPECT_EQ(spread_over_fastest_half({3}), 0);
}

TEST(Disturbance, StepsThatSpreadAreDoubted) {
  EXPECT_EQ(doubt(disturbance_of(steps_of({100, 101, 99, 100, 180}))), "");
  EXPECT_EQ(doubt(disturbance_of(steps_of({100, 170, 99, 270, 180}))),
            "repeated times spread by 70%");  // about 100: 0, 0.01, 0.7, 0.8, 1.7
  EXPECT_FALSE(disturbance_of(steps_of({100, 270})).spread);
  EXPECT_EQ(doubt(disturbance_of(steps_of({1, 2, 1, 3, 2}))), "");  // 90 ms
}

TEST(Disturbance, CountersAreDoubtedAboveTheirThresholds) {
  const Disturbance quiet{Seconds(2), Seconds(2), 0.02, 20, 0.1};
  EXPECT_EQ(doubt(quiet), "");
  Disturbance stolen = quiet, shared = quiet;
  stolen.stolen = 0.12;
  EXPECT_EQ(doubt(stolen), "12.0% of its cores' time was stolen");
  shared.preemptions_per_s = 130;
  EXPECT_EQ(doubt(shared), "a thread lost its core 130 times a second");
  EXPECT_EQ(doubt(worse_of(stolen, shared)),
            "12.0% of its cores' time was stolen, a thread lost its core 130 times a second");
  // A tick of 10 ms in a run of 50 ms says nothing.
  stolen.watched = shared.worked = Seconds(0.05);
  EXPECT_EQ(doubt(stolen) + doubt(shared), "");
}

TEST(Disturbance, GoesThroughATraceAndItsJson) {
  const Disturbance written{Seconds(2.5), Seconds(4), std::nullopt, 130, std::nullopt};
  EXPECT_EQ(parse_disturbance(to_json(written), "costs.json", "disturbance"), written);
  EXPECT_EQ(to_json(written)["disturbed"], true);
  Trace trace = steps_of({10, 10, 10});
  put_disturbance(trace, written);
  Disturbance read = disturbance_of(trace);
  EXPECT_EQ(read.spread, 0);  // the steps' own
  read.spread.reset();
  EXPECT_EQ(read, written);
  trace.info["disturbance"] = "much";
  EXPECT_THROW(static_cast<void>(disturbance_of(trace)), InputError);
}

}  // namespace
}  // namespace weir::disturbance_test
