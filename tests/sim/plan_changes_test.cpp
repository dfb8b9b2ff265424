// What two plans have otherwise, on worked examples.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/plan_changes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace weir::plan_changes_test {
namespace {

using Rows = std::vector<std::pair<std::string, KeyRole>>;

Rows rows_of(const std::vector<PlanChange>& changes) {
  Rows rows;
  for (const PlanChange& one : changes) rows.emplace_back(one.key, one.role);
  return rows;
}

TEST(PlanChanges, AreTheKeysThatDiffer) {
  Plan from;
  from.model_path = "a.json";
  EXPECT_EQ(rows_of(plan_changes(from, from)), Rows());
  Plan to = from;
  to.model_path = "b.json";
  to.seed = 7;
  to.pp = 2;
  to.boundaries = {0, 3};
  to.slots = 4;
  EXPECT_THAT(rows_of(plan_changes(from, to)),
              testing::UnorderedElementsAre(
                  std::pair("model", KeyRole::origin), std::pair("seed", KeyRole::origin),
                  std::pair("boundaries", KeyRole::follows), std::pair("slots", KeyRole::follows),
                  std::pair("pp", KeyRole::chosen)));
  // The same model elsewhere, and another seed, change no step.
  EXPECT_THAT(rows_of(step_changes(from, to)),
              testing::UnorderedElementsAre(std::pair("boundaries", KeyRole::follows),
                                            std::pair("slots", KeyRole::follows),
                                            std::pair("pp", KeyRole::chosen)));
}

// Where R stands is a key of plans that rebuild stages alone: one side has none.
TEST(PlanChanges, AKeyThatOneSideHas) {
  Plan stage, full;
  stage.recompute = {.mode = RecomputeMode::stage};
  full.recompute = {.mode = RecomputeMode::full};
  const auto there = plan_changes(stage, full), back = plan_changes(full, stage);
  ASSERT_EQ(rows_of(there),
            (Rows{{"recompute", KeyRole::chosen}, {"recompute_placement", KeyRole::chosen}}));
  EXPECT_EQ(there[1].before, "early");
  EXPECT_TRUE(there[1].after.is_null());
  ASSERT_EQ(rows_of(back), rows_of(there));
  EXPECT_TRUE(back[1].before.is_null());
  EXPECT_EQ(back[1].after, "early");
}

}  // namespace
}  // namespace weir::plan_changes_test
