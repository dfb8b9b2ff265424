// A timeline forecast from its own medians, worked by hand.
// SPDX-License-Identifier: Apache-2.0
#include "sim/timeline_forecast.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "costmodel/fit/step_medians.hpp"
#include "tests/traces/timeline_files.hpp"

namespace weir::timeline_forecast_test {
namespace {

// Of rank 1's two forwards the first waits a message's 1 ms and the second for nothing that is not
// there: each is forecast half a millisecond late. Rank 0's backwards both wait 1 ms. Its first
// forward has no gap, and the step ends with the last action: nothing is known of what follows.
TEST(TimelineForecast, StartsComeFromMediansOfDurationsAndGaps) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("weir-forecast-" + std::to_string(::getpid()));
  TimelineFiles(2).write(folder);
  const Timeline timeline = read_timeline(folder);
  std::filesystem::remove_all(folder);
  const Trace forecast = forecast_by_step(timeline, 1);
  std::map<std::string, double> starts_ms;
  for (const Span& span : forecast.spans) {
    if (span.lane == LaneKind::compute)
      starts_ms[to_string(span.action)] = to_seconds(span.start).count() * 1e3;
  }
  const std::map<std::string, double> expected{{"0F0", 0},    {"0F1", 10}, {"1F0", 10.5},
                                               {"1B0", 20.5}, {"1F1", 41}, {"1B1", 51},
                                               {"0B0", 41.5}, {"0B1", 72}};
  ASSERT_EQ(starts_ms.size(), expected.size());
  for (const auto& [action, start] : expected)
    EXPECT_NEAR(starts_ms[action], start, 1e-9) << action;
  EXPECT_EQ(forecast.steps.front().end, Nanoseconds(92'000'000));
}

TEST(InFlightMemory, IsALineThroughTheSecondAndTheLastButOneRank) {
  const std::vector<Bytes> memory{Bytes(100), Bytes(70), Bytes(60), Bytes(45)};
  const auto line = fit_in_flight({4, 3, 2, 1}, memory);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->of(4), Bytes(80));  // 40 and 10 for each
  EXPECT_EQ(line->of(1), Bytes(50));
  EXPECT_FALSE(fit_in_flight({4, 2, 2, 1}, memory));
  EXPECT_FALSE(fit_in_flight({3, 2, 1}, {Bytes(3), Bytes(2), Bytes(1)}));
}

}  // namespace
}  // namespace weir::timeline_forecast_test
