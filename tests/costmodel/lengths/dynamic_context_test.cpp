// Sequences that each have devices of their own: rounds by hand and against the best there are,
// mean steps by closed forms, and costs that are those of plans where all sequences are alike.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/dynamic_context.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "costmodel/layers/dealt_step.hpp"
#include "costmodel/layers/sequence_rounds.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/cost_breakdown.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::dynamic_context_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A round as devices and lengths of each team.
using Teams = std::vector<std::pair<int, std::vector<int>>>;
std::vector<Teams> dealt(std::vector<int> lengths, int most, int devices) {
  std::vector<Teams> rounds;
  for (const SequenceRound& round : sequence_rounds(std::move(lengths), most, devices)) {
    Teams& teams = rounds.emplace_back();
    for (const SequenceTeam& team : round) teams.emplace_back(team.devices, team.lengths);
  }
  return rounds;
}

// The least power of two of which none has more than 100: 200 tokens are two devices', 201 four's.
TEST(SequenceRounds, DevicesFollowLengths) {
  EXPECT_EQ(devices_of_sequence(1, 100), 1);
  EXPECT_EQ(devices_of_sequence(100, 100), 1);
  EXPECT_EQ(devices_of_sequence(101, 100), 2);
  EXPECT_EQ(devices_of_sequence(200, 100), 2);
  EXPECT_EQ(devices_of_sequence(201, 100), 4);
}

// Four devices. The 400 asks for all of them; of the 200s two have two each, and the 100s one each.
TEST(SequenceRounds, TheLongestComeFirst) {
  EXPECT_THAT(dealt({100, 200, 100, 400, 100, 200, 100}, 100, 4),
              ElementsAre(Teams{{4, {400}}}, Teams{{2, {200}}, {2, {200}}},
                          Teams{{1, {100}}, {1, {100}}, {1, {100}}, {1, {100}}}));
}

// Work is the square: the 60s, 3600 each, and the 50, 2500, are 9700 beside the 100's 10000.
TEST(SequenceRounds, TheLeastLoadedTakesTheNext) {
  EXPECT_THAT(dealt({60, 50, 60, 100}, 100, 2), ElementsAre(Teams{{1, {100}}, {1, {60, 60, 50}}}));
}

// A third 100 would make one of two devices work twice as long: it comes in a round of its own,
// which both share, since none is left over. 150 has two of four devices, 50 one and with it the
// last.
TEST(SequenceRounds, WhatIsTooMuchWaitsAndWhatIsFreeHelps) {
  EXPECT_THAT(dealt({100, 100, 100}, 100, 2),
              ElementsAre(Teams{{1, {100}}, {1, {100}}}, Teams{{2, {100}}}));
  EXPECT_THAT(dealt({150, 50}, 100, 4), ElementsAre(Teams{{2, {150}}, {2, {50}}}));
}

double work(int length, int devices) { return static_cast<double>(length) * length / devices; }

double time_of(const std::vector<SequenceRound>& rounds) {
  double sum = 0;
  for (const SequenceRound& round : rounds) {
    double longest = 0;
    for (const SequenceTeam& team : round) {
      double load = 0;
      for (const int length : team.lengths) load += work(length, team.devices);
      longest = std::max(longest, load);
    }
    sum += longest;
  }
  return sum;
}

// All sequences once, each on at least as many devices as it asks for and all devices in each
// round. Two devices and sequences of one each, or both: never faster than if all work were
// divided. Beside the best of all ways to give each to one of the two, or to both, without rounds,
// the trainer's rules are within a tenth on average and below twice at worst, where rounds end with
// one long sequence.
TEST(SequenceRounds, AgainstTheBestOfAllWays) {
  std::mt19937 random(7);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  constexpr int kRuns = 300;
  double worst = 1, mean = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<int> lengths;
    for (int n = between(1, 7); n > 0; --n) lengths.push_back(between(20, 200));
    const auto rounds = sequence_rounds(lengths, 100, 2);
    std::vector<int> seen;
    double all = 0;
    for (const SequenceRound& round : rounds) {
      int devices = 0;
      for (const SequenceTeam& team : round) {
        devices += team.devices;
        for (const int length : team.lengths) {
          EXPECT_GE(team.devices, devices_of_sequence(length, 100));
          seen.push_back(length);
        }
      }
      EXPECT_EQ(devices, 2);
    }
    for (const int length : lengths) all += work(length, 1);
    std::ranges::sort(seen);
    std::ranges::sort(lengths);
    EXPECT_EQ(seen, lengths);
    double best = all;
    int ways = 1;
    for (std::size_t i = 0; i < lengths.size(); ++i) ways *= 3;
    for (int way = 0; way < ways; ++way) {
      double load[2] = {0, 0}, both = 0;
      bool possible = true;
      int rest = way;
      for (const int length : lengths) {
        const int to = rest % 3;
        rest /= 3;
        possible = possible && (to == 2 || devices_of_sequence(length, 100) == 1);
        (to == 2 ? both : load[to]) += work(length, to == 2 ? 2 : 1);
      }
      if (possible) best = std::min(best, both + std::max(load[0], load[1]));
    }
    EXPECT_GE(time_of(rounds), all / 2 * (1 - 1e-12));
    worst = std::max(worst, time_of(rounds) / best);
    mean += time_of(rounds) / best / kRuns;
  }
  EXPECT_LT(worst, 2);
  EXPECT_LT(mean, 1.1);
  EXPECT_GT(mean, 1);  // they are greedy
}

SequencesOfAStep of(std::vector<int> quantiles, int most, std::int64_t tokens, int devices) {
  return {{std::move(quantiles), RowsOf::packed, most}, tokens, devices, 1};
}

// Three sequences of 100 on two devices: a round of two, 10 s, and one that both share, 50 tokens
// each, 6 s. Either device has one of each kind, and never waits.
TEST(DealtStep, OfEqualSequences) {
  const DealtStep step = dealt_step(of({100}, 100, 300, 2), [](const SequenceKind& kind) {
    return Seconds(kind.devices == 1 ? 10 : 6);
  });
  const std::map<SequenceKind, double> passes{{{100, 1}, 1}, {{100, 2}, 1}};
  EXPECT_EQ(step.passes, passes);
  EXPECT_DOUBLE_EQ(step.busy.count(), 16);
  EXPECT_NEAR(step.waits.count(), 0, 1e-12);
}

// Where a sequence takes as long as it has tokens on a device, all of a step's take tokens /
// devices, however they are dealt. Two of uniform lengths from 50 to 100 on a device each: their
// mean difference is a third of 50, of which a device waits half on average, 8.33, drawn to 0.4.
TEST(DealtStep, OfTimesThatGrowWithTokens) {
  const auto linear = [](const SequenceKind& kind) {
    return Seconds(static_cast<double>(kind.tokens) / kind.devices);
  };
  EXPECT_NEAR(dealt_step(of({20, 100}, 50, 6000, 4), linear).busy.count(), 1500, 1e-6);
  const DealtStep two = dealt_step(of({50, 100}, 100, 150, 2), linear);
  EXPECT_NEAR(two.busy.count(), 75, 1e-9);
  EXPECT_NEAR(two.waits.count(), 50.0 / 6, 1.2);
}

Model small() {
  const TransformerShape block{.hidden = 1024,
                               .heads = 16,
                               .kv_heads = 16,
                               .head_dim = 64,
                               .ffn = 4096,
                               .attention = AttentionKind::fused};
  Model model;
  model.layers = {{"embedding", EmbeddingShape{.vocabulary = 4096, .hidden = 1024}, ""},
                  {"block.0", block, ""},
                  {"block.1", block, ""},
                  {"norm", NormShape{.hidden = 1024}, ""},
                  {"head", HeadShape{.vocabulary = 4096, .hidden = 1024}, ""}};
  return model;
}
Plan plan_of(int cp, int dp, int microbatches) {
  Plan plan;
  plan.seq_length = 4096;
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.cp = cp;
  plan.dp = dp;
  plan.microbatches = microbatches;
  plan.schedule = "1f1b";
  return plan;
}
Cluster h100() { return load_cluster(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json"); }
StageCost stage_of(const Plan& plan) {
  const ResolvedPlan loaded =
      derive(plan, small(), std::get<Schedule>(make_schedule("1f1b", {1, 1, plan.microbatches})));
  const Costs costs =
      builtin_costs(loaded.model, plan.seq_length, plan.dtype, h100(), {plan.split()});
  return cost_table(loaded, costs, h100()).table.stages[0];
}
Plan dynamic(Plan plan, std::vector<int> quantiles, int most) {
  plan.lengths = {std::move(quantiles), RowsOf::packed, most};
  return plan;
}

// Sequences that fill their rows, on as many devices as they would have anyway, are the plan
// without lengths; on one each they are that with as many more replicas and half the micro-batches.
TEST(DynamicContext, OfEqualSequencesIsThePlanOfTheirDegree) {
  const auto passes = [](const StageCost& cost) { return (cost.f + cost.b).count(); };
  const StageCost two = stage_of(plan_of(2, 2, 8)), one = stage_of(plan_of(1, 4, 4));
  const StageCost as_two = stage_of(dynamic(plan_of(2, 2, 8), {4096}, 2048)),
                  as_one = stage_of(dynamic(plan_of(2, 2, 8), {4096}, 4096));
  EXPECT_NEAR(static_cast<double>(passes(as_two)), static_cast<double>(passes(two)), 2);
  EXPECT_NEAR(static_cast<double>(passes(as_one)), static_cast<double>(passes(one)) / 2, 2);
  EXPECT_EQ(as_one.unlike.count(), 0);
  EXPECT_EQ(as_one.reduce, one.reduce);
  EXPECT_EQ(as_one.optimizer, one.optimizer);
  // Which is less than with the exchange of keys and values.
  EXPECT_LT(passes(as_one), passes(as_two));
}

// Few long sequences among short ones: whoever has them keeps the others waiting.
TEST(DynamicContext, UnlikeSequencesWait) {
  const StageCost unlike = stage_of(dynamic(plan_of(2, 2, 8), {64, 128, 256, 512, 4096}, 2048));
  EXPECT_GT(unlike.unlike.count(), 0);
  EXPECT_GT(unlike.reduce, unlike.unlike);
}

// A device that may have more tokens than any sequence has them no more often.
TEST(DynamicContext, ALimitAboveEverySequenceChangesNothing) {
  const auto with = [](int most) {
    return stage_of(dynamic(plan_of(2, 2, 8), {64, 128, 4096}, most));
  };
  const StageCost just = with(4096), far = with(1 << 24);
  EXPECT_EQ(just.f, far.f);
  EXPECT_EQ(just.b, far.b);
  EXPECT_EQ(just.unlike, far.unlike);
}

// The host takes a millisecond a block, and nothing is offloaded: no part of a pass is copies'.
TEST(DynamicContext, WithoutOffloadNothingIsCopied) {
  const Plan plan = dynamic(plan_of(2, 2, 8), {64, 128, 4096}, 2048);
  const ResolvedPlan loaded =
      derive(plan, small(), std::get<Schedule>(make_schedule("1f1b", {1, 1, plan.microbatches})));
  const Costs costs =
      builtin_costs(loaded.model, plan.seq_length, plan.dtype, h100(), {plan.split()});
  Cluster cluster = h100();
  cluster.stack.time.block_host_forward = Seconds(1e-3);
  const LayerCosts known(loaded, costs, cluster.stack);
  const CostBreakdown breakdown = cost_breakdown(loaded, known, cluster);
  EXPECT_EQ(breakdown.offloaded[0][ActionKind::F].count(), 0);
  EXPECT_GT(breakdown.stages[0][ActionKind::F].host.count(), 0);
}

// Of at most 2048 tokens a device: 4096 of two devices, whose exchange takes room too; where all
// are shorter, the longest.
TEST(DynamicContext, TheFullestSequence) {
  const auto fullest = [](std::vector<int> quantiles, int most) {
    const Plan plan = of_fullest_sequence(dynamic(plan_of(4, 2, 8), std::move(quantiles), most));
    return std::tuple(plan.seq_length, plan.cp, plan.dp);
  };
  EXPECT_EQ(fullest({64, 4096}, 2048), std::tuple(4096, 2, 4));
  EXPECT_EQ(fullest({64, 4000}, 2048), std::tuple(2048, 1, 8));
  EXPECT_EQ(fullest({64, 1000}, 2048), std::tuple(1000, 1, 8));
}

TEST(DynamicContext, NeedsCostsOfAnyLength) {
  const Plan plan = dynamic(plan_of(2, 2, 8), {64, 4096}, 2048);
  const ResolvedPlan loaded =
      derive(plan, small(), std::get<Schedule>(make_schedule("1f1b", {1, 1, 8})));
  Costs costs = builtin_costs(loaded.model, 4096, Dtype::bf16, h100(), {plan.split()});
  costs.basis = Basis::measured;
  EXPECT_THAT(complaint([&] { static_cast<void>(cost_table(loaded, costs, h100())); }),
              HasSubstr("layers: are of whole rows: the plan's lengths.dynamic_cp needs built-in"));
}

}  // namespace
}  // namespace weir::dynamic_context_test
