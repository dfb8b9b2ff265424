// Intervals of built-in forecasts from groups of measured runs, worked by hand.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/builtin_interval.hpp"

#include <gtest/gtest.h>

#include "plan/words/error.hpp"

namespace weir {
namespace {

GroupErrors group(const std::string& cluster, const std::string& stack, std::vector<double> errors,
                  double level = 0) {
  const int rows = static_cast<int>(errors.size());
  return {"", cluster, stack, BuiltinQuantity::step, rows, level, std::move(errors)};
}

// Ten groups of other clusters and stacks: each weighs 1/11, and 0.95 of the 10/11 that they weigh
// is reached where scores of 9.5 groups lie below: all of nine, and half of the tenth's.
TEST(BuiltinInterval, GroupsWeighAlikeHoweverManyRunsTheyHave) {
  std::vector<GroupErrors> groups;
  for (int g = 0; g < 9; ++g)
    groups.push_back(group("c" + std::to_string(g), "s" + std::to_string(g), {0.01, 0.02}));
  groups.push_back(group("wide", "w", {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}));
  const auto interval = grouped_interval(groups, "mine", "own", BuiltinQuantity::step);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->nominal, 0.95 * 10 / 11);
  EXPECT_DOUBLE_EQ(interval->half_width, 0.5);
  EXPECT_EQ(interval->rows, 28);
  EXPECT_EQ(interval->clusters, 10);
  EXPECT_EQ(interval->stacks, 10);
}

TEST(BuiltinInterval, TheClusterAndTheStackAskedAboutAreLeftOut) {
  const std::vector<GroupErrors> groups{group("a", "x", {5}), group("b", "y", {6}),
                                        group("c", "z", {0.5})};
  const auto interval = grouped_interval(groups, "a", "y", BuiltinQuantity::step);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->half_width, 0.5);
  EXPECT_EQ(interval->rows, 1);
  EXPECT_EQ(interval->nominal, 0.475) << "of one group no more can be promised";
  EXPECT_FALSE(grouped_interval(groups, "c", "x", BuiltinQuantity::memory));
}

// Forecasts of the two other groups came out a fifth and two fifths too short: the median, 0.3, as
// if two more had missed nothing, is 0.15. What another group of the same cluster says is left out.
TEST(BuiltinInterval, ItsCentreIsWhereOtherGroupsLay) {
  const std::vector<GroupErrors> groups{group("a", "x", {0.1}, 0.2), group("b", "y", {0.1}, 0.4),
                                        group("mine", "z", {0.1}, 9)};
  const auto interval = grouped_interval(groups, "mine", "own", BuiltinQuantity::step);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->centre, 0.15);
}

TEST(BuiltinInterval, TheTableReadsBackAndBrokenOnesAreRefused) {
  const std::vector<GroupErrors> groups{
      {"bloom", "a", "x", BuiltinQuantity::anchored_step, 3, -0.25, spaced_quantiles({0.3, 0.1, 0.2})}};
  const std::vector<GroupErrors> back = parse_group_errors(to_csv(groups), "t.csv");
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].quantity, BuiltinQuantity::anchored_step);
  EXPECT_EQ(back[0].level, -0.25);
  EXPECT_EQ(back[0].quantiles.front(), 0.1);
  EXPECT_EQ(back[0].quantiles[10], 0.2);
  EXPECT_EQ(back[0].quantiles.back(), 0.3);
  EXPECT_THROW(static_cast<void>(parse_group_errors("head\na,b,step,1\n", "t.csv")), InputError);
}

}  // namespace
}  // namespace weir
