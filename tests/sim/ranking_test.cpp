// The order of plans where memory is in doubt.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/ranking.hpp"

#include <gtest/gtest.h>

namespace weir::ranking_test {
namespace {

constexpr Bytes gib(std::int64_t count) { return Bytes(count << 30); }

Ranked plan(int seconds, std::int64_t expected, std::int64_t upper) {
  Ranked ranked;
  ranked.forecast.step_time = Seconds(seconds);
  ranked.forecast.memory = {{.peak = gib(expected), .upper = gib(upper)}};
  ranked.forecast.memory_limit = gib(80);
  return ranked;
}

// The fastest may not fit: it comes after all that do, and before nothing that surely does not. On
// the front of time and memory it is all the same, being the fastest.
TEST(Ranking, WhatFitsGoesBeforeWhatMayFit) {
  std::vector<Ranked> plans{plan(1, 75, 90), plan(3, 50, 60), plan(2, 70, 80), plan(4, 55, 66)};
  rank(plans);
  EXPECT_EQ(plans[0].forecast.step_time, Seconds(2));
  EXPECT_EQ(plans[1].forecast.step_time, Seconds(3));
  EXPECT_EQ(plans[2].forecast.step_time, Seconds(4));
  EXPECT_EQ(plans[3].forecast.step_time, Seconds(1));
  EXPECT_EQ(plans[3].forecast.fits(), Fits::maybe);
  EXPECT_TRUE(plans[3].pareto);
  EXPECT_TRUE(plans[0].pareto);
  EXPECT_TRUE(plans[1].pareto);
  EXPECT_FALSE(plans[2].pareto);  // 55 GiB, when a faster one has 50
}

// A forecast fits as its worst rank does.
TEST(Ranking, TheWorstRankDecides) {
  Ranked two = plan(1, 50, 60);
  two.forecast.memory.push_back({.peak = gib(70), .upper = gib(84)});
  EXPECT_EQ(two.forecast.fits(), Fits::maybe);
  EXPECT_LT(two.forecast.fits_probability(), 0.95);
  two.forecast.memory.push_back({.peak = gib(81), .upper = gib(90)});
  EXPECT_EQ(two.forecast.fits(), Fits::no);
  two.forecast.memory_limit.reset();
  EXPECT_EQ(two.forecast.fits(), Fits::yes);
}

}  // namespace
}  // namespace weir::ranking_test
