// The search of large spaces against the forecast of every candidate, on small ones that are made
// from seeds: the same best plans, and no bound above what it bounds.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/best_first.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "plan/model/readers/model_import.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "sim/search/examine.hpp"
#include "sim/search/space/open_choices.hpp"
#include "sim/search/sweep.hpp"
#include "sim/search/sweep_json.hpp"
#include "tests/sim/random_spaces.hpp"

namespace weir::best_first_test {
namespace {

class BestFirst : public RandomSpaces {
 protected:
  // Of which every candidate is forecast.
  Space small(std::mt19937& random) {
    Space space = timed(random, 3, 7);
    SweepRequest& request = space.request;
    request.pp = {1, 2, 3};
    request.vpp = {1, 2};
    request.dp = {1, any(random, 1, 2)};
    request.zero = {any(random, 0, 3)};
    request.global_batch_size = any(random, 0, 1) == 0 ? 4 : 6;
    request.schedules = schedules(random, 2);
    request.recompute = {{},
                         {.mode = RecomputeMode::stage, .except_last = any(random, 0, 1) == 0},
                         {.mode = RecomputeMode::full, .at_a_time = 2}};
    return space;
  }
};

// Half of the spaces with a limit that some of their plans exceed.
TEST_F(BestFirst, FindsWhatTheForecastOfEveryCandidateFinds) {
  int spaces = 0, limited = 0, shorter = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    Space space = small(random);
    SweepRequest& request = space.request;
    SweepResult all = sweep(request, space.costs, space.cluster);
    if (all.plans.empty()) continue;
    if (seed % 2 == 0) {
      std::vector<Bytes> peaks;
      for (const Ranked& ranked : all.plans) peaks.push_back(ranked.forecast.peak_memory());
      std::ranges::sort(peaks);
      request.memory_limit = peaks[peaks.size() / 3];
      all = sweep(request, space.costs, space.cluster);
      ++limited;
    }
    const Model model = load_model(folder_ / "layers.csv");
    SplitCosts known(model, space.costs, space.cluster.stack);
    const Nodes nodes = enumerate(request, model, known, space.cluster);
    request.keep = 1 + static_cast<int>(seed % 3);
    const SweepResult best = best_first(request, nodes, known, space.cluster);
    const auto wanted =
        std::min<std::size_t>(all.plans.size(), static_cast<std::size_t>(*request.keep));
    ASSERT_EQ(best.plans.size(), wanted) << "seed " << seed;
    EXPECT_EQ(best.gap, 0) << "seed " << seed;
    for (std::size_t i = 0; i < wanted; ++i) {
      const Forecast &mine = best.plans[i].forecast, &its = all.plans[i].forecast;
      EXPECT_EQ(to_json(best.plans[i].plan), to_json(all.plans[i].plan)) << "seed " << seed;
      EXPECT_EQ(mine.step_time, its.step_time) << "seed " << seed;
      EXPECT_LE(mine.peak_memory(), request.memory_limit.value_or(mine.peak_memory()));
    }
    shorter += best.effort->refined < all.candidates ? 1 : 0;
    ++spaces;
  }
  EXPECT_GT(spaces, 250);
  EXPECT_GT(limited, 100);
  EXPECT_GT(shorter, spaces / 2);  // it need not look at all of them
}

// Of every candidate, whatever its schedule: no step is shorter than its bound, and no peak lower.
TEST_F(BestFirst, NoBoundIsAboveWhatItBounds) {
  int compared = 0;
  for (unsigned seed = 1; seed <= 25; ++seed) {
    std::mt19937 random(seed);
    Space space = small(random);
    SweepRequest& request = space.request;
    request.schedules = schedules(random, 8);
    const Model model = load_model(folder_ / "layers.csv");
    SplitCosts known(model, space.costs, space.cluster.stack);
    const Nodes nodes = enumerate(request, model, known, space.cluster);
    Examiner examiner(request, nodes, known, space.cluster);
    Programs programs;
    std::vector<std::uint32_t> every(nodes.all.size());
    for (std::uint32_t n = 0; n < every.size(); ++n) every[n] = n;
    for (const Examined& one : examiner.examine(every)) {
      if (one.verdict != Examined::Verdict::possible) continue;
      Plan plan = examiner.plan(one.node);
      plan.slots = std::get<int>(examiner.shapes().slots(plan, programs));
      const ResolvedPlan resolved = resolve(plan, folder_);
      const Forecast its = forecast(resolved, known.of(plan), space.cluster).forecast;
      EXPECT_LE(nodes.all[one.node].bound_ns, its.step_time.count() * 1e9 + 1e-3) << to_json(plan);
      EXPECT_LE(one.memory, its.peak_memory()) << to_json(plan);
      ++compared;
    }
  }
  EXPECT_GT(compared, 500);
}

TEST_F(BestFirst, OneThreadAndTwoFindTheSame) {
  std::mt19937 random(7);
  Space space = small(random);
  SweepRequest& request = space.request;
  request.schedules = schedules(random, generators().size());
  request.recompute = {};
  request.keep = 5;
  const auto found = [&](int threads) {
    request.threads = threads;
    SweepResult result = sweep(request, space.costs, space.cluster);
    EXPECT_TRUE(result.effort);
    result.seconds = 0;
    return to_json(result);
  };
  EXPECT_EQ(found(1), found(2));
}

// Wherever a search is interrupted, one that goes on from there, through a file, finds the same.
TEST_F(BestFirst, AnInterruptedSearchGoesOnToTheSame) {
  int states = 0, with_waiting = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    Space space = small(random);
    SweepRequest& request = space.request;
    request.schedules = schedules(random, generators().size());
    request.recompute = {};
    request.keep = 3;
    request.effort = seed % 2 == 0 ? 24 : 100'000;
    std::vector<std::string> seen;
    const auto found = [&] {
      SweepResult result = sweep(request, space.costs, space.cluster);
      EXPECT_TRUE(result.effort);
      result.seconds = 0;
      return to_json(result);
    };
    request.checkpoint = [&](const SearchState& state) { seen.push_back(to_json(state).dump()); };
    const std::string whole = found();
    request.checkpoint = {};
    const std::size_t each = std::max<std::size_t>(1, seen.size() / 4);
    for (std::size_t s = 0; s < seen.size(); s += each) {
      request.resume = parse_search_state(parse_json(seen[s], "state"), "state");
      EXPECT_EQ(found(), whole) << "seed " << seed << ", state " << s;
      with_waiting += request.resume->waiting.empty() ? 0 : 1;
      ++states;
    }
    request.resume->candidates += 1;
    EXPECT_THROW(found(), InputError);
  }
  EXPECT_GT(states, 20);
  EXPECT_GT(with_waiting, 5);
}

// Whenever the signal comes, while nodes are listed, amid a batch or in the last one: where anybody
// was told, the result says so, and no plan is called the best of all that was not a whole
// search's.
TEST_F(BestFirst, ASignalAtAnyMomentIsTold) {
  std::mt19937 random(5);
  Space space = small(random);
  SweepRequest& request = space.request;
  request.schedules = schedules(random, generators().size());
  request.recompute = {};
  request.keep = 1;
  const SweepResult whole = sweep(request, space.costs, space.cluster);
  ASSERT_TRUE(whole.effort);
  int stopped = 0, found = 0;
  for (int questions = 0;; questions += 1 + questions / 16) {
    std::atomic<int> asked = 0;
    request.stop = [&] { return asked++ >= questions; };
    const SweepResult result = sweep(request, space.costs, space.cluster);
    EXPECT_EQ(result.stopped_after.has_value(), asked > questions) << questions;
    if (asked <= questions) break;
    ++stopped;
    found += result.plans.empty() ? 0 : 1;
    if (result.gap > 0) continue;
    ASSERT_FALSE(result.plans.empty()) << questions;
    EXPECT_EQ(result.plans.front().forecast.step_time, whole.plans.front().forecast.step_time);
  }
  EXPECT_GT(stopped, 20);
  EXPECT_GT(found, 5);
}

// Processes that search together, here threads that exchange their texts at a barrier: each finds
// what one alone does.
TEST_F(BestFirst, APartyFindsWhatOneAloneFinds) {
  for (const int count : {2, 3}) {
    std::mt19937 random(static_cast<unsigned>(count));
    Space space = small(random);
    SweepRequest& request = space.request;
    request.schedules = schedules(random, generators().size());
    request.recompute = {};
    request.keep = 4;
    request.threads = 1;
    const auto found = [&](const SweepRequest& asked) {
      SweepResult result = sweep(asked, space.costs, space.cluster);
      result.seconds = 0;
      return to_json(result);
    };
    const std::string alone = found(request);
    const auto members = static_cast<std::size_t>(count);
    std::barrier barrier(count);
    std::vector<std::string> texts(members), results(members);
    std::vector<std::jthread> party;
    for (std::size_t member = 0; member < members; ++member) {
      party.emplace_back([&, member] {
        SweepRequest own = request;
        own.party = {static_cast<int>(member), count, [&, member](const std::string& text) {
                       texts[member] = text;
                       barrier.arrive_and_wait();
                       std::vector<std::string> all = texts;
                       barrier.arrive_and_wait();
                       return all;
                     }};
        results[member] = found(own);
      });
    }
    party.clear();
    for (const std::string& one : results) EXPECT_EQ(one, alone);
  }
}

// What each member of a party finds and how often it exchanges; `own` changes its request. Who has
// found leaves the others' barrier, so that a member that exchanges less leaves nobody waiting.
struct Member {
  SweepResult result;
  int exchanges = 0;
};
template <class Space, class Own>
std::vector<Member> party_of(std::size_t count, const Space& space, const Own& own) {
  std::vector<Member> members(count);
  std::vector<std::string> texts(count);
  std::barrier barrier(static_cast<std::ptrdiff_t>(count));
  std::vector<std::jthread> threads;
  for (std::size_t member = 0; member < count; ++member) {
    threads.emplace_back([&, member] {
      SweepRequest request = space.request;
      request.party = {static_cast<int>(member), static_cast<int>(count),
                       [&, member](const std::string& text) {
                         ++members[member].exchanges;
                         texts[member] = text;
                         barrier.arrive_and_wait();
                         std::vector<std::string> all = texts;
                         barrier.arrive_and_wait();
                         return all;
                       }};
      own(member, request);
      members[member].result = sweep(request, space.costs, space.cluster);
      barrier.arrive_and_drop();
    });
  }
  threads.clear();
  return members;
}

// A signal that one process of two hears alone, and a budget that ends earlier on its clock: the
// first one's word counts, whenever it comes, and they exchange equally often and list the same.
TEST_F(BestFirst, WhatOneProcessHearsAloneEndsNoExchange) {
  std::mt19937 random(5);
  Space space = small(random);
  SweepRequest& request = space.request;
  request.schedules = schedules(random, generators().size());
  request.recompute = {};
  request.keep = 1;
  request.threads = 1;
  const double hour = 3600;
  for (const bool large : {true, false}) {
    if (!large) request.schedules = {"gpipe"};
    if (!large) request.keep.reset();  // a small search forecasts all
    for (const std::size_t hears : {std::size_t{0}, std::size_t{1}}) {
      for (const int questions : {0, 1, 2, 3, 5, 8, 13, 40}) {
        const auto members = party_of(2, space, [&](std::size_t member, SweepRequest& own) {
          own.budget = Seconds(hour);
          own.stop = [asked = std::make_shared<int>(0), questions, mine = member == hears] {
            return mine && (*asked)++ >= questions;
          };
        });
        EXPECT_EQ(members[0].exchanges, members[1].exchanges) << hears << ' ' << questions;
        for (const auto& [result, exchanges] : members) {
          EXPECT_EQ(result.candidates, members[0].result.candidates);
          EXPECT_EQ(result.listed, members[0].result.listed);
          EXPECT_EQ(result.stopped_after, members[0].result.stopped_after);
          if (hears == 1 || questions < 2) {
            EXPECT_EQ(result.stopped_after.has_value(), hears == 0) << questions;
          }
        }
      }
      const auto members = party_of(2, space, [&](std::size_t member, SweepRequest& own) {
        own.budget = Seconds(member == hears ? 1e-9 : hour);
      });
      EXPECT_EQ(members[0].exchanges, members[1].exchanges);
      for (const auto& [result, exchanges] : members) {
        EXPECT_FALSE(result.stopped_after);
        // Of a large search the budget ends the listing, of a small one the forecasts alone.
        EXPECT_EQ(result.listed, !large || hears == 1);
        EXPECT_EQ(std::isinf(result.gap), hears == 0);
      }
    }
  }
}

// With no effort left after the first few, the answer says how much better another could be; with
// all of it, that none can.
TEST_F(BestFirst, WhatWasNotLookedAtIsAGap) {
  std::mt19937 random(3);
  Space space = small(random);
  SweepRequest& request = space.request;
  request.schedules = schedules(random, generators().size());
  request.recompute = {};
  request.keep = 1;
  request.effort = 8;
  const SweepResult some = sweep(request, space.costs, space.cluster);
  request.effort = 100'000;
  const SweepResult all = sweep(request, space.costs, space.cluster);
  EXPECT_EQ(all.gap, 0);
  const double ratio = some.plans.front().forecast.step_time / all.plans.front().forecast.step_time;
  EXPECT_GE(ratio, 1);
  EXPECT_GE(some.gap, ratio - 1);
}

// However little effort is allowed, a search goes on until a plan fits: that none does is said only
// where none was left to look at.
TEST_F(BestFirst, NoEffortEndsASearchThatHasFoundNothing) {
  std::mt19937 random(3);
  Space space = small(random);
  const Model model = load_model(folder_ / "layers.csv");
  SplitCosts known(model, space.costs, space.cluster.stack);
  const Nodes nodes = enumerate(space.request, model, known, space.cluster);
  space.request.keep = 1;
  space.request.effort = 0;
  const SweepResult result = best_first(space.request, nodes, known, space.cluster);
  EXPECT_EQ(result.plans.size(), 1U);
  space.request.memory_limit = Bytes(1);
  const SweepResult none = best_first(space.request, nodes, known, space.cluster);
  EXPECT_TRUE(none.plans.empty());
  EXPECT_EQ(none.effort->looked_at, none.candidates);
}

// 64 devices of nodes of 8: degrees that make them up, tensor parallelism within a node.
TEST(OpenChoices, AreWhatTheDevicesAndTheModelAllow) {
  Model model;
  model.layers.resize(10);
  for (Layer& layer : model.layers)
    layer.shape = TransformerShape{.hidden = 64, .heads = 8, .kv_heads = 8, .head_dim = 8};
  Cluster cluster;
  cluster.devices_per_node = 8;
  cluster.nodes = 8;
  SweepRequest request;
  request.base.seq_length = 128;
  for (auto* list : {&request.pp, &request.vpp, &request.tp, &request.cp, &request.dp})
    list->clear();
  request.exact_devices = true;
  request.schedules.clear();
  const SweepRequest open = with_open_choices(request, model, cluster);
  EXPECT_EQ(open.devices, 64);
  EXPECT_EQ(open.pp, (std::vector{1, 2, 4, 8}));
  EXPECT_EQ(open.tp, (std::vector{1, 2, 4, 8}));
  EXPECT_EQ(open.dp, (std::vector{1, 2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(open.schedules.size(), generators().size());
  EXPECT_EQ(chunks(open, model, 1), (std::vector{1}));
  EXPECT_EQ(chunks(open, model, 2), (std::vector{1, 2, 5}));  // five layers a rank
  EXPECT_EQ(chunks(open, model, 8), (std::vector{1}));        // ten layers are too few for 16
  for (const Plan& plan : with_degrees(open, model))
    EXPECT_EQ(64 % (plan.tp * plan.cp * plan.dp), 0);
  request.pp = {3};
  EXPECT_EQ(with_open_choices(request, model, cluster).pp, (std::vector{3}));
}

}  // namespace
}  // namespace weir::best_first_test
