// A budget shared out among a search and what explains it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/time_bound.hpp"

#include <gtest/gtest.h>

#include "plan/words/error.hpp"

namespace weir::time_bound_test {
namespace {

using app::TimeBound;
using Part = TimeBound::Part;

constexpr double kSoon = 5;  // s: a slow machine between two lines here

TEST(TimeBound, WithoutABudgetNothingEnds) {
  const TimeBound none;
  EXPECT_FALSE(none.left(Part::report));
  EXPECT_FALSE(none.over(Part::search));
  EXPECT_FALSE(TimeBound("", {.explain = true}).left(Part::search));
  EXPECT_THROW(TimeBound("soon", {}), UsageError);
}

// A search alone has all of it. With reasons it has 6 parts of 6 + 1 + 1/2 + 1, with a baseline too
// 6 of 6 + 1 + 1 + 1/2 + 1 + 1; whatever is last ends with the whole.
TEST(TimeBound, PartsEndInTheirOrder) {
  const auto left = [](const TimeBound::Beside& beside, Part part) {
    return TimeBound("1000s", beside).left(part).value().count();
  };
  EXPECT_NEAR(left({}, Part::search), 1000, kSoon);
  EXPECT_NEAR(left({.explain = true}, Part::search), 6 / 8.5 * 1000, kSoon);
  EXPECT_NEAR(left({.explain = true}, Part::what_if), 7 / 8.5 * 1000, kSoon);
  EXPECT_NEAR(left({.explain = true}, Part::outside), 1000, kSoon);
  EXPECT_NEAR(left({.baseline = true, .explain = true}, Part::search), 6 / 10.5 * 1000, kSoon);
  EXPECT_NEAR(left({.baseline = true, .explain = true}, Part::first_changes), 7 / 10.5 * 1000,
              kSoon);
  EXPECT_NEAR(left({.baseline = true}, Part::report), 1000, kSoon);
  EXPECT_NEAR(left({.report = true}, Part::search), 6 / 7.0 * 1000, kSoon);
}

TEST(TimeBound, WhatIsOverHasNothingLeft) {
  const TimeBound passed("0.000001ms", {.explain = true});
  EXPECT_TRUE(passed.over(Part::outside));
  EXPECT_EQ(passed.left(Part::outside), Seconds(0));
}

}  // namespace
}  // namespace weir::time_bound_test
