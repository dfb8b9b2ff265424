// What a search says of more than its best plan is true of the whole space: rows, front and counts,
// on small spaces that are made from seeds, against searches of their own.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/job/summary.hpp"
#include "sim/explain/rejected.hpp"
#include "sim/search/space/open_choices.hpp"
#include "sim/search/sweep.hpp"
#include "tests/sim/random_spaces.hpp"

namespace weir::answers_test {
namespace {

class Answers : public RandomSpaces {
 protected:
  static constexpr unsigned kSpaces = 30;

  // Of half of the spaces a few hundred candidates, which are not all forecast, of the others
  // fewer, which are.
  Space made(unsigned seed) {
    std::mt19937 random(seed);
    Space space = timed(random, 4, 8);
    SweepRequest& request = space.request;
    request.pp = {1, 2, 3, 4};
    request.vpp = {1, 2};
    request.dp = {1, 2};
    request.zero = {0, any(random, 1, 3)};
    request.global_batch_size = any(random, 0, 1) == 0 ? 8 : 12;
    request.schedules = schedules(random, seed % 2 == 0 ? 3 : 8);
    request.recompute = {{}, {.mode = RecomputeMode::stage}, {.mode = RecomputeMode::full}};
    request.keep = 3;
    request.effort = 48;
    return space;
  }

  // The space with a row's value alone, as a user would ask for it.
  static SweepRequest narrowed(SweepRequest request, const Family& family) {
    request.families.clear();
    request.front = false;
    request.keep = 1;
    request.effort = 100'000;
    const std::string& value = family.value;
    if (family.choice == "schedule") {
      request.schedules = {value};
      std::erase(request.pp, 1);
    } else if (family.choice == "re-materialisation") {
      std::erase_if(request.recompute, [&](const Recompute& r) { return to_text(r) != value; });
    } else if (family.choice == "ZeRO") {
      request.zero = {value.back() - '0'};
      if (request.zero.front() > 0) std::erase(request.dp, 1);
    } else if (family.choice == "K") {
      request.pp = {std::stoi(value)};
    } else if (family.choice == "dp") {
      request.dp = {std::stoi(value)};
    }
    return request;
  }
};

// No row's plan is beaten by another row's that has its value too, nor by its own search by more
// than its gap, which is 5 % at most.
TEST_F(Answers, RowsAreTheBestSuchPlans) {
  int rows = 0, searched = 0;
  for (unsigned seed = 1; seed <= kSpaces; ++seed) {
    Space space = made(seed);
    space.request.families = families_of(space.request);
    const SweepResult result = space.search();
    ASSERT_EQ(result.families.size(), space.request.families.size());
    searched += result.effort ? 1 : 0;
    for (std::size_t i = 0; i < result.families.size(); ++i) {
      const Family& family = space.request.families[i];
      const FamilyBest& row = result.families[i];
      if (!row.best) continue;
      const Seconds step = row.best->forecast.step_time;
      EXPECT_TRUE(family.has(row.best->plan));
      EXPECT_LE(row.gap, 0.05);
      for (const FamilyBest& other : result.families) {
        if (!other.best || !family.has(other.best->plan)) continue;
        EXPECT_LE(step, other.best->forecast.step_time) << seed << " " << family.value;
      }
      Space own = space;
      own.request = narrowed(space.request, family);
      const SweepResult alone = own.search();
      ASSERT_FALSE(alone.plans.empty()) << seed << " " << family.choice << " " << family.value;
      EXPECT_LE(step, (1 + row.gap) * alone.plans.front().forecast.step_time)
          << seed << " " << family.choice << " " << family.value;
      ++rows;
    }
  }
  EXPECT_GT(rows, 200);
  EXPECT_GT(searched, 10);
}

// At ten limits from the largest peak down to the smallest, what the front has within the limit is
// at most 3 % slower than what a search with that limit finds.
TEST_F(Answers, TheFrontIsTheFront) {
  int compared = 0;
  for (unsigned seed = 1; seed <= kSpaces; ++seed) {
    Space space = made(seed);
    space.request.front = true;
    const SweepResult result = space.search();
    ASSERT_FALSE(result.front.empty());
    const auto peak = [](const Ranked& ranked) { return ranked.forecast.peak_memory(); };
    const Bytes most = peak(result.front.front()), least = peak(result.front.back());
    EXPECT_EQ(result.front.front().forecast.step_time, result.plans.front().forecast.step_time);
    Space limited = space;
    limited.request.front = false;
    limited.request.keep = 1;
    limited.request.effort = 100'000;
    for (int i = 0; i < 10; ++i) {
      const Bytes limit(least.count() + (most.count() - least.count()) * i / 9);
      limited.request.memory_limit = limit;
      const SweepResult alone = limited.search();
      if (alone.plans.empty()) continue;
      const auto within = std::ranges::find_if(
          result.front, [&](const Ranked& ranked) { return peak(ranked) <= limit; });
      ASSERT_NE(within, result.front.end()) << seed;
      EXPECT_LE(within->forecast.step_time, 1.03 * alone.plans.front().forecast.step_time)
          << seed << " at " << limit.count();
      ++compared;
    }
  }
  EXPECT_GT(compared, 150);
}

// Rows of what a search did not come to say so, and so do those whose own search may not begin.
TEST_F(Answers, RowsThatWereNotComeToSaySo) {
  Space space = made(1);
  space.request.families = families_of(space.request);
  SweepResult result = space.search();
  ASSERT_FALSE(result.plans.empty());
  std::size_t rows = 0;
  for (std::size_t i = 0; i < result.families.size(); ++i) {
    if (space.request.families[i].has(result.plans.front().plan)) continue;
    result.families[i] = {.any = rows % 2 == 0, .not_come_to = rows % 2 == 0};
    ++rows;
  }
  const auto all = rejected(space.request, result, space.costs, space.cluster, [] { return true; });
  ASSERT_EQ(all.size(), rows);
  ASSERT_GT(rows, 2U);
  int without_time = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_FALSE(all[i].best);
    // Every second has plans that were not come to; of the others there are none, for which the
    // reason is not looked for any more, or is plain.
    if (i % 2 == 0) {
      EXPECT_EQ(all[i].reason, "the search ended before it came to a plan that has it");
    } else {
      const bool untold = all[i].reason == "there was no time to look for why no plan has it";
      EXPECT_TRUE(untold || all[i].reason.starts_with("no plan of the search has"))
          << all[i].reason;
      without_time += untold ? 1 : 0;
    }
  }
  EXPECT_GT(without_time, 0);
}

// What is counted as fitting is what was forecast for any question: asking more counts no less, and
// no count is above that of all candidates.
TEST_F(Answers, CountsAreOfAllThatWasLookedAt) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    Space space = made(seed);
    const SweepResult first = space.search();
    space.request.families = families_of(space.request);
    space.request.front = true;
    const SweepResult more = space.search();
    EXPECT_GE(more.feasible, first.feasible);
    EXPECT_LE(more.feasible, more.candidates);
    if (more.effort) {
      EXPECT_LE(more.feasible, more.effort->refined);
    }
  }
}

}  // namespace
}  // namespace weir::answers_test
