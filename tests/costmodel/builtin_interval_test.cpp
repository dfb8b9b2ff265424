// Intervals of built-in forecasts from groups of measured runs, worked by hand.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/builtin_interval.hpp"

#include <gtest/gtest.h>

#include "plan/words/error.hpp"

namespace weir::builtin_interval_test {
namespace {

GroupErrors group(const std::string& cluster, const std::string& stack, std::vector<double> errors,
                  double level = 0) {
  const int rows = static_cast<int>(errors.size());
  return {"", cluster, stack, BuiltinQuantity::step, rows, level, std::move(errors)};
}

// Eight groups of other clusters and stacks: each weighs 1/9, and so does the one that was never
// seen, half of which is taken to lie within. 0.85 less that half is 7.15 groups: seven, and 0.15
// of the eighth, whose ten scores weigh a tenth of a group each: the second. Memory's interval has
// nothing of the unseen: 0.95 of the 8/9 that there is are 7.6 groups, the sixth score.
TEST(BuiltinInterval, GroupsWeighAlikeHoweverManyRunsTheyHave) {
  std::vector<GroupErrors> groups;
  for (int g = 0; g < 7; ++g)
    groups.push_back(group("c" + std::to_string(g), "s" + std::to_string(g), {0.01, 0.02}));
  groups.push_back(group("wide", "w", {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}));
  const auto interval = grouped_interval(groups, "mine", "own", BuiltinQuantity::step);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->nominal, 0.85);
  EXPECT_DOUBLE_EQ(interval->half_width, 0.2);
  EXPECT_EQ(interval->rows, 24);
  EXPECT_EQ(interval->clusters, 8);
  EXPECT_EQ(interval->stacks, 8);
  for (GroupErrors& one : groups) one.quantity = BuiltinQuantity::memory;
  const auto memory = grouped_interval(groups, "mine", "own", BuiltinQuantity::memory);
  ASSERT_TRUE(memory);
  EXPECT_DOUBLE_EQ(memory->nominal, 0.95 * 8 / 9);
  EXPECT_DOUBLE_EQ(memory->half_width, 0.6);
}

TEST(BuiltinInterval, TheClusterAndTheStackAskedAboutAreLeftOut) {
  const std::vector<GroupErrors> groups{group("a", "x", {5}), group("b", "y", {6}),
                                        group("c", "z", {0.5})};
  const auto interval = grouped_interval(groups, "a", "y", BuiltinQuantity::step);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->half_width, 0.5);
  EXPECT_EQ(interval->rows, 1);
  EXPECT_DOUBLE_EQ(interval->nominal, 0.95 * 0.75) << "of one group no more can be promised";
  EXPECT_FALSE(grouped_interval(groups, "c", "x", BuiltinQuantity::memory));
}

GroupErrors of_source(const std::string& source, BuiltinQuantity quantity,
                      std::vector<double> errors) {
  GroupErrors made = group("c", "s", std::move(errors));
  made.source = source;
  made.quantity = quantity;
  return made;
}

// Nine sources: eight whose runs took exactly what the slowest known software would have, and one
// with ten runs 0.1 to 1 above it. Each group weighs 0.1; 0.925 of the whole, less half of the
// group that was never seen, is 0.875: eight groups and 0.75 of the ninth, its eighth run. Without
// that source there is no margin. All runs were 0.3 slower than the fastest, which is raised by as
// much.
TEST(BuiltinInterval, MarginsOfWhatSoftwareThatIsKnownWouldTake) {
  std::vector<GroupErrors> groups;
  for (int s = 0; s < 9; ++s) {
    const std::string source = "s" + std::to_string(s);
    std::vector<double> above(1, 0);
    if (s == 8) above = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0};
    groups.push_back(of_source(source, BuiltinQuantity::above_slowest, above));
    groups.push_back(of_source(source, BuiltinQuantity::below_fastest, {-0.3}));
  }
  const auto margins = range_margins(groups);
  ASSERT_TRUE(margins);
  EXPECT_DOUBLE_EQ(margins->nominal, 0.85);
  EXPECT_DOUBLE_EQ(margins->above, 0.8);
  EXPECT_DOUBLE_EQ(margins->below, -0.3);
  EXPECT_EQ(margins->rows, 18);
  EXPECT_DOUBLE_EQ(range_margins(groups, "s8")->above, 0);
  groups.resize(4);  // two of each side
  EXPECT_FALSE(range_margins(groups));
}

// Nine groups with scores of 0.1 to 0.9: 0.85 less half of the unseen tenth is 0.8, the eighth.
TEST(BuiltinInterval, RatiosLieWithinWhatPairsOfRunsMiss) {
  std::vector<GroupErrors> groups;
  const auto quantity = measured_at(PlanDistance::one_choice, SoftwareKnown::by_default);
  for (int s = 1; s <= 9; ++s)
    groups.push_back(of_source("s" + std::to_string(s), quantity, {s / 10.0}));
  const auto interval = ratio_interval(groups, quantity);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->half_width, 0.8);
  EXPECT_EQ(interval->centre, 0);
  EXPECT_FALSE(ratio_interval(groups, BuiltinQuantity::default_ratio_same));
}

// The nearer a measured plan, the less is left of an error; shipped figures, so only their order.
TEST(BuiltinInterval, IsNarrowerTheNearerTheMeasuredPlan) {
  for (const SoftwareKnown known : {SoftwareKnown::named, SoftwareKnown::by_default}) {
    const auto width = [&](PlanDistance apart) {
      return interval_beside(apart, "dgx-a100", "megatron-core", known)->half_width;
    };
    EXPECT_GT(width(PlanDistance::none), 0);
    EXPECT_LE(width(PlanDistance::none), width(PlanDistance::one_choice));
    EXPECT_LE(width(PlanDistance::one_choice), width(PlanDistance::choices));
    EXPECT_LE(width(PlanDistance::choices), width(PlanDistance::other_job));
  }
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
  const std::vector<GroupErrors> groups{{"bloom", "a", "x", BuiltinQuantity::anchored_step, 3,
                                         -0.25, spaced_quantiles({0.3, 0.1, 0.2})}};
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
}  // namespace weir::builtin_interval_test
