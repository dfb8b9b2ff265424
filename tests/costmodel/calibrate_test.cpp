// A fit that finds what was put in.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/calibrate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "costmodel/table/plan_costs.hpp"
#include "tests/costmodel/two_blocks.hpp"

namespace weir::calibrate_test {
namespace {

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

// Half of what a micro-batch of one takes, any takes: t(4) = (0.5 + 0.5 * 4) t(1) = 2.5 t(1). In
// the pipeline F takes 1.2 times as long and that half 1.5 times besides, so of one sample 1.5 *
// 0.5 + 0.5 = 1.25 times the profile, of four (0.75 + 2) / 2.5 = 1.1, and of two, which were never
// run, 0.75 + 1 = 1.75 times t(1). The factor is expected near 1, and two runs are drawn there by
// 0.2 %.
TEST(Calibrate, FindsWhatAnyMicroBatchSizeTakes) {
  const ResolvedPlan small = two_blocks(2, 1), two = two_blocks(2, 2), large = two_blocks(2, 4);
  Costs base = costs_of(block(), 4);
  auto& by_batch = base.layers.front().by_batch;
  by_batch[4] = by_batch.at(1);
  for (Seconds* time : {&by_batch[4].f, &by_batch[4].i, &by_batch[4].w, &by_batch[4].b})
    *time = *time * 2.5;
  const Trace of_small =
      scaled_run(small, base, {{ActionKind::F, 1.2 * 1.25}, {ActionKind::B, 1.25}});
  const Trace of_large =
      scaled_run(large, base, {{ActionKind::F, 1.2 * 1.1}, {ActionKind::B, 1.1}});
  const CalibrationRun runs[] = {{&small, &of_small}, {&large, &of_large}};
  const Calibration fit = calibrate(base, runs, {});
  EXPECT_NEAR(fit.costs.fixed, 1.5, 3e-3);
  EXPECT_NEAR(fit.costs.correction.f, 1.2, 1e-3);
  EXPECT_NEAR(fit.costs.correction.b, 1.0, 1e-3);
  EXPECT_EQ(fit.quality.back().kind, "fixed");
  const StageCost after = cost_table(two, fit.costs, {}).table.stages[0];
  EXPECT_NEAR(static_cast<double>(after.f.count()), 1e6 * 1.2 * 1.75, 3000);
  // A fit of a fit finds nothing more.
  EXPECT_NEAR(calibrate(fit.costs, runs, {}).costs.fixed, 1.5, 3e-3);
  // Runs of one size leave it, whatever they took.
  EXPECT_EQ(calibrate(base, std::span(runs, 1), {}).costs.fixed, 1);
}

// F takes 1.2 times the profile, and 0.9 of that where the neighbour rests: with four micro-batches
// on two ranks a quarter of the time, 1.2 * 0.9^(1/4), on one rank all of it. Factors are
// expected near 1, so what two runs tell is drawn there by less than a hundredth.
TEST(Calibrate, FindsWhatQuietNeighboursGain) {
  const ResolvedPlan two = two_blocks(2, 1), one = two_blocks(1, 1);
  const Costs base = costs_of(block(), 4);
  const Trace busy = scaled_run(two, base, {{ActionKind::F, 1.2 * std::pow(0.9, 0.25)}});
  const Trace quiet = scaled_run(one, base, {{ActionKind::F, 1.2 * 0.9}});
  const CalibrationRun runs[] = {{&two, &busy}, {&one, &quiet}};
  const Costs fitted = calibrate(base, runs, {}).costs;
  EXPECT_NEAR(fitted.correction.f, 1.2, 0.01);
  EXPECT_NEAR(fitted.alone.f, 0.9, 0.01);
  EXPECT_NEAR(fitted.alone.r, 0.9, 0.01);  // not seen: F's
  EXPECT_NEAR(fitted.alone.b, 1, 1e-6);
  // Runs of one plan do not tell the two apart: what they show is the kind's.
  const Costs of_one = calibrate(base, std::span(&runs[1], 1), {}).costs;
  EXPECT_NEAR(of_one.correction.f, 1.08, 1e-6);
  EXPECT_EQ(of_one.alone.f, 1);
}

// Alone F takes 1.1 and B 0.8, among others 1.2 and 0.9. A plan of one rank whose kinds were never
// run there (split backward, re-materialisation) is then forecast by 0.8 and 1.1: each relative's
// factor once, not twice, but for what the factors of neighbours are drawn to 1.
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
  EXPECT_NEAR(ratio(after.f, before.f), 1.1, 0.003);
  EXPECT_NEAR(ratio(after.r, before.r), 1.1, 0.003);
  EXPECT_NEAR(ratio(after.b, before.b), 0.8, 0.003);
  EXPECT_NEAR(ratio(after.i, before.i), 0.8, 0.003);
  EXPECT_NEAR(ratio(after.w, before.w), 0.8, 0.003);
  const StageCost shared = cost_table(two, fitted, {}).table.stages[0];
  EXPECT_NEAR(ratio(shared.r, cost_table(two, base, {}).table.stages[0].r), 1.2, 0.003);
}

// The first stage holds a layer of a thousandth of the block's time, and takes twice what the
// profile says: the host's, not the block's. The block's passes take 1.1 times theirs, which is
// what every forecast of this plan stands on, and what comes out.
TEST(Calibrate, ATinyStageSaysNothingOfALargeOne) {
  ResolvedPlan loaded = two_blocks(2, 1);
  std::get<TransformerShape>(loaded.model.layers.front().shape).ffn = 16;
  Costs base = costs_of(block(), 4);
  base.layers.push_back(base.layers.front());
  LayerCost& tiny = base.layers.back();
  tiny.key = layer_key(loaded.model.layers.front(), 4, Dtype::fp32);
  for (auto& [batch, times] : tiny.by_batch) {
    for (Seconds* time : {&times.f, &times.i, &times.w, &times.b}) *time = *time / 1000;
  }
  Trace trace = scaled_run(loaded, base, {{ActionKind::F, 1.1}, {ActionKind::B, 1.1}});
  for (Span& span : trace.spans) {
    if (span.action.stage.value == 0) span.end = span.start + span.duration() * 2;
  }
  const CalibrationRun run{&loaded, &trace};
  const Calibration fit = calibrate(base, std::span(&run, 1), {});
  EXPECT_NEAR(fit.costs.correction.f, 1.1, 1e-3);
  EXPECT_NEAR(fit.costs.correction.b, 1.1, 1e-3);
}

}  // namespace
}  // namespace weir::calibrate_test
