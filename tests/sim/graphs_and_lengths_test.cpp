// What explanations offer of CUDA graphs and a search tries of them, and what forecasts say of rows
// of several sequences.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/links/expert_overlap.hpp"
#include "costmodel/links/offload.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/cost_breakdown.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/explain/changes.hpp"
#include "sim/explain/gap.hpp"
#include "sim/explain/waterfall.hpp"
#include "sim/explain/what_if.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/forecast_json.hpp"
#include "sim/search/space/space.hpp"
#include "tests/sim/small_blocks.hpp"

namespace weir::graphs_and_lengths_sim_test {
namespace {

using namespace small_blocks;  // NOLINT(google-build-using-namespace)

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Small blocks are launch-bound: each graph makes the step shorter, a whole step's the most. Of
// experts what is before them can be in a graph.
TEST(GraphsExplained, AreOfferedWhereTheyCanBe) {
  const auto offered = [](std::int64_t experts, const Plan& plan) {
    const ResolvedPlan loaded = resolved(plan, experts);
    std::vector<std::string> to;
    for (const Change& change : changes(loaded, builtin(loaded), h100())) {
      if (change.choice == "CUDA graphs") to.push_back(change.to);
    }
    return to;
  };
  EXPECT_THAT(offered(1, plan_of(1)), ElementsAre("blocks", "step"));
  EXPECT_THAT(offered(8, plan_of(1)), ElementsAre("attn+moe_router+moe_preprocess"));
  Plan with = plan_of(1);
  with.cuda_graphs = CudaGraphs::of_step();
  EXPECT_THAT(offered(1, with), ElementsAre("none", "blocks"));
  const ResolvedPlan loaded = resolved(plan_of(1));
  const Costs costs = builtin(loaded);
  const Forecast base = forecast(loaded, costs, h100(), {}).forecast;
  std::map<std::string, double> gain;
  for (const WhatIf& row : what_if(loaded, changes(loaded, costs, h100()), costs, h100(), base)) {
    if (row.change.choice == "CUDA graphs") gain[row.change.to] = row.gain;
  }
  EXPECT_GT(gain["blocks"], 0);
  EXPECT_GE(gain["step"], gain["blocks"]);
}

TEST(GraphsSearched, EachIsAPlanOfItsOwn) {
  SweepRequest request;
  request.base = plan_of(1);
  request.cuda_graphs = {CudaGraphs(), CudaGraphs::of_blocks()};
  std::vector<std::string> tried;
  for (const Plan& plan : with_degrees(request, small(1)))
    tried.push_back(to_string(plan.cuda_graphs));
  EXPECT_THAT(tried, ElementsAre("none", "blocks"));
}

// Each pair of shares is a plan, where blocks are rebuilt too: their inputs travel. Stages that are
// rebuilt as a whole leave nothing to choose about: the least share stands for all.
TEST(OffloadSearched, EachShareIsAPlanOfItsOwn) {
  SweepRequest request;
  request.base = plan_of(1);
  request.offload_optimizer = {0, 1};
  request.offload_activations = {0, 0.5};
  std::vector<std::pair<double, double>> tried;
  for (Plan plan : with_degrees(request, small(1))) {
    tried.emplace_back(plan.offload_optimizer, plan.offload_activations);
    EXPECT_FALSE(offloads_nothing(request, plan));
    plan.recompute.mode = RecomputeMode::full;
    EXPECT_FALSE(offloads_nothing(request, plan));
    plan.recompute.mode = RecomputeMode::stage;
    EXPECT_EQ(offloads_nothing(request, plan), plan.offload_activations > 0);
    SweepRequest without_none = request;
    without_none.offload_activations = {1, 0.5};
    plan.offload_activations = 0.5;
    EXPECT_FALSE(offloads_nothing(without_none, plan));
  }
  using Pair = std::pair<double, double>;
  EXPECT_THAT(tried, ElementsAre(Pair(0, 0), Pair(0, 0.5), Pair(1, 0), Pair(1, 0.5)));
}

// Overlap that the search sets is kept by plans that can have it alone; one that was asked for is
// everybody's.
TEST(OverlapSearched, IsSetWhereItHides) {
  SweepRequest request;
  request.base = plan_of(1);
  request.dp = {2};
  request.ep = {1, 2};
  const auto overlapped = [&](const auto& change) {
    std::vector<bool> those;
    for (Plan plan : with_degrees(request, small(4))) {
      plan.schedule = "1f1b";
      change(plan);
      settle(request, plan);
      those.push_back(plan.overlap_experts);
    }
    return those;
  };
  const auto as_it_is = [](Plan&) {};
  const auto pipeline = [](Plan& plan) { plan.pp = 2; };
  EXPECT_THAT(overlapped(as_it_is), ElementsAre(false, false));
  request.overlap_experts_where_it_can = true;
  EXPECT_THAT(overlapped(as_it_is), ElementsAre(false, true));
  EXPECT_THAT(overlapped(pipeline), ElementsAre(false, false));
  EXPECT_THAT(overlapped([](Plan& plan) { plan.prediction_layers = 2; }),
              ElementsAre(false, false));
  request.base.overlap_experts = true;
  EXPECT_THAT(overlapped(pipeline), ElementsAre(false, true));
}

// Packed rows of half as long sequences: attention's share goes, so the step is shorter and tokens
// are as many; of one sequence a row half the tokens are. Replicas with unlike rows wait.
TEST(LengthsForecast, SaysWhatRowsComputeAndWaitFor) {
  const auto of = [](int dp, const SequenceLengths& lengths) {
    Plan plan = plan_of(dp);
    plan.micro_batch_size = 8;
    plan.lengths = lengths;
    const ResolvedPlan loaded = resolved(plan);
    return forecast(loaded, builtin(loaded), h100(), {}).forecast;
  };
  const Forecast whole = of(1, {}), packed = of(1, {{512}, RowsOf::packed}),
                 longest = of(1, {{512}, RowsOf::longest});
  EXPECT_LT(packed.step_time, whole.step_time);
  EXPECT_LT(longest.step_time, packed.step_time);
  EXPECT_NEAR(*packed.tokens_per_s * packed.step_time.count(), 4 * 8 * 1024, 1e-3);
  EXPECT_NEAR(*longest.tokens_per_s * longest.step_time.count(), 4 * 8 * 512, 1);
  EXPECT_LT(*packed.model_tflops_per_device * packed.step_time.count(),
            *whole.model_tflops_per_device * whole.step_time.count());
  EXPECT_THAT(packed.warnings,
              Contains("lengths: a row computes 100.0 % of its tokens, of which 0.0 % are padding, "
                       "and 50.0 % of a whole row's attention"));
  const Forecast unlike = of(4, {{16, 1024}, RowsOf::longest});
  EXPECT_THAT(unlike.warnings, Contains(HasSubstr("lengths: replicas wait ")));
  EXPECT_THAT(of(4, {{512}, RowsOf::longest}).warnings,
              testing::Not(Contains(HasSubstr("replicas wait"))));
}

// Sequences that fill their rows: devices by length are the plan of one device each, in time and
// memory, and are said and offered; of sequences that are unlike what devices wait is said. The
// parts of the step are still the whole.
TEST(LengthsForecast, OfDevicesThatFollowLengths) {
  const auto of = [](int cp, int dp, const SequenceLengths& lengths) {
    Plan plan = plan_of(dp);
    plan.schedule = "1f1b";
    plan.cp = cp;
    plan.microbatches = 16 / dp;
    plan.lengths = lengths;
    return resolved(plan);
  };
  const auto forecast_of = [](const ResolvedPlan& loaded) {
    return forecast(loaded, builtin(loaded), h100(), {}).forecast;
  };
  const SequenceLengths equal{{1024}, RowsOf::packed, 1024};
  const Forecast plain = forecast_of(of(1, 4, {})), same = forecast_of(of(2, 2, equal));
  EXPECT_NEAR(same.step_time.count(), plain.step_time.count(), 1e-7);
  EXPECT_EQ(same.memory[0].peak, plain.memory[0].peak);
  EXPECT_THAT(same.warnings, Contains("lengths: each sequence alone on 1 to 1 of 4 devices, none "
                                      "with more than 1024 tokens of it"));
  const ResolvedPlan unlike = of(2, 2, {{16, 64, 1024}, RowsOf::packed, 512});
  EXPECT_THAT(forecast_of(unlike).warnings,
              Contains(testing::AllOf(HasSubstr("lengths: devices wait "),
                                      HasSubstr("where rounds of sequences end"))));
  const CostBreakdown parts = cost_breakdown(unlike, LayerCosts(unlike, builtin(unlike)), h100());
  std::int64_t sum = 0;
  for (const auto part : PerCause<Nanoseconds>::members()) sum += (parts.stages[0].b.*part).count();
  EXPECT_EQ(sum, parts.table.stages[0].b.count());
  const auto offered = [&](const ResolvedPlan& loaded) {
    std::vector<std::string> to;
    for (const Change& change : changes(loaded, builtin(loaded), h100())) {
      if (change.choice == "context parallelism") to.push_back(change.to);
    }
    return to;
  };
  EXPECT_THAT(offered(of(2, 2, {{16, 1024}, RowsOf::packed})),
              ElementsAre("by each sequence's length, 512 tokens a device"));
  EXPECT_THAT(offered(unlike), ElementsAre("cp 2 for all"));
  EXPECT_THAT(offered(of(2, 2, {})), ElementsAre());
}

// With a stack that keeps per module, blocks whose experts are rebuilt keep less: the host's figure
// is of what its times are.
TEST(OffloadSaid, TheHostHoldsWhatTheStackKeeps) {
  const auto said = [](const Recompute& recompute) {
    Plan plan = plan_of(1);
    plan.offload_activations = 1;
    plan.micro_batch_size = 256;
    plan.schedule = "1f1b";
    plan.recompute = recompute;
    Cluster cluster = h100();
    cluster.stack = megatron();
    const ResolvedPlan loaded = resolved(plan, 4);
    const Costs costs = builtin(loaded);
    const LayerCosts known(loaded, costs, cluster.stack);
    double held = 0;
    for (int l = 0; l < known.part()->size(); ++l)
      held += static_cast<double>(offloaded_bytes(known.part()->layer(l), plan, false));
    // In 1F1B a single stage has one micro-batch between its F and its B.
    const std::string figure = fmt::format("holds up to {:.1f} GiB", held / (1 << 30));
    const Forecast f = forecast(loaded, known, cluster).forecast;
    EXPECT_THAT(f.warnings, Contains(HasSubstr(figure)));
    return held;
  };
  const double all = said({});
  EXPECT_LT(said({.mode = RecomputeMode::selective, .modules = BlockModule::moe}), all / 2);
}

// A host that has just what is kept there may not hold it, since pinned memory comes in powers of
// two: twice as much surely does. With less it does not, however large the devices are, and which
// of the two is full is told.
TEST(OffloadSaid, AFullHostDoesNotFit) {
  Plan plan = plan_of(2);
  plan.offload_optimizer = 1;
  Cluster cluster = h100();
  const ResolvedPlan loaded = resolved(plan);
  const Costs costs = builtin(loaded);
  const auto of = [&](Bytes host) {
    cluster.host->memory = host;
    Forecast f = forecast(loaded, costs, cluster).forecast;
    f.memory_limit = cluster.largest_memory();
    return f;
  };
  // Both replicas stand on one node: 16 bytes of each number, twice.
  const Bytes held = of(Bytes(std::int64_t{1} << 40)).host->held();
  EXPECT_EQ(held.count(), 2 * 16 * loaded.stage(Stage{0}).trained_parameters);
  EXPECT_EQ(of(held * 2).fits(), Fits::yes);
  EXPECT_EQ(of(held).fits(), Fits::maybe);
  EXPECT_NEAR(of(held).fits_probability(), 0.5, 1e-9);
  const Forecast full = of(held - Bytes(1));
  EXPECT_EQ(full.fits(), Fits::no);
  EXPECT_EQ(full.devices_fit(), Fits::yes);
  ASSERT_TRUE(full.host_too_full());
  EXPECT_THAT(full.warnings, Contains(HasSubstr("it does not fit")));
  const auto json = forecast_json(full);
  EXPECT_EQ(json["fits"], "no");
  EXPECT_EQ(json["host"]["fits"], "no");
  EXPECT_EQ(json["host"]["optimizer_bytes"], held.count());
  EXPECT_EQ(json["host"]["held_upper_bytes"], 2 * held.count());
  plan.offload_optimizer = 0;
  EXPECT_FALSE(forecast(resolved(plan), costs, cluster).forecast.host);
}

// Over a slow link copies are most of the step, and no launch of the host's: a part of their own,
// with which the parts are still the whole step.
TEST(OffloadSaid, CopiesAreAPartOfTheirOwn) {
  Plan plan = plan_of(1);
  plan.offload_activations = plan.offload_optimizer = 1;
  Cluster cluster = h100();
  cluster.host->link = {Seconds(0), BytesPerSecond(1e8)};
  const ResolvedPlan loaded = resolved(plan);
  const Costs costs = builtin(loaded);
  const LayerCosts known(loaded, costs, cluster.stack);
  const Waterfall fall =
      waterfall(loaded, cost_breakdown(loaded, known, cluster), forecast(loaded, known, cluster));
  Nanoseconds sum{0};
  for (const StepShare& part : fall.parts) sum += part.time;
  EXPECT_EQ(sum, fall.step);
  EXPECT_GT(2 * fall.of("offload").count(), fall.step.count());
  EXPECT_LT(10 * fall.of("host").count(), fall.step.count());
}

// Exchanges that nothing can hide are told, and why; those that are hidden are not.
TEST(OverlapSaid, WhyNothingIsHidden) {
  const auto said = [](int microbatches) {
    Plan plan = plan_of(2);
    plan.ep = 2;
    plan.overlap_experts = true;
    plan.schedule = "1f1b";
    plan.microbatches = microbatches;
    Cluster cluster = h100();
    cluster.stack = megatron();
    const ResolvedPlan loaded = resolved(plan, 4);
    return forecast(loaded, builtin(loaded), cluster).forecast.warnings;
  };
  const auto line = Contains(HasSubstr("overlap_experts: nothing of the experts' exchanges"));
  EXPECT_THAT(said(1), line);
  EXPECT_THAT(said(4), testing::Not(line));
}

// A step that copies to a link half as fast would take is found by that cause, with twice its time;
// launches have no part of it.
TEST(OffloadSaid, ASlowLinkExplainsAMeasuredStep) {
  Plan plan = plan_of(1);
  plan.schedule = "1f1b";
  plan.offload_activations = plan.offload_optimizer = 1;
  Cluster cluster = h100();
  cluster.host->link = {Seconds(0), BytesPerSecond(1e8)};
  const ResolvedPlan loaded = resolved(plan);
  const Costs costs = builtin(loaded);
  const LayerCosts known(loaded, costs, cluster.stack);
  const CostBreakdown breakdown = cost_breakdown(loaded, known, cluster);
  const Forecast f = forecast(loaded, known, cluster).forecast;
  Cluster slower = cluster;
  slower.host->link.bandwidth = BytesPerSecond(0.5e8);
  slower.host->bandwidth = slower.host->bandwidth * 0.5;
  const Seconds measured = forecast(loaded, known, slower).forecast.step_time;
  const Gap gap = explain_gap(loaded, breakdown, costs, cluster, f, measured);
  const auto cause = [&](const char* name) {
    return *std::ranges::find(gap.causes, name, &SuspectedCause::name);
  };
  ASSERT_TRUE(cause("offload").factor);
  EXPECT_NEAR(*cause("offload").factor, 2, 1e-3);
  // All of a block's copies are waited for but what its own pass hides.
  EXPECT_GT(*cause("offload").reading_if, cause("offload").reading);
  // Copies are nearly all of the step: no launch could have doubled it but by many times its own.
  const auto host = cause("host").factor;
  EXPECT_TRUE(!host || *host > 4) << *host;
}

}  // namespace
}  // namespace weir::graphs_and_lengths_sim_test
