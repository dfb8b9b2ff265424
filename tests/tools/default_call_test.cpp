// What a source's runs say of the default call, on runs made by hand.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/default_call.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "plan/job/assumed_stack.hpp"
#include "plan/job/left_out.hpp"
#include "tools/reproduce/measured/factor_effects.hpp"

namespace weir::default_call_test {
namespace {

MeasuredRun run(int tp, int dp, int b, int microbatches, double seconds) {
  MeasuredRun made;
  made.source = "s";
  made.model_name = "m";
  made.cluster.name = "c";
  made.cluster.stack.name = "x";
  made.plan.tp = tp;
  made.plan.dp = dp;
  made.plan.micro_batch_size = b;
  made.plan.microbatches = microbatches;
  made.step = PrintedStep{"step, s", {seconds, 0.01}};
  return made;
}

RunForecast forecast(double seconds, Fit fit = Fit::yes) {
  RunForecast made;
  made.step = Seconds(seconds);
  made.fit = fit;
  return made;
}

// Of those that surely fit the second is forecast fastest: measured 12 s, against 10 of the best,
// which only may fit. Where none surely fits the fastest of all that may is taken, and what does
// not fit where there is nothing else.
TEST(DefaultCall, RegretIsOfWhatSurelyFits) {
  const std::vector<Layout> layouts{
      {10, 5, Fit::maybe}, {12, 7, Fit::yes}, {15, 9, Fit::yes}, {11, 1, Fit::no}};
  EXPECT_NEAR(regret_of_sure(layouts), 0.2, 1e-12);
  const std::vector<Layout> unsure{{10, 8, Fit::maybe}, {15, 6, Fit::maybe}};
  EXPECT_NEAR(regret_of_sure(unsure), 0.5, 1e-12);
  EXPECT_EQ(regret_of_sure({}), 0);
}

// Eight devices, a mini-batch of 16. From TP 1 to 2 (half the replicas, twice the micro-batches) 10
// becomes 12 s, forecast 10 and 11: ratios 1.2 and 1.1, off by 1 - 1.1 / 1.2. From 2 to 4 it
// becomes 15, forecast 10: to the other side. b from 1 to 2 at TP 1 is one pair; TP 2 with b 2
// differs from the first in both and from TP 1 with b 2 in TP alone. A run that is not healthy is
// in no pair.
TEST(FactorEffects, ArePairsThatDifferInOneAlone) {
  std::vector<MeasuredRun> runs{run(1, 8, 1, 2, 10), run(2, 4, 1, 4, 12), run(4, 2, 1, 8, 15),
                                run(1, 8, 2, 1, 9), run(2, 4, 2, 2, 10.8)};
  runs.push_back(run(8, 1, 1, 16, 40));
  runs.back().unhealthy = "slow";
  const std::vector<RunForecast> forecasts{forecast(10), forecast(11),  forecast(10),
                                           forecast(9),  forecast(9.9), forecast(10)};
  const auto pairs = factor_pairs(runs, forecasts);
  const auto effects = factor_effects(pairs, runs);
  ASSERT_EQ(effects.size(), 2U);
  const FactorEffect &tp = effects[0], &b = effects[1];
  EXPECT_EQ(tp.factor, Factor::tp);
  EXPECT_EQ(tp.pairs, 3);
  EXPECT_NEAR(tp.measured, 1.2, 1e-12);  // 1.2, 1.25 and 1.2
  EXPECT_NEAR(tp.forecast, 1.1, 1e-12);  // 1.1, 0.909 and 1.1
  EXPECT_NEAR(tp.error, 1 - 1.1 / 1.2, 1e-12);
  EXPECT_EQ(tp.apart, 3);
  EXPECT_EQ(tp.agreeing, 2);
  EXPECT_EQ(b.factor, Factor::micro_batch);
  EXPECT_EQ(b.pairs, 2);
  EXPECT_NEAR(b.measured, 0.9, 1e-12);
  EXPECT_EQ(b.agreeing, 2);
}

// Two times as many replicas at equal micro-batches of each, and at an equal mini-batch.
TEST(FactorEffects, ReplicasGrowTheMiniBatchOrDivideIt) {
  const std::vector<MeasuredRun> runs{run(1, 2, 1, 8, 10), run(1, 4, 1, 8, 11), run(1, 4, 1, 4, 6)};
  const std::vector<RunForecast> forecasts{forecast(10), forecast(10.5), forecast(5.5)};
  const auto pairs = factor_pairs(runs, forecasts);
  ASSERT_EQ(pairs.size(), 2U);
  for (const FactorPair& pair : pairs) {
    EXPECT_EQ(pair.factor, Factor::dp);
    EXPECT_EQ(pair.first, 0U);
  }
  EXPECT_NEAR(pairs[0].measured + pairs[1].measured, std::log(1.1) + std::log(0.6), 1e-12);
}

// One plan, and it with products in 8 bits, and with one, then two modules made again: three pairs.
// What differs in experts' dispatch as well, in their overlap, or in what the host launches
// (nothing where graphs are of whole steps) is a pair of none.
TEST(FactorEffects, ArePairsOfOneWordToo) {
  std::vector<MeasuredRun> runs(7, run(1, 8, 1, 2, 10));
  runs[1].plan.fp8 = Fp8Recipe::mxfp8;
  runs[2].plan.recompute = *parse_recompute_word("selective:moe_act");
  runs[3].plan.recompute = *parse_recompute_word("selective:moe_act+layernorm");
  for (const std::size_t i : {4, 5, 6}) runs[i].plan.fp8 = Fp8Recipe::mxfp8;
  runs[4].plan.expert_dispatch = ExpertDispatch::alltoall;
  runs[5].plan.overlap_experts = true;
  runs[6].cluster.stack.time.launch = Seconds(0);
  const auto pairs = factor_pairs(runs, std::vector<RunForecast>(7, forecast(10)));
  std::set<std::tuple<std::string_view, std::size_t, std::size_t>> found;
  for (const FactorPair& pair : pairs)
    found.emplace(to_string(pair.factor), pair.first, pair.second);
  const decltype(found) expected{{"FP8", 0, 1}, {"recompute", 0, 2}, {"recompute", 2, 3}};
  EXPECT_EQ(found, expected);
}

// A run of the papers' by their own software is forecast by the middle of what is known, on the
// machine that its file describes without them; its nodes stay.
TEST(DefaultCall, NamesNoSoftwareAndLeavesItsSourceOut) {
  MeasuredRun made = run(8, 4, 1, 1, 1);
  made.source = "papers";
  set_machine(made, "dgx-a100", "megatron-2021");
  const MeasuredRun called = by_default_call(std::vector<MeasuredRun>{made}).front();
  EXPECT_EQ(called.cluster.stack.name, "typical");
  EXPECT_TRUE(is_assumed(called.cluster.stack));
  EXPECT_EQ(called.cluster.nodes, 4);
  const Json file = parse_json(compiled_tables().at("dgx-a100.json"), "dgx-a100.json");
  Cluster without = parse_cluster(without_source(file, "papers").dump(), "dgx-a100.json");
  without.nodes = 4;
  EXPECT_EQ(to_json(called.cluster), to_json(without));
}

// Each constant that was chosen seeing errors says what it is without them, and of which source;
// else a cross-validation would keep it.
TEST(DefaultCall, EveryCertificateOfASeenChoiceSaysWhatIsLeftWithout) {
  std::set<std::string> known{"megatron-bridge-experts"};
  for (const MeasuredSource& source : measured_sources()) known.emplace(source.name);
  int seen = 0;
  for (const auto& [name, text] : compiled_tables()) {
    if (!name.ends_with(".json")) continue;
    const Json file = parse_json(text, name);
    if (!file.contains("origins")) continue;
    for (const auto& [path, certificate] : file["origins"].items()) {
      if (!certificate.contains("chosen_seeing")) continue;
      ++seen;
      ASSERT_TRUE(certificate.contains("left_out")) << name << ": " << path;
      for (const auto& [source, value] : certificate["left_out"].items())
        EXPECT_TRUE(known.contains(source)) << name << ": " << path << ": " << source;
    }
  }
  EXPECT_GT(seen, 20);
}

}  // namespace
}  // namespace weir::default_call_test
