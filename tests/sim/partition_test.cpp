// SPDX-License-Identifier: Apache-2.0
#include "sim/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace weir {
namespace {

std::pair<std::int64_t, double> value(const std::vector<std::int64_t>& times, const std::vector<int>& boundaries) {
  std::int64_t slowest = 0, sum = 0;
  double squares = 0;
  std::size_t next = 0;
  for (std::size_t l = 0; l <= times.size(); ++l) {
    const bool cut = l == times.size() || (next < boundaries.size() && boundaries[next] == static_cast<int>(l));
    if (cut && l > 0) {
      slowest = std::max(slowest, sum);
      squares += static_cast<double>(sum) * static_cast<double>(sum);
      sum = 0;
      ++next;
    }
    if (l < times.size()) sum += times[l];
  }
  return {slowest, squares};
}

// All ways to cut, by recursion.
void all_cuts(int layers, int stages, int from, std::vector<int>& cut, std::vector<std::vector<int>>& all) {
  if (stages == 1) {
    all.push_back(cut);
    return;
  }
  for (int at = from; at <= layers - stages + 1; ++at) {
    cut.push_back(at);
    all_cuts(layers, stages - 1, at + 1, cut, all);
    cut.pop_back();
  }
}

// 1 2 3 | 4 5 is the only split of five layers into two stages with a slowest of 9 or less.
TEST(Partition, WorkedExample) {
  const std::vector<std::int64_t> times{1, 2, 3, 4, 5};
  EXPECT_EQ(best_boundaries(times, 2), (std::vector<int>{3}));
  EXPECT_EQ(best_boundaries(times, 1), (std::vector<int>{}));
  EXPECT_EQ(best_boundaries(times, 5), (std::vector<int>{1, 2, 3, 4}));
}

TEST(Partition, EqualsBruteForce) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::int64_t> times(std::uniform_int_distribution<std::size_t>(1, 9)(random));
    for (auto& time : times) time = std::uniform_int_distribution<std::int64_t>(0, 20)(random);
    const auto layers = static_cast<int>(times.size());
    const int stages = std::uniform_int_distribution<int>(1, layers)(random);
    std::vector<std::vector<int>> all;
    std::vector<int> cut;
    all_cuts(layers, stages, 1, cut, all);
    std::pair best{std::numeric_limits<std::int64_t>::max(), 0.0};
    for (const auto& candidate : all) best = std::min(best, value(times, candidate));
    EXPECT_EQ(value(times, best_boundaries(times, stages)), best) << "seed 7, trial " << trial;
  }
}

}  // namespace
}  // namespace weir
