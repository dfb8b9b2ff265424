// What searches over schedules that divide the vocabulary say beside their best plan: rows that are
// not beaten by their own questions, reasons for what cannot be, and where they are proposed.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/job/plan_json.hpp"
#include "sim/explain/rejected.hpp"
#include "sim/search/best_first.hpp"
#include "sim/search/sweep_json.hpp"
#include "tests/sim/vocabulary/vocabulary_spaces.hpp"

namespace weir::vocabulary_search_test {
namespace {

using VocabularyAnswers = VocabularySpaces;

// A row's plan is beaten by no other row's that has its value too, nor by its own search by more
// than its gap.
TEST_F(VocabularyAnswers, NoRowIsBeatenByItsOwnQuestion) {
  int rows = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    Space space = made(seed);
    SweepRequest& request = space.request;
    request.schedules = {"gpipe", "1f1b", "vocab-1", "vocab-2", "interlaced", "zb-h1"};
    request.zero = {0, 1};
    request.tp = {1, 2};
    request.recompute.push_back({.mode = RecomputeMode::stage});
    request.keep = 3;
    request.effort = 48;
    request.families = families_of(request);
    space.price();
    const SweepResult result = space.search();
    ASSERT_TRUE(result.effort) << seed;
    for (std::size_t i = 0; i < result.families.size(); ++i) {
      const Family& family = request.families[i];
      const FamilyBest& row = result.families[i];
      if (family.choice != "schedule" && family.choice != "K") continue;
      ASSERT_TRUE(row.best) << seed << " " << family.value;
      const Seconds step = row.best->forecast.step_time;
      // Of whole vocabularies a large head makes the bound a weak one.
      if (divides_vocabulary(family.value)) {
        EXPECT_LE(row.gap, 0.05) << seed << " " << family.value;
      }
      for (const FamilyBest& other : result.families) {
        if (!other.best || !family.has(other.best->plan)) continue;
        EXPECT_LE(step, other.best->forecast.step_time) << seed << " " << family.value;
      }
      Space own = space;
      own.request.families.clear();
      own.request.keep = 1;
      own.request.effort = 100'000;
      if (family.choice == "K") own.request.pp = {std::stoi(family.value)};
      if (family.choice == "schedule") {
        own.request.schedules = {family.value};
        std::erase(own.request.pp, 1);
      }
      const SweepResult alone = own.search();
      ASSERT_FALSE(alone.plans.empty()) << seed << " " << family.value;
      EXPECT_LE(step, (1 + row.gap) * alone.plans.front().forecast.step_time)
          << seed << " " << family.value;
      ++rows;
    }
  }
  EXPECT_GT(rows, 60);
}

// Of a large space too: one thread finds what two find, what a search of every candidate finds, and
// what one finds that goes on from where another was.
TEST_F(VocabularyAnswers, ThreadsAndAnInterruptedSearchFindTheSame) {
  Space space = made(3);
  SweepRequest& request = space.request;
  request.schedules = {"1f1b", "vocab-1", "vocab-2", "interlaced", "zb-h1", "gpipe"};
  request.zero = {0, 1};
  request.tp = {1, 2};
  request.vpp = {1, 2};
  request.recompute.push_back({.mode = RecomputeMode::stage});
  space.price();
  const SweepResult all = space.search();
  request.keep = 5;
  const auto found = [&](int threads) {
    request.threads = threads;
    SweepResult result = space.search();
    EXPECT_TRUE(result.effort);
    for (std::size_t i = 0; i < result.plans.size(); ++i)
      EXPECT_EQ(to_json(result.plans[i].plan), to_json(all.plans[i].plan));
    result.seconds = 0;
    return to_json(result);
  };
  std::optional<SearchState> state;
  request.checkpoint = [&](const SearchState& its) {
    if (!state) state = its;
  };
  const std::string whole = found(1);
  EXPECT_EQ(whole, found(2));
  ASSERT_TRUE(state);
  request.resume = state;
  EXPECT_EQ(whole, found(2));
}

// What cannot be is left out with the words of `weir plan`, by the search that forecasts all and by
// the one that bounds, and the rest is searched.
TEST_F(VocabularyAnswers, WhatCannotBeIsLeftOutWithTheReason) {
  using testing::Contains;
  using testing::HasSubstr;
  const auto left_out = [](const Space& space) {
    const SweepResult all = space.search();
    EXPECT_FALSE(all.plans.empty());
    SweepRequest request = space.request;
    request.keep = 1;
    SplitCosts known(space.model, space.costs, space.cluster.stack);
    const Nodes nodes = enumerate(request, space.model, known, space.cluster);
    const SweepResult bounded = best_first(request, nodes, known, space.cluster);
    EXPECT_FALSE(bounded.plans.empty());
    std::vector<std::string> reasons = all.refused;
    for (const LeftOut& one : bounded.left_out)
      if (one.reason == "schedule") reasons.push_back(one.nearest);
    return reasons;
  };
  Space space = made(1);
  space.request.schedules = {"1f1b", "vocab-1"};
  space.request.tp = {1};
  space.request.recompute = {{}};
  const auto twice = [&](const auto& change, const std::string& reason) {
    Space changed = space;
    change(changed);
    changed.price();
    EXPECT_THAT(left_out(changed), testing::ElementsAre(HasSubstr(reason), HasSubstr(reason)));
  };
  twice([](Space& its) { its.request.pp = {1}; },
        "vocab-1 divides the vocabulary over K ranks: K must be at least 2");
  twice(
      [](Space& its) {
        its.request.pp = {2};
        its.request.vpp = {1, 2};
        its.request.schedules = {"looped-bfs", "vocab-1"};
      },
      "vocab-1 has one stage a rank: v must be 1");
  twice(
      [](Space& its) {
        its.request.pp = {2};
        its.request.recompute = {{}, {.mode = RecomputeMode::stage}};
      },
      "recompute: stage: expected layers, or none, with vocab-1, whose shards are stages that are "
      "not rebuilt");
  // With the head the model has as many layers as there are stages, without it one less.
  const int layers = static_cast<int>(space.model.layers.size());
  twice([layers](Space& its) { its.request.pp = {layers}; },
        fmt::format("K*v = {} is above the {} layers beside a divided vocabulary", layers,
                    layers - 1));
  // Times of a machine on which no shard was measured.
  Space measured = space;
  measured.request.pp = {2};
  measured.request.schedules = {"1f1b"};
  measured.price();
  measured.request.schedules = {"1f1b", "vocab-2"};
  EXPECT_THAT(left_out(measured), testing::ElementsAre(HasSubstr("nothing is known of layer"),
                                                       HasSubstr("nothing is known of layer")));
  // Layers without a table or a head.
  const std::string text =
      "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
      "l,table,10,1,1,1,64,64,4\n";
  write_file_atomically(folder_ / "layers.csv", text);
  Space timed = space;
  timed.request.pp = {2};
  timed.request.base.model_path = "layers.csv";
  timed.request.base.model_sha256 = sha256_hex(text);
  timed.model = load_model(folder_ / "layers.csv");
  timed.price();
  EXPECT_THAT(left_out(timed),
              testing::Each(HasSubstr("schedule: vocab-1: the model has no table of tokens")));
}

// Left open they are searched where everything was asked for, or where the stack's file lists them.
TEST_F(VocabularyAnswers, AreProposedWhereAsked) {
  Space space = made(1);
  space.request.schedules.clear();
  const auto divided = [&](SweepRequest request) {
    request = with_open_choices(std::move(request), space.model, space.cluster);
    std::erase_if(request.schedules,
                  [](const std::string& name) { return !divides_vocabulary(name); });
    return request.schedules;
  };
  EXPECT_THAT(divided(space.request), testing::IsEmpty());
  SweepRequest any = space.request;
  any.any_schedule = true;
  EXPECT_THAT(divided(any), testing::ElementsAre("vocab-1", "vocab-2", "interlaced"));
  SweepRequest listed = space.request;
  listed.software.schedules = {"1f1b", "vocab-2"};
  EXPECT_THAT(divided(listed), testing::ElementsAre("vocab-2"));
}

}  // namespace
}  // namespace weir::vocabulary_search_test
