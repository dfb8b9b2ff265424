// Searches over schedules that divide the vocabulary, beside others, on small models made from
// seeds: the same best plans as by hand, and no bound above what it bounds.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "plan/job/plan_json.hpp"
#include "plan/job/summary.hpp"
#include "plan/program/lower.hpp"
#include "sim/search/best_first.hpp"
#include "sim/search/examine.hpp"
#include "sim/search/partitions/balance.hpp"
#include "tests/sim/vocabulary/vocabulary_spaces.hpp"

namespace weir::vocabulary_search_test {
namespace {

class VocabularySearch : public VocabularySpaces {
 protected:
  // The degrees, batches and schedules that are legal, with slots but without boundaries: in an
  // order of their own.
  static std::vector<Plan> combinations(const Space& space) {
    const SweepRequest& request = space.request;
    std::vector<Plan> plans;
    Plan plan = request.base;
    plan.tp = request.tp.front();
    for (const std::string& schedule : request.schedules) {
      plan.schedule = schedule;
      for (const int k : request.pp) {
        plan.pp = k;
        for (const int dp : request.dp) {
          plan.dp = dp;
          plan.zero = dp > 1 ? request.zero.front() : 0;
          const int samples = *request.global_batch_size / dp;
          for (plan.microbatches = 1; plan.microbatches <= samples; ++plan.microbatches) {
            if (samples % plan.microbatches != 0) continue;
            plan.micro_batch_size = samples / plan.microbatches;
            const auto order = make_schedule(schedule, {k, 1, plan.microbatches});
            if (std::holds_alternative<std::string>(order)) continue;
            plan.slots = fewest_slots(std::get<Schedule>(order), request.base.slots);
            for (const Recompute& recompute : request.recompute) {
              plan.recompute = recompute;
              if (recompute.except_last && plan.microbatches == 1) continue;
              plans.push_back(plan);
            }
          }
        }
      }
    }
    return plans;
  }

  // All ways to cut so many layers, from left to right.
  static std::vector<std::vector<int>> cuts(int layers, int stages) {
    std::vector<std::vector<int>> all;
    std::vector<int> now;
    const auto add = [&](const auto& self, int from) -> void {
      if (std::ssize(now) == stages - 1) return all.push_back(now);
      for (int next = from + 1; next < layers; ++next) {
        now.push_back(next);
        self(self, next);
        now.pop_back();
      }
    };
    add(add, 0);
    return all;
  }

  static Ranked forecast_of(const Space& space, const Plan& plan) {
    const ResolvedPlan resolved = resolve(plan, space.request.folder);
    Ranked ranked{plan, forecast(resolved, space.costs, space.cluster).forecast};
    ranked.forecast.memory_limit = space.request.memory_limit;
    return ranked;
  }

  // Of every combination each partition is forecast, as `weir simulate` forecasts a plan; the
  // fastest stands, or where it fits less surely than the even one, that.
  static std::vector<Ranked> by_hand(const Space& space) {
    std::vector<Ranked> all;
    for (Plan plan : combinations(space)) {
      const Model staged = model_of_stages(space.model, plan);
      // Stages are evened out as if nothing were rebuilt, for all candidates alike.
      Plan kept = plan;
      kept.recompute = {};
      plan.boundaries = balanced_boundaries(staged, kept, space.costs, space.cluster);
      const Ranked even = forecast_of(space, plan);
      Ranked best = even;
      for (auto& cut : cuts(static_cast<int>(staged.layers.size()), plan.stages())) {
        plan.boundaries = std::move(cut);
        Ranked other = forecast_of(space, plan);
        if (other.forecast.step_time < best.forecast.step_time) best = std::move(other);
      }
      if (!even.forecast.may_fit()) continue;
      all.push_back(best.forecast.fits() <= even.forecast.fits() ? best : even);
    }
    rank(all);
    return all;
  }

  static void limit_memory(Space& space, const std::vector<Ranked>& plans) {
    std::vector<Bytes> peaks;
    for (const Ranked& ranked : plans) peaks.push_back(ranked.forecast.peak_memory());
    std::ranges::sort(peaks);
    space.request.memory_limit = peaks[peaks.size() / 3];
  }

  struct Found {
    int divided = 0, whole = 0, shorter = 0;
  };

  // With a limit that two thirds of the plans exceed and without one, by the search that forecasts
  // every candidate and by the one that bounds them.
  void compare_with_every_partition(unsigned seed, Found& found) {
    Space space = made(seed);
    for (const bool limited : {false, true}) {
      std::vector<Ranked> mine = by_hand(space);
      if (limited) {
        limit_memory(space, mine);
        mine = by_hand(space);
      }
      SweepRequest request = space.request;
      const SweepResult all = sweep(request, space.costs, space.cluster);
      SplitCosts known(space.model, space.costs, space.cluster.stack);
      const Nodes nodes = enumerate(request, space.model, known, space.cluster);
      request.keep = 3;
      const SweepResult bounded = best_first(request, nodes, known, space.cluster);
      EXPECT_EQ(bounded.gap, 0) << seed;
      ASSERT_EQ(all.plans.size(), mine.size()) << seed;
      ASSERT_EQ(bounded.plans.size(), std::min<std::size_t>(3, mine.size())) << seed;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const Forecast &its = all.plans[i].forecast, &by = mine[i].forecast;
        ASSERT_EQ(its.step_time, by.step_time) << seed << " " << summary(mine[i].plan);
        ASSERT_EQ(its.peak_memory(), by.peak_memory()) << seed << " " << summary(mine[i].plan);
      }
      for (std::size_t i = 0; i < bounded.plans.size(); ++i)
        EXPECT_EQ(to_json(bounded.plans[i].plan), to_json(all.plans[i].plan)) << seed;
      (divides_vocabulary(all.plans.front().plan.schedule) ? found.divided : found.whole) += 1;
      found.shorter += bounded.effort->refined < all.candidates ? 1 : 0;
    }
  }
};

TEST_F(VocabularySearch, FindsWhatEveryPartitionByHandFinds) {
  Found found;
  for (unsigned seed = 1; seed <= 3; ++seed) compare_with_every_partition(seed, found);
  // Both kinds win, and not all candidates were refined.
  EXPECT_GT(found.divided, 0);
  EXPECT_GT(found.whole, 0);
  EXPECT_GT(found.shorter, 3);
}

using LongVocabularySearch = VocabularySearch;

TEST_F(LongVocabularySearch, FindsWhatEveryPartitionByHandFinds) {
  Found found;
  for (unsigned seed = 1; seed <= 12; ++seed) compare_with_every_partition(seed, found);
  EXPECT_GT(found.divided, 4);
  EXPECT_GT(found.whole, 2);
  EXPECT_GT(found.shorter, 12);
}

// Of every candidate and partition: no step is shorter than the bound; of the even ones no peak is
// lower, and none lower than what all of the model takes, shared by the ranks.
TEST_F(VocabularySearch, NoBoundIsAboveWhatItBounds) {
  int compared = 0, divided = 0;
  double closest = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    Space space = made(seed);
    SplitCosts known(space.model, space.costs, space.cluster.stack);
    const Nodes nodes = enumerate(space.request, space.model, known, space.cluster);
    Examiner examiner(space.request, nodes, known, space.cluster);
    const DeviceShare device = device_share(space.costs, space.cluster);
    Programs programs;
    std::vector<std::uint32_t> every(nodes.all.size());
    std::iota(every.begin(), every.end(), 0U);
    for (const Examined& one : examiner.examine(every)) {
      if (one.verdict != Examined::Verdict::possible) continue;
      const Node& node = nodes.all[one.node];
      Plan plan = examiner.plan(one.node);
      plan.slots = std::get<int>(examiner.shapes().slots(plan, programs));
      const Forecast even = forecast_of(space, plan).forecast;
      EXPECT_LE(one.memory, even.peak_memory()) << to_json(plan);
      EXPECT_LE(device.of(nodes.held[node.job] / node.ranks), even.peak_memory());
      const bool divides = divides_vocabulary(plan.schedule);
      const int layers = staged_layers(known.of(plan).model());
      for (auto& cut : cuts(layers, plan.stages())) {
        plan.boundaries = std::move(cut);
        const Forecast its = forecast_of(space, plan).forecast;
        EXPECT_LE(its.lower_bound, its.step_time) << to_json(plan);
        const double step_ns = its.step_time.count() * 1e9;
        EXPECT_LE(node.bound_ns, step_ns + 1e-3) << to_json(plan);
        if (divides) closest = std::max(closest, node.bound_ns / step_ns);
        ++compared;
        divided += divides ? 1 : 0;
      }
    }
  }
  EXPECT_GT(compared, 4000);
  EXPECT_GT(divided, 2000);
  EXPECT_GT(closest, 0.9);  // it says something
}

// Four equal stages of F = 12 and B = 24 of 8 micro-batches, in ms, and shards with S = 2 and T =
// 3, of which with one barrier 1 is the input's gradient: S = 3, T = 2.
//   mean rank               8 (4 x 36 / 4 + 5) = 328
//   its heads and tails     F of the layers before a rank, 12 (0+1+2+3) = 72, B 24 x 6 = 144: two
//                           barriers 328 + 216 / 4 = 382; one 328 + 72 / 4 = 346
//   any partition, c x      with r = 1: 144 / (1 - (7/8)^4) = 347.98; 8 x 5 of the shard beside it
//                           with two barriers, 387.98; 8 x 3 with one, 371.98
//                           with r = 1/3: 48 / (1 - (23/24)^4) = 306.68, and 40
// So 387.98 and 371.98, where 1F1B's own step is 8 x 41 + 3 x 36 = 436 (docs/theory.md 2.7).
TEST(VocabularyBound, HasAShardOnEveryRank) {
  const auto ms = [](double of) { return Nanoseconds(static_cast<std::int64_t>(of * 1e6)); };
  JobWork work;
  work.whole = {.busy = 144e6,
                .forward_share = 1.0 / 3,
                .pass_share = 1,
                .path = 144e6,
                .heads = 72e6,
                .tails = 144e6};
  work.shard.f = ms(2);
  work.shard.i = ms(1);
  work.shard.w = ms(2);
  work.shard.b = ms(3);
  work.layers = 4;
  Plan plan;
  plan.pp = 4;
  plan.microbatches = 8;
  const auto bound = [&](const char* schedule) {
    return work_bound(work, schedule_traits(schedule), plan) / 1e6;
  };
  EXPECT_NEAR(bound("vocab-1"), 387.98, 0.01);
  EXPECT_NEAR(bound("interlaced"), 387.98, 0.01);
  EXPECT_NEAR(bound("vocab-2"), 371.98, 0.01);
  // All of the idle time that is not of a shard: (K-1)(F+B) of one rank.
  EXPECT_NEAR(work_estimate(work, schedule_traits("vocab-1"), plan, 0) / 1e6, 436, 0.5);
}

}  // namespace
}  // namespace weir::vocabulary_search_test
