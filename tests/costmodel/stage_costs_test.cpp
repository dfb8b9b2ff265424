// Costs of stages on several devices each, by hand: whole layers' times divided, what they send
// added, reductions and updates of replicas.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/stage_costs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "costmodel/layers/layer_key.hpp"
#include "costmodel/links/offload.hpp"
#include "costmodel/table/cost_breakdown.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"

namespace weir::stage_costs_test {
namespace {

// Two blocks of s = 4, h = 8, one a stage; F 8, I 12, W 4, B 16 us, update 2 us; links of 1 byte a
// ns without latency, nodes of four devices.
Layer block() {
  return {"b", TransformerShape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 32},
          ""};
}
constexpr std::int64_t kParameters = 12 * 64 + 13 * 8;

struct Case {
  ResolvedPlan loaded;
  Costs costs;
  Cluster cluster;

  explicit Case(const std::function<void(Plan&)>& change) {
    Plan plan;
    plan.seq_length = 4;
    plan.pp = 2;
    plan.microbatches = 2;
    plan.boundaries = {1};
    change(plan);
    Model model;
    model.layers = {block(), block()};
    loaded = derive(plan, model, std::get<Schedule>(make_schedule("1f1b", {2, 1, 2})));
    LayerCost cost;
    cost.key = layer_key(block(), 4, loaded.plan.dtype);
    cost.by_batch[1] = {{Seconds(8e-6), Seconds(12e-6), Seconds(4e-6), Seconds(16e-6)}};
    cost.optimizer = Seconds(2e-6);
    costs.layers = {cost};
    cluster.devices_per_node = 4;
    cluster.nodes = 4;
    cluster.intra = cluster.inter = {Seconds(0), BytesPerSecond(1e9)};
  }
  [[nodiscard]] CostTableResult table() const { return cost_table(loaded, costs, cluster); }
  [[nodiscard]] StageCost stage() const { return table().table.stages[0]; }
};
std::int64_t ns(Nanoseconds time) { return time.count(); }

// PyTorch computes no gradient of the model's input: the first stage's I is nothing, its W is B.
// The second stage divides its backward as ever.
TEST(StageCosts, TheFirstBackwardMayBeAllForWeights) {
  Case two([](Plan&) {});
  two.costs.first_backward_in_w = true;
  const std::vector<StageCost> stages = two.table().table.stages;
  EXPECT_EQ(ns(stages[0].i), 0);
  EXPECT_EQ(ns(stages[0].w), 16000);
  EXPECT_EQ(ns(stages[0].b), 16000);
  EXPECT_EQ(ns(stages[1].i), 12000);
  EXPECT_EQ(ns(stages[1].w), 4000);
}

// A block's copy at 1 byte in 10 ns takes longer than its passes of 8, 12 and 16 us: what is left
// is waited for, and is of copies and not of launches. A quick link hides it.
TEST(StageCosts, CopiesToTheHostAreWaitedForAndToldApart) {
  Case two([](Plan& plan) { plan.offload_activations = 1; });
  const auto link = [](double rate) { return Link{Seconds(0), BytesPerSecond(rate)}; };
  two.cluster.host = Host{link(1e12), Bytes(std::int64_t{1} << 40), BytesPerSecond(1e9)};
  EXPECT_EQ(ns(two.stage().b), 16000);
  two.cluster.host->link = link(1e8);
  const std::int64_t copy = 10 * offloaded_bytes(two.loaded.part->layer(0), two.loaded.plan, false);
  ASSERT_GT(copy, 16'000);
  for (const ActionKind kind : {ActionKind::F, ActionKind::I, ActionKind::B})
    EXPECT_EQ(ns(two.stage()[kind]), copy);
  EXPECT_EQ(ns(two.stage().w), 4000);
  const LayerCosts known(two.loaded, two.costs, two.cluster.stack);
  const PerKind<Nanoseconds> away = cost_breakdown(two.loaded, known, two.cluster).offloaded[0];
  EXPECT_NEAR(static_cast<double>(ns(away.f)), static_cast<double>(copy - 8000), 1);
  EXPECT_NEAR(static_cast<double>(ns(away.b)), static_cast<double>(copy - 16'000), 1);
}

// Of a block that is rebuilt its input alone goes: 4 tokens of 8 numbers in fp32, 128 bytes, 1.28
// us at 100 MB/s. Beside a pass it is hidden; where software waits for its copies, F of 8 us takes
// 9.28, B of 16 and 8 of rebuilding 25.28; and W, which reads what is back, its 4.
TEST(StageCosts, CopiesMayKeepTheDeviceWaiting) {
  const auto costs = [](bool blocking) {
    Case two([](Plan& plan) {
      plan.recompute.mode = RecomputeMode::full;
      plan.offload_activations = 1;
    });
    const Link link{Seconds(0), BytesPerSecond(1e8)};
    two.cluster.host = Host{link, Bytes(std::int64_t{1} << 40), BytesPerSecond(1e9)};
    two.cluster.stack.time.blocking_offload = blocking;
    return two.stage();
  };
  EXPECT_EQ(ns(costs(false).f), 8000);
  EXPECT_EQ(ns(costs(false).b), 16'000 + 8000);
  EXPECT_EQ(ns(costs(true).f), 8000 + 1280);
  EXPECT_EQ(ns(costs(true).i), 12'000 + 8000 + 1280);
  EXPECT_EQ(ns(costs(true).b), 16'000 + 8000 + 1280);
  EXPECT_EQ(ns(costs(true).w), 4000);
}

// The host needs 10 us for a block's forward and 20 for its backward, whatever the device has to
// do: F of 8 us becomes 10, B of 16 and I of 12 become 20; W, a few queued products, stays. Divided
// by two, F is 4 us and sends for 256 ns, both within the 10. A host of 3 us is never waited for.
TEST(StageCosts, TheHostSetsWhatABlockTakesAtLeast) {
  const auto with = [](int tp, double forward_us, double backward_us) {
    Case two([tp](Plan& p) { p.tp = tp; });
    two.cluster.stack.time.block_host_forward = Seconds(forward_us * 1e-6);
    two.cluster.stack.time.block_host_backward = Seconds(backward_us * 1e-6);
    return two.stage();
  };
  EXPECT_EQ(ns(with(1, 10, 20).f), 10'000);
  EXPECT_EQ(ns(with(1, 10, 20).b), 20'000);
  EXPECT_EQ(ns(with(1, 10, 20).i), 20'000);
  EXPECT_EQ(ns(with(1, 10, 20).w), 4'000);
  EXPECT_EQ(ns(with(2, 10, 20).f), 10'000);
  EXPECT_EQ(ns(with(2, 3, 3).f), 4'000 + 256);
  EXPECT_EQ(ns(with(2, 3, 3).b), 8'000 + 256);
}

// Steps that are replayed from CUDA graphs wait for no host.
TEST(StageCosts, GraphsHaveNoHost) {
  Case two([](Plan&) {});
  two.cluster.stack.time.block_host_forward = Seconds(10e-6);
  two.cluster.stack.time.launch = Seconds(0);
  EXPECT_EQ(ns(two.stage().f), 8'000);
}

// A forward that is done again is launched again: 10 us of the host within B beside the 20.
TEST(StageCosts, TheHostLaunchesWhatIsRebuilt) {
  Case two([](Plan& p) { p.recompute.mode = RecomputeMode::full; });
  two.cluster.stack.time.block_host_forward = Seconds(10e-6);
  two.cluster.stack.time.block_host_backward = Seconds(20e-6);
  EXPECT_EQ(ns(two.stage().b), 30'000);
}

// Halved, plus two all-reduces of 4 x 8 x 4 = 128 bytes each way, 2 x 1/2 x 128 ns each; W sends
// nothing. The message, held twice, goes over whole: dividing it and gathering would take 64 + 64.
TEST(StageCosts, TensorParallelismDividesAndSends) {
  const Case two([](Plan& p) { p.tp = 2; });
  EXPECT_EQ(ns(two.stage().f), 4000 + 256);
  EXPECT_EQ(ns(two.stage().i), 6000 + 256);
  EXPECT_EQ(ns(two.stage().w), 2000);
  EXPECT_EQ(ns(two.stage().b), 8000 + 256);
  EXPECT_EQ(ns(two.stage().r), 4000 + 256);
  EXPECT_EQ(ns(two.stage().optimizer), 1000);
  EXPECT_EQ(ns(two.table().table.forward_messages[0].occupancy), 128);
  EXPECT_FALSE(two.table().inside_range);
  EXPECT_THAT(two.table().warnings,
              testing::ElementsAre("tp = 2, cp = 1: times of whole layers, divided"));
}

// Across nodes ten times slower than within: half the message in 640 ns, the other half gathered in
// 64.
TEST(StageCosts, ASlowLinkIsCrossedByParts) {
  const auto message = [](bool sequence_parallel) {
    Case four([&](Plan& p) { p.tp = 2, p.dp = 2, p.sequence_parallel = sequence_parallel; });
    four.cluster.inter = {Seconds(0), BytesPerSecond(1e8)};
    return four.table().table.forward_messages[0];
  };
  EXPECT_EQ(ns(message(false).occupancy), 640);
  EXPECT_EQ(ns(message(false).latency), 64);
  EXPECT_EQ(ns(message(true).occupancy), 640);  // the part is all a device has
  EXPECT_EQ(ns(message(true).latency), 0);
}

// Of two replicas gradients of 4 bytes are all-reduced, 2 x 1/2 x 4 ns a parameter; ZeRO-1 sends
// half of that, updates half and gathers weights, 1/2 x 4. Overlapped, a stage of one layer hides
// nothing.
TEST(StageCosts, ReplicasReduceAndUpdate) {
  const Case plain([](Plan& p) { p.dp = 2; });
  EXPECT_EQ(ns(plain.stage().reduce), 4 * kParameters);
  EXPECT_EQ(ns(plain.stage().optimizer), 2000);
  const Case zero([](Plan& p) { p.dp = 2, p.zero = 1; });
  EXPECT_EQ(ns(zero.stage().reduce), 2 * kParameters);
  EXPECT_EQ(ns(zero.stage().optimizer), 1000 + 2 * kParameters);
  const Case hidden([](Plan& p) { p.dp = 2, p.overlap_grad_reduce = true; });
  EXPECT_EQ(hidden.stage().reduce, plain.stage().reduce);
  EXPECT_EQ(ns(Case([](Plan&) {}).stage().reduce), 0);
}

// A stack that lets the plan say gathers weights beside the next forward where the plan asks: what
// is left of 2 kParameters ns is the tenth by which both are slowed.
TEST(StageCosts, WeightsArriveBesideTheForwardWhereThePlanAsks) {
  const auto optimizer = [](bool asked, std::optional<bool> stack) {
    Case zero([&](Plan& p) { p.dp = 2, p.zero = 1, p.overlap_param_gather = asked; });
    zero.cluster.stack.time.overlaps_gather = stack;
    zero.cluster.stack.time.overlap_slowdown = 0.1;
    return ns(zero.stage().optimizer);
  };
  EXPECT_EQ(optimizer(true, std::nullopt), 1000 + 2 * kParameters / 10);
  EXPECT_EQ(optimizer(false, std::nullopt), 1000 + 2 * kParameters);
  EXPECT_EQ(optimizer(true, false), 1000 + 2 * kParameters) << "Weir's own executor";
  EXPECT_EQ(optimizer(false, true), 1000 + 2 * kParameters / 10);
}

// Of two devices a block's traffic is two all-reduces of its 4 x 8 x 4 = 128 bytes each way, 256
// ns. Half of B is W here, 2 us, beside which the backward's two run: a tenth of 256 ns is left, by
// which both are slowed. A W that is a pass of its own comes too late for them. On a link ten
// thousand times as slow, 2.56 ms, the 2 us alone are saved, less a tenth.
TEST(StageCosts, SumsRunBesideWeightGradients) {
  const auto stage = [](double rate, bool beside) {
    Case two([](Plan& p) { p.tp = 2; });
    two.cluster.intra = {Seconds(0), BytesPerSecond(rate)};
    two.cluster.stack.time.tensor_beside_weights = beside;
    two.cluster.stack.time.overlap_slowdown = 0.1;
    return two.stage();
  };
  EXPECT_EQ(ns(stage(1e9, false).b), 8000 + 256);
  EXPECT_EQ(ns(stage(1e9, true).b), 8000 + 26);
  EXPECT_EQ(ns(stage(1e9, true).f), 4000 + 256);
  EXPECT_EQ(ns(stage(1e9, true).i), ns(stage(1e9, false).i));
  EXPECT_EQ(ns(stage(1e5, true).b), 8000 + 2'560'000 - 1800);
}

// Of the block's 6656 FLOPs 2 x 4 x 8 x 32 = 2048 are the last product's, which a rebuilt block
// leaves out where the stack stops early: of F's 8 us 2.462. Of two devices it leaves out the sum
// behind that product as well, one of two of 128 ns.
TEST(StageCosts, ARebuiltBlockLeavesOutItsLastProduct) {
  const auto backward = [](int tp, bool early) {
    Case full([&](Plan& p) { p.tp = tp, p.recompute.mode = RecomputeMode::full; });
    full.cluster.stack.time.rebuild_stops_early = early;
    return ns(full.stage().b);
  };
  EXPECT_EQ(backward(1, false), 16000 + 8000);
  EXPECT_EQ(backward(1, true), 16000 + 8000 - 2462);
  EXPECT_EQ(backward(2, false), 8000 + 256 + 4000 + 256);
  EXPECT_EQ(backward(2, true), 8000 + 256 + 4000 - 1231 + 128);
}

// ZeRO-3: weights gathered beside F and I, 1/2 x 4 ns a parameter = 1744 ns, less than they take;
// W's 4000 ns hide the reduce-scatter, as long. A slow link shows: ten times as long, 17440.
TEST(StageCosts, ZeroThreeRunsBesideTheWork) {
  Case zero([](Plan& p) { p.dp = 2, p.zero = 3; });
  EXPECT_EQ(ns(zero.stage().f), 8000);
  EXPECT_EQ(ns(zero.stage().b), 16000);
  EXPECT_EQ(ns(zero.stage().reduce), 0);
  zero.cluster.intra.bandwidth = BytesPerSecond(1e8);
  EXPECT_EQ(ns(zero.stage().f), 20 * kParameters);
  EXPECT_EQ(ns(zero.stage().b), 40 * kParameters);
}

// Scores are 2 s^2 q = 2 16 8 = 256 of the block's 6656 FLOPs: that share of F again in each
// backward.
TEST(StageCosts, SelectiveDoesTheCoreAgain) {
  const Case selective([](Plan& p) { p.recompute.mode = RecomputeMode::selective; });
  EXPECT_EQ(ns(selective.stage().f), 8000);
  EXPECT_NEAR(static_cast<double>(ns(selective.stage().b)), 16000 + 8000.0 * 256 / 6656, 1);
}

// F's 8 us again in B and in I, of the second micro-batch too unless it is spared; not where the
// stage's layer is not named. A correction of R is one of what is rebuilt.
TEST(StageCosts, FullDoesTheForwardAgainWithinTheBackward) {
  Case full([](Plan& p) { p.recompute.mode = RecomputeMode::full; });
  EXPECT_EQ(ns(full.stage().f), 8000);
  EXPECT_EQ(ns(full.stage().b), 16000 + 8000);
  EXPECT_EQ(ns(full.stage().i), 12000 + 8000);
  EXPECT_EQ(ns(full.stage().w), 4000);
  EXPECT_EQ(ns(full.stage().rebuild), 8000);
  const Case chunks([](Plan& p) { p.recompute = {.mode = RecomputeMode::full, .at_a_time = 4}; });
  EXPECT_EQ(ns(chunks.stage().b), 16000 + 8000);
  full.costs.correction.r = 1.5;
  EXPECT_EQ(ns(full.stage().b), 16000 + 12000);
  const Case second([](Plan& p) {
    p.recompute = {.mode = RecomputeMode::full, .layers = {{1, 2}}, .except_last = true};
  });
  EXPECT_EQ(ns(second.stage().b), 16000);
  const Program& program = second.loaded.program;
  const OperationCosts costs = expand(program, second.table().table);
  for (const OperationId id : program.ids()) {
    const Action& action = program.op(id).action;
    if (action.kind != ActionKind::B) continue;
    const bool again = action.stage == Stage{1} && action.microbatch == Microbatch{0};
    EXPECT_EQ(costs.duration_ns[id], again ? 24000 : 16000) << to_string(action);
    EXPECT_EQ(costs.rebuild_ns[id], again ? 8000 : 0) << to_string(action);
  }
}

// Two all-reduces of 128 bytes each way, as F's own, come with what is rebuilt. Under ZeRO-3 on a
// slow link (ZeroThreeRunsBesideTheWork) the gather hides behind it: the sum stays as long.
TEST(StageCosts, WhatIsRebuiltSendsAgain) {
  const auto full = [](Plan& p) { p.recompute.mode = RecomputeMode::full; };
  const Case without([](Plan& p) { p.tp = 2; });
  const Case with([&](Plan& p) { full(p), p.tp = 2; });
  EXPECT_EQ(ns(with.stage().b), ns(without.stage().b) + ns(without.stage().f));
  EXPECT_GT(ns(without.stage().f), 4000);
  Case zero([&](Plan& p) { full(p), p.dp = 2, p.zero = 3; });
  EXPECT_EQ(ns(zero.stage().b), 24000);
  zero.cluster.intra.bandwidth = BytesPerSecond(1e8);
  EXPECT_EQ(ns(zero.stage().b), 40 * kParameters);
  EXPECT_EQ(ns(zero.stage().rebuild), 8000);
  // Of four blocks at a time two are gathered once more, of two none: half of F's gather a block.
  zero.loaded.plan.recompute.at_a_time = 4;
  EXPECT_EQ(ns(zero.stage().b), 50 * kParameters);
  zero.loaded.plan.recompute.at_a_time = 2;
  EXPECT_EQ(ns(zero.stage().b), 40 * kParameters);
}

// A stage without a layer takes no time, has nothing to reduce or to update, and costs its
// messages: as long as those of the stage before it, whose output it hands on.
TEST(StageCosts, AnEmptyStageCostsItsMessages) {
  Case empty([](Plan& p) { p.boundaries = {2}, p.dp = 2, p.zero = 1; });
  EXPECT_THROW(static_cast<void>(empty.table()), InputError);
  empty.cluster.stack.empty_stages = true;
  const CostTable table = empty.table().table;
  const StageCost& last = table.stages[1];
  for (const ActionKind kind : kComputeKinds) EXPECT_EQ(ns(last[kind]), 0) << to_string(kind);
  EXPECT_EQ(ns(last.reduce), 0);
  EXPECT_EQ(ns(table.stages[0].f), 16000);
  EXPECT_GT(ns(table.backward_messages[1].occupancy + table.backward_messages[1].latency), 0);
  EXPECT_EQ(table.backward_messages[1].occupancy, table.forward_messages[0].occupancy);
  EXPECT_EQ(table.backward_messages[1].latency, table.forward_messages[0].latency);
}

// Every stage reduces where the program's ranks are not all that hold its weights, and updates
// after that.
TEST(StageCosts, EachStageOfReplicasReduces) {
  const auto reductions = [](int dp) {
    const Program program = Case([dp](Plan& p) { p.dp = dp; }).loaded.program;
    return std::count_if(
        program.operations().begin(), program.operations().end(),
        [](const Operation& o) { return o.action.kind == ActionKind::REDUCE_GRAD; });
  };
  EXPECT_EQ(reductions(1), 0);
  EXPECT_EQ(reductions(2), 2);
}

// The old way, as a check: every layer's key is written and looked for when its time is asked for.
LayerTime looked_up(const Costs& costs, const Layer& layer, const Plan& plan) {
  const Split split = plan.split();
  for (const Split& known : {split, Split{}}) {
    const std::string key = layer_key(layer, plan.seq_length, plan.dtype, known);
    for (const LayerCost& cost : costs.layers) {
      if (cost.key != key) continue;
      LayerTime time = cost.by_batch.at(plan.micro_batch_size);
      const double share = known == split ? 1 : 1.0 / (split.tp * split.cp);
      for (const ActionKind kind : kComputeKinds) time[kind] *= share;
      return time;
    }
  }
  throw std::logic_error("not in the costs");
}

// Three kinds of blocks, in one case also known divided by two; nine layers in random order, cut
// anywhere: each stage is the sum of its layers' own times, to the bit. Links are too fast to
// count.
TEST(StageCosts, MatchedOnceEqualsLookedUpEachTime) {
  std::mt19937_64 random(5);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Cluster cluster;
  cluster.devices_per_node = 8;
  cluster.intra = cluster.inter = {Seconds(0), BytesPerSecond(1e30)};
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE("seed 5, trial " + std::to_string(trial));
    Plan plan;
    plan.seq_length = 4;
    plan.pp = 3;
    plan.microbatches = 2;
    plan.micro_batch_size = pick(1, 3);
    plan.tp = pick(1, 2);
    plan.boundaries = {pick(1, 4), pick(5, 8)};
    Costs costs;
    std::vector<Layer> kinds;
    for (const std::int64_t width : {16, 32, 64}) {
      Layer layer = block();
      std::get<TransformerShape>(layer.shape).ffn = width;
      for (const Split& split : {Split{}, Split{.tp = 2}}) {
        if (split.tp == 2 && width == 32) continue;  // known whole only
        LayerCost cost;
        cost.key = layer_key(layer, 4, plan.dtype, split);
        for (int b = 1; b <= 3; ++b)
          cost.by_batch[b] = {{Seconds(pick(1, 999) / 7e6), Seconds(pick(1, 999) / 7e6),
                               Seconds(pick(1, 999) / 7e6), Seconds(pick(1, 999) / 7e6)}};
        costs.layers.push_back(cost);
      }
      kinds.push_back(layer);
    }
    Model model;
    for (int l = 0; l < 9; ++l) model.layers.push_back(kinds[static_cast<std::size_t>(pick(0, 2))]);
    const ResolvedPlan resolved =
        derive(plan, model, std::get<Schedule>(make_schedule("1f1b", {3, 1, 2})));
    const CostTable table = cost_table(resolved, costs, cluster).table;
    for (std::size_t s = 0; s < 3; ++s) {
      LayerTime sum;
      for (int l = resolved.stages[s].layers.first; l < resolved.stages[s].layers.last; ++l) {
        const LayerTime time = looked_up(costs, model.layers[static_cast<std::size_t>(l)], plan);
        sum += time;
      }
      sum.r = sum.f;
      for (const ActionKind kind : kPassKinds)
        EXPECT_EQ(table.stages[s][kind], to_nanoseconds(sum[kind])) << to_string(kind);
    }
  }
}

}  // namespace
}  // namespace weir::stage_costs_test
