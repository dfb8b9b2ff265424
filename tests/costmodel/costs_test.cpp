// Formulas on worked numbers, costs there and back, the conformal interval, and a fit that finds
// what was put in.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/costs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "costmodel/fit/calibrate.hpp"
#include "costmodel/fit/intervals.hpp"
#include "costmodel/layers/layer_key.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

using testing::HasSubstr;

Layer block() {
  return {"b", TransformerShape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 32},
          ""};
}

// s = 4, h = 8, f = 32: projections 4 * (2*8*24 + 2*8*8) = 2048, scores and mix 4 * 16 * 8 = 512,
// MLP 4 * 2 * 2 * 8 * 32 = 4096; together 6656.
TEST(LayerMath, ABlocksFlops) { EXPECT_EQ(forward_flops(block(), 4).count(), 6656); }

// 2 * 4 tokens * 8 * 100 classes.
TEST(LayerMath, AHeadsFlops) {
  EXPECT_EQ(forward_flops({"h", HeadShape{.vocabulary = 100, .hidden = 8}, ""}, 4).count(), 6400);
}

Costs costs_of(const Layer& layer, std::int64_t tokens) {
  Costs costs;
  costs.basis = Basis::measured;
  LayerCost cost;
  cost.key = layer_key(layer, tokens, Dtype::fp32);
  cost.by_batch[1] = {{Seconds(1e-3), Seconds(1e-3), Seconds(1e-3), Seconds(2e-3)}, 0, Bytes(64)};
  cost.by_batch[4] = {
      {Seconds(2.5e-3), Seconds(3e-3), Seconds(3e-3), Seconds(6.5e-3)}, 0, Bytes(128)};
  cost.optimizer = Seconds(1e-4);
  costs.layers.push_back(cost);
  costs.link = {Seconds(2e-6), BytesPerSecond(1e9)};
  return costs;
}

ResolvedPlan two_blocks(int k, int batch) {
  Model model;
  model.layers = {block(), block()};
  model.family = "layers";
  Plan plan;
  plan.seq_length = 4;
  plan.pp = k;
  plan.microbatches = 4;
  plan.micro_batch_size = batch;
  if (k == 2) plan.boundaries = {1};
  return derive(plan, model, std::get<Schedule>(make_schedule("1f1b", {k, 1, 4})));
}

// A framework that does not tell I from W says null: read as such and written as such, B stays what
// it is, and a schedule that needs them is refused.
TEST(Costs, HalvesOfABackwardMayBeUnknown) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("weir-halves-" + std::to_string(::getpid()));
  Costs costs = costs_of(block(), 4);
  for (auto& [batch, time] : costs.layers.front().by_batch)
    time.i = time.w = Seconds(std::numeric_limits<double>::quiet_NaN());
  save_costs(costs, file);
  const std::string text = read_text_file(file);
  EXPECT_THAT(text, HasSubstr("\"i_s\": null"));
  const Costs read = load_costs(file);
  EXPECT_EQ(to_json(read).dump(), to_json(costs).dump());
  ResolvedPlan plan = two_blocks(2, 1);
  EXPECT_EQ(cost_table(plan, read, {}).table.stages[0].b, Nanoseconds(2'000'000));
  plan.schedule = std::get<Schedule>(make_schedule("zb-h1", {2, 1, 2}));
  try {
    static_cast<void>(cost_table(plan, read, {}));
    FAIL() << "priced without I and W";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("I and W of b are not told apart"));
  }
  const auto one = text.find("\"w_s\": null");
  write_file_atomically(file, std::string(text).replace(one, 11, "\"w_s\": 0.001"));
  EXPECT_THROW(static_cast<void>(load_costs(file)), InputError);
  std::filesystem::remove(file);
}

// Size 2 lies a third of the way from 1 to 4: F = 1 + (2.5 - 1)/3 = 1.5 ms a layer. A message of 2
// * 4 * 8 * 4 = 256 bytes occupies 256 ns at 1 GB/s.
TEST(CostTable, InterpolatesBetweenMeasuredSizes) {
  const auto result = cost_table(two_blocks(2, 2), costs_of(block(), 4), {});
  EXPECT_TRUE(result.inside_range);
  EXPECT_EQ(result.table.stages[0].f, Nanoseconds(1'500'000));
  EXPECT_EQ(result.table.stages[0].optimizer, Nanoseconds(100'000));
  EXPECT_EQ(result.table.forward_messages[0].occupancy, Nanoseconds(256));
  EXPECT_EQ(result.table.forward_messages[0].latency, Nanoseconds(2000));
  EXPECT_EQ(result.scratch[0], Bytes(128));
}

// What was measured of one kind of attention says nothing of the other.
TEST(CostTable, KindsOfAttentionAreNotMixed) {
  const ResolvedPlan unfused = two_blocks(2, 2);
  Model model = unfused.model;
  set_attention(model, AttentionKind::fused);
  const ResolvedPlan loaded = derive(unfused.plan, model, unfused.schedule);
  EXPECT_THROW(static_cast<void>(cost_table(loaded, costs_of(block(), 4), {})), InputError);
  Layer fused = block();
  std::get<TransformerShape>(fused.shape).attention = AttentionKind::fused;
  EXPECT_NO_THROW(static_cast<void>(cost_table(loaded, costs_of(fused, 4), {})));
}

// Size 8 is outside: along the last pair, 2.5 + (8 - 4) * 0.5 = 4.5 ms, and said so.
TEST(CostTable, FlagsWhatItExtrapolates) {
  const auto result = cost_table(two_blocks(1, 8), costs_of(block(), 4), {});
  EXPECT_FALSE(result.inside_range);
  EXPECT_EQ(result.table.stages[0].f, Nanoseconds(9'000'000));
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_THAT(result.warnings[0], HasSubstr("micro-batch size 8 is extrapolated"));
}

TEST(CostTable, UnknownLayersAreNamed) {
  try {
    static_cast<void>(cost_table(two_blocks(1, 1), costs_of(block(), 5), {}));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nothing is known of layer b"));
  }
}

TEST(CostsFile, ComesBackTheSameAndIsStrict) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("weir-costs-" + std::to_string(::getpid()));
  Costs costs = costs_of(block(), 4);
  costs.interval = IntervalModel{0.9, 2.5, 0.04, 20};
  costs.correction.f = 1.25;
  costs.by_size = {{1, 1.04}, {8, 0.97}};
  costs.range = CalibratedRange{1, 2, 4, 8, {"1f1b", "gpipe"}};
  costs.first_backward_in_w = true;
  save_costs(costs, folder / "a.json");
  save_costs(load_costs(folder / "a.json"), folder / "b.json");
  const std::string bytes = read_text_file(folder / "a.json");
  EXPECT_EQ(read_text_file(folder / "b.json"), bytes);
  std::string wrong = bytes;
  wrong.replace(wrong.find("\"spread\""), 8, "\"sprout\"");
  write_file_atomically(folder / "c.json", wrong);
  try {
    static_cast<void>(load_costs(folder / "c.json"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("c.json: layers[0].times[0].spread: is missing"));
  }
  std::filesystem::remove_all(folder);
}

// n = 9 at 90 %: the 9th smallest of |r| = 0.01 ... 0.09 over the scale 0.03, so 3; eight plans
// cannot promise it.
TEST(Interval, SplitConformalNeedsNinePlans) {
  std::vector<Miss> misses;
  for (int i = 1; i <= 8; ++i) misses.push_back({(i % 2 == 0 ? 1 : -1) * 0.01 * i, 0});
  EXPECT_FALSE(conformal_interval(misses, 0.9, 0.03));
  misses.push_back({-0.09, 0});
  const auto interval = conformal_interval(misses, 0.9, 0.03);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->quantile, 3);
  EXPECT_DOUBLE_EQ(half_width(*interval, 0), 0.09);
  EXPECT_EQ(interval->calibration_plans, 9);
}

// Model spread 0.03 and jitter 0.04 make a scale of 0.05 (3-4-5): a miss of 0.1 is two scales, and
// a plan without jitter then gets 2 * 0.03, one with as much jitter 2 * 0.05. Without any spread
// the scale stays at a thousandth.
TEST(Interval, JitterWidensThePlansThatHaveIt) {
  const auto interval = conformal_interval(std::vector<Miss>(9, Miss{-0.1, 0.04}), 0.9, 0.03);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->quantile, 2);
  EXPECT_DOUBLE_EQ(half_width(*interval, 0), 0.06);
  EXPECT_DOUBLE_EQ(half_width(*interval, 0.04), 0.1);
  EXPECT_DOUBLE_EQ(scale_of(0, 0), 1e-3);
}

// 400 plans whose misses are normal with a standard deviation of their own, a tenth of them ten
// times noisier. 200 set the interval; of the other 200 it covers as many as its band promises, and
// it does so among the noisy ones too, where one width for all would cover far fewer.
TEST(Interval, CoversQuietAndNoisyPlansAlike) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  const auto draw = [&](int i) {
    const double spread = i % 10 == 0 ? 0.2 : 0.02;
    return Miss{normal(random) * spread, spread};
  };
  std::vector<Miss> setting, held_out;
  for (int i = 0; i < 200; ++i) setting.push_back(draw(i));
  for (int i = 0; i < 200; ++i) held_out.push_back(draw(i));
  const auto joined = conformal_interval(setting, 0.9, 0.0);
  ASSERT_TRUE(joined);
  int hits = 0, noisy_hits = 0, noisy_hits_of_one_width = 0;
  std::vector<Miss> blind = setting;
  for (Miss& miss : blind) miss.jitter_spread = 0;
  const auto one_width = conformal_interval(blind, 0.9, 0.02);
  for (int i = 0; i < 200; ++i) {
    const Miss& miss = held_out[static_cast<std::size_t>(i)];
    const bool hit = std::abs(miss.log_ratio) <= half_width(*joined, miss.jitter_spread);
    hits += hit ? 1 : 0;
    if (i % 10 != 0) continue;
    noisy_hits += hit ? 1 : 0;
    noisy_hits_of_one_width += std::abs(miss.log_ratio) <= half_width(*one_width, 0) ? 1 : 0;
  }
  const CoverageBand band = coverage_band(*joined, 200);
  EXPECT_GE(hits, band.low);
  EXPECT_LE(hits, band.high);
  EXPECT_GE(noisy_hits, 15);  // of 20; P(fewer) of Binomial(20, 0.9) is 0.0113
  EXPECT_LE(noisy_hits_of_one_width, 10);
}

// Nine plans at 90 %: k = 9, so coverage ~ Beta(9, 1), and of one held-out plan P(hit) = 9 / 10:
// both outcomes lie in the central 95 %. Of 19 held out by 19 (k = 18, Beta(18, 2)) P(12 or fewer)
// = 0.0211 and P(13 or fewer) = 0.0448.
TEST(Interval, TheBandIsTheBetaBinomials) {
  const CoverageBand one = coverage_band({0.9, 1, 0.1, 9}, 1);
  EXPECT_EQ(one.low, 0);
  EXPECT_EQ(one.high, 1);
  const CoverageBand many = coverage_band({0.9, 1, 0.1, 19}, 19);
  EXPECT_EQ(many.low, 13);
  EXPECT_EQ(many.high, 19);
}

// Inside what was run: yes; one K, M or schedule beyond it: no, and what to run is named.
TEST(CalibratedRange, SaysWhatWasNeverRun) {
  Plan plan;
  plan.pp = 1;
  plan.microbatches = 4;
  plan.schedule = "gpipe";
  CalibratedRange range = widened({}, plan);
  plan.pp = 2;
  plan.microbatches = 8;
  range = widened(range, plan);
  EXPECT_FALSE(outside(range, plan));
  plan.microbatches = 6;
  EXPECT_FALSE(outside(range, plan));
  plan.schedule = "1f1b";
  EXPECT_THAT(outside(range, plan).value(), HasSubstr("schedule 1f1b"));
  plan.pp = 1;  // one rank: every schedule is the same work
  EXPECT_FALSE(outside(range, plan));
  plan.pp = 4;
  EXPECT_THAT(outside(range, plan).value(), HasSubstr("K = 4 was never run here, only 1 to 2"));
  plan.pp = 2;
  plan.microbatches = 9;
  EXPECT_THAT(outside(range, plan).value(), HasSubstr("M = 9"));
}

// Three steps as a running machine might give them: every span of a kind `scales` times its cost,
// step 1 disturbed.
Trace scaled_run(const ResolvedPlan& loaded, const Costs& base,
                 std::map<ActionKind, double> scales) {
  const Program& program = loaded.program;
  const OperationCosts costs = expand(program, cost_table(loaded, base, {}).table);
  Trace trace;
  trace.origin = TraceOrigin::measured;
  trace.ranks = loaded.plan.pp;
  for (std::int32_t step = 0; step < 3; ++step) {
    trace.steps.push_back({Nanoseconds(0), Nanoseconds(50'000'000)});
    for (const OperationId id : program.ids()) {
      const Lane& lane = program.lane_of(id);
      const auto found = scales.find(program.op(id).action.kind);
      const double scale = (found == scales.end() ? 1.0 : found->second) * (step == 1 ? 3 : 1);
      const std::int64_t start = (id - lane.first) * 1'000'000;
      trace.spans.push_back(
          {id, program.op(id).action, lane.rank, lane.kind, lane.rank, step, Nanoseconds(start),
           Nanoseconds(start + std::llround(scale * static_cast<double>(costs.duration_ns[id])))});
    }
  }
  return trace;
}

// F takes 1.2 and B 0.9 times the profile: the fit gives 1.2 and 0.9, and 1.2 for R, which no run
// had.
TEST(Calibrate, FindsTheFactorsThatWerePutIn) {
  const ResolvedPlan loaded = two_blocks(2, 1);
  const Costs base = costs_of(block(), 4);
  const Trace trace = scaled_run(loaded, base, {{ActionKind::F, 1.2}, {ActionKind::B, 0.9}});
  const CalibrationRun run{&loaded, &trace};
  const Calibration fit = calibrate(base, std::span(&run, 1), {});
  EXPECT_NEAR(fit.costs.correction.f, 1.2, 1e-6);
  EXPECT_NEAR(fit.costs.correction.b, 0.9, 1e-6);
  EXPECT_NEAR(fit.costs.correction.r, 1.2, 1e-6);  // not seen: F's
  EXPECT_EQ(fit.costs.basis, Basis::calibrated);
  ASSERT_TRUE(fit.costs.range);
  EXPECT_EQ(fit.costs.range->pp_high, 2);
}

// F takes 1.2 times the profile; of micro-batches of one sample everything takes 1.1 times as long
// besides, of four 1 / 1.1. Forty plans of each: the sizes' factors come out but for the pull
// towards 1 (n = 160 observations: 160 / 164 of the log), and halfway in the log of the size (b =
// 2) there is none.
TEST(Calibrate, FindsWhatSmallMicroBatchesCost) {
  const ResolvedPlan small = two_blocks(2, 1), large = two_blocks(2, 4);
  const Costs base = costs_of(block(), 4);
  const Trace of_small =
      scaled_run(small, base, {{ActionKind::F, 1.2 * 1.1}, {ActionKind::B, 1.1}});
  const Trace of_large =
      scaled_run(large, base, {{ActionKind::F, 1.2 / 1.1}, {ActionKind::B, 1 / 1.1}});
  std::vector<CalibrationRun> runs;
  for (int i = 0; i < 40; ++i) {
    runs.push_back({&small, &of_small});
    runs.push_back({&large, &of_large});
  }
  const Calibration fit = calibrate(base, runs, {});
  EXPECT_NEAR(fit.costs.correction.f, 1.2, 1e-4);
  EXPECT_NEAR(fit.costs.correction.b, 1.0, 1e-4);
  EXPECT_NEAR(std::log(fit.costs.by_size.at(1)), std::log(1.1) * 160 / 164, 1e-4);
  EXPECT_NEAR(std::log(fit.costs.by_size.at(4)), -std::log(1.1) * 160 / 164, 1e-4);
  EXPECT_NEAR(factor_at(fit.costs.by_size, 2), 1, 1e-4);
  EXPECT_EQ(factor_at(fit.costs.by_size, 8), fit.costs.by_size.at(4));
  EXPECT_EQ(factor_at({}, 3), 1);
  const StageCost after = cost_table(small, fit.costs, {}).table.stages[0];
  EXPECT_NEAR(static_cast<double>(after.f.count()), 1e6 * 1.2 * std::exp(std::log(1.1) * 160 / 164),
              200);
}

// Alone F takes 1.1 and B 0.8, among others 1.2 and 0.9. A plan of one rank whose kinds were never
// run there (split backward, re-materialisation) is then forecast by 0.8 and 1.1: each relative's
// factor once, not twice.
TEST(Calibrate, BorrowedFactorsCountOnce) {
  const ResolvedPlan two = two_blocks(2, 1), one = two_blocks(1, 1);
  const Costs base = costs_of(block(), 4);
  const Trace busy = scaled_run(two, base, {{ActionKind::F, 1.2}, {ActionKind::B, 0.9}});
  const Trace alone = scaled_run(one, base, {{ActionKind::F, 1.1}, {ActionKind::B, 0.8}});
  const CalibrationRun runs[] = {{&two, &busy}, {&one, &alone}};
  const Costs fitted = calibrate(base, runs, {}).costs;
  const StageCost before = cost_table(one, base, {}).table.stages[0];
  const StageCost after = cost_table(one, fitted, {}).table.stages[0];
  const auto ratio = [](Nanoseconds a, Nanoseconds b) {
    return static_cast<double>(a.count()) / static_cast<double>(b.count());
  };
  EXPECT_NEAR(ratio(after.f, before.f), 1.1, 1e-5);
  EXPECT_NEAR(ratio(after.r, before.r), 1.1, 1e-5);
  EXPECT_NEAR(ratio(after.b, before.b), 0.8, 1e-5);
  EXPECT_NEAR(ratio(after.i, before.i), 0.8, 1e-5);
  EXPECT_NEAR(ratio(after.w, before.w), 0.8, 1e-5);
  const StageCost shared = cost_table(two, fitted, {}).table.stages[0];
  EXPECT_NEAR(ratio(shared.r, cost_table(two, base, {}).table.stages[0].r), 1.2, 1e-5);
}

}  // namespace
}  // namespace weir
