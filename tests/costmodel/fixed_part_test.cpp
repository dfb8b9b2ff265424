// What a pass takes at any micro-batch size, from its times at several.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/fixed_part.hpp"

#include <gtest/gtest.h>

#include "costmodel/table/correction.hpp"

namespace weir::fixed_part_test {
namespace {

LayerCost of_times(const std::map<int, double>& f, const std::map<int, double>& b) {
  LayerCost cost;
  for (const auto& [size, time] : f) {
    LayerTime& at = cost.by_batch[size];
    at.f = at.i = at.w = Seconds(time);
    at.b = Seconds(b.at(size));
  }
  return cost;
}

// On the line 2 + 3 b the intercept is 2, whatever the weights. In proportion, or growing faster
// than that (caches overflow: 1, 2.2), it would be 0 or less, and is 0.
TEST(FixedPart, IsTheInterceptAndNeverLessThanNothing) {
  const PerKind<Seconds> part =
      fixed_part(of_times({{1, 5}, {2, 8}, {4, 14}, {8, 26}}, {{1, 1}, {2, 2.2}, {4, 5}, {8, 12}}));
  EXPECT_NEAR(part.f.count(), 2, 1e-12);
  EXPECT_NEAR(part.w.count(), 2, 1e-12);
  EXPECT_EQ(part.b.count(), 0);
}

// Times that fall with the size would have more than all of the shortest fixed; one size tells
// nothing.
TEST(FixedPart, IsAtMostTheShortestTime) {
  EXPECT_EQ(fixed_part(of_times({{1, 3}, {2, 2}}, {{1, 3}, {2, 3}})).f.count(), 2);
  EXPECT_EQ(fixed_part(of_times({{1, 3}, {2, 3}}, {{1, 3}, {2, 3}})).b.count(), 3);
  EXPECT_EQ(fixed_part(of_times({{4, 3}}, {{4, 3}})).f.count(), 0);
}

// Files of Weir 0.1 have a factor for each size that was run: halfway in the logarithm of the size
// it is their geometric mean, beyond them the nearest one's.
TEST(FactorAt, InterpolatesBetweenSizes) {
  const SizeCorrection sizes{{1, 1.1}, {4, 1 / 1.1}};
  EXPECT_NEAR(factor_at(sizes, 2), 1, 1e-12);
  EXPECT_EQ(factor_at(sizes, 8), 1 / 1.1);
  EXPECT_EQ(factor_at({}, 3), 1);
}

}  // namespace
}  // namespace weir::fixed_part_test
