// Step time against memory, as a sweep draws it: where its axis begins, and the point of the plan
// in use.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/search/sweep.hpp"
#include "tests/tools/report/shapes.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/pages/search.hpp"

namespace weir::sweep_front_test {
namespace {

using testing::ElementsAre;

// The numbers beside the y axis, from below: the only texts that end where they stand.
std::vector<std::string> heights(const Drawing& drawing) {
  std::vector<std::string> texts;
  for (const Text& text : all_of<Text>(drawing)) {
    if (text.anchor == Anchor::end) texts.push_back(text.text);
  }
  return texts;
}

// A plan of one rank that takes so long and so much.
Ranked plan_of(double seconds, double gib) {
  Ranked ranked;
  ranked.forecast.step_time = Seconds(seconds);
  ranked.forecast.memory = {{}};
  ranked.forecast.memory[0].peak = Bytes(static_cast<std::int64_t>(gib * (1 << 30)));
  return ranked;
}

// Steps of 12 to 15 s: the axis goes from 12 - 0.08 x 3 = 11.76 s to 15 and a twentieth of all that
// is shown, 15.16 s; half a second is the smallest round step that gives no more than seven ticks.
TEST(SweepFront, TimesThatLieCloseDoNotBeginAtZero) {
  const std::vector<Ranked> plans{plan_of(12, 3), plan_of(13.5, 2), plan_of(15, 1)};
  const Drawing drawing = draw_chart(front_chart(plans, plans, std::nullopt));
  EXPECT_THAT(heights(drawing),
              ElementsAre("12.0", "12.5", "13.0", "13.5", "14.0", "14.5", "15.0"));
  // The least of them stands a little above the axis, whose lowest end is at 206 of 240 points.
  double lowest = 0;
  for (const Dot& dot : all_of<Dot>(drawing)) {
    if (!dot.tip.empty()) lowest = std::max(lowest, dot.y);
  }
  EXPECT_GT(lowest, 180);
  EXPECT_LT(lowest, 206);
}

// 7 s are less than half of 15: so far apart they are amounts, which are seen from zero. So is what
// does not ask for it, a bubble say.
TEST(SweepFront, AmountsBeginAtZero) {
  const std::vector<Ranked> plans{plan_of(7, 3), plan_of(15, 1)};
  EXPECT_EQ(heights(draw_chart(front_chart(plans, plans, std::nullopt))).front(), "0");
  Chart chart = front_chart({plan_of(12, 3), plan_of(15, 1)}, {}, std::nullopt);
  chart.from_zero = true;
  EXPECT_EQ(heights(draw_chart(chart)).front(), "0");
}

// The plan in use: 14 s and 2 GiB, a red point of its own behind those that were found.
TEST(SweepFront, TheBaselineHasItsPoint) {
  const std::vector<Ranked> plans{plan_of(12, 3), plan_of(15, 1)};
  const Baseline baseline{.ranked = plan_of(14, 2), .place = {}, .ratio = {}, .device_ratio = {}};
  const Chart chart = front_chart(plans, plans, baseline);
  ASSERT_EQ(chart.series.size(), 3U);
  EXPECT_EQ(chart.series.back().name, "present plan");
  EXPECT_THAT(chart.series.back().points, ElementsAre(std::pair(2.0, 14.0)));
  std::vector<std::string> red;
  for (const Dot& dot : all_of<Dot>(draw_chart(chart))) {
    if (dot.colour == kRed && !dot.tip.empty()) red.push_back(dot.tip);
  }
  EXPECT_THAT(red, ElementsAre("present plan: 2, 14"));
  EXPECT_EQ(front_chart(plans, plans, std::nullopt).series.size(), 2U);
}

}  // namespace
}  // namespace weir::sweep_front_test
