// What the host launches beside CUDA graphs, counted by hand, and what a stage takes then.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "costmodel/layers/kernels.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::graphs_test {
namespace {

constexpr TransformerShape kBlock{.hidden = 64,
                                  .heads = 4,
                                  .kv_heads = 4,
                                  .head_dim = 16,
                                  .ffn = 256,
                                  .attention = AttentionKind::fused};

Plan plan_with(const char* graphs) {
  Plan plan;
  plan.seq_length = 32;
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.cuda_graphs = parse_cuda_graphs(graphs).value();
  return plan;
}
Cluster h100() { return load_cluster(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json"); }

// F of a dense block: norm, queries with keys and values, core, projection, sum; norm, up,
// activation, down, sum: 5 and 5. I: the core's row sums are a kernel more. W: two products each.
TEST(Graphs, PartsLeaveTheOthersToTheHost) {
  const auto of = [](const char* graphs) {
    return layer_kernels({"b", kBlock, ""}, plan_with(graphs), h100().device, {}, 0);
  };
  const LayerKernels none = of("none"), attention = of("attn"), blocks = of("blocks");
  EXPECT_EQ(none.f.kernels, 10);
  EXPECT_EQ(none.i.kernels, 11);
  EXPECT_EQ(none.w.kernels, 4);
  EXPECT_EQ(none.f.launched, 10);
  // A graph is a launch: of a forward and of a backward.
  EXPECT_EQ(attention.f.launched, 5 + 1);
  EXPECT_EQ(attention.i.launched, 5 + 1);
  EXPECT_EQ(attention.w.launched, 2);
  EXPECT_EQ(blocks.f.launched, 1);
  EXPECT_EQ(blocks.i.launched, 1);
  EXPECT_EQ(blocks.w.launched, 0);
  EXPECT_EQ(of("attn+mlp").f.launched, 1);
  EXPECT_EQ(of("step").f.launched, 0);
  // The device does what it did.
  EXPECT_EQ(blocks.f.device, none.f.device);
  EXPECT_GT(none.f.squared, Seconds(0));
}

// With 4 experts: the norm behind attention and the router's product are the router's, the kernel
// that sorts tokens is preprocessing; the one back, three of the experts and the sum stay. Experts
// in a graph of their own, beside attention, are all of the block.
TEST(Graphs, ExpertsStayOutside) {
  TransformerShape block = kBlock;
  block.experts = 4;
  block.experts_per_token = 2;
  const auto launched = [&](const char* graphs) {
    return layer_kernels({"b", block, ""}, plan_with(graphs), h100().device, {}, 0).f.launched;
  };
  EXPECT_EQ(launched("none"), 5 + 2 + 1 + 1 + 3 + 1);
  EXPECT_EQ(launched("attn+moe_router+moe_preprocess"), 1 + 3 + 1 + 1);
  EXPECT_EQ(launched("moe_router"), 5 + 1 + 1 + 3 + 1 + 1);
  EXPECT_EQ(launched("attn+moe"), 1);
  // There is no dense block here.
  EXPECT_EQ(launched("mlp"), launched("none"));
}

struct Stages {
  Cluster cluster = h100();
  Model model;
  Stages() {
    cluster.stack = {};
    cluster.stack.own_tensors = false;
    cluster.stack.time.launch = Seconds(10e-6);
    model.layers = {{"b", kBlock, ""}};
    model.family = "layers";
  }
  [[nodiscard]] StageCost of(const Plan& plan) const {
    const ResolvedPlan loaded =
        derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 1})));
    const Costs costs = builtin_costs(model, plan.seq_length, plan.dtype, cluster, {plan.split()});
    return cost_table(loaded, costs, cluster).table.stages[0];
  }
};

// Ten launches of 10 us are longer than what ten small kernels do, and one is not; F of a step that
// is one graph is what the device does.
TEST(Graphs, TakeTheLaunchesAway) {
  const Stages stages;
  const LayerKernels kernels =
      layer_kernels({"b", kBlock, ""}, plan_with("none"), stages.cluster.device, {}, 0);
  ASSERT_GT(kernels.f.device, Seconds(10e-6));
  ASSERT_LT(kernels.f.device, Seconds(60e-6));
  EXPECT_EQ(stages.of(plan_with("none")).f.count(), 100'000);
  EXPECT_EQ(stages.of(plan_with("blocks")).f, to_nanoseconds(kernels.f.device));
  EXPECT_EQ(stages.of(plan_with("step")).f, to_nanoseconds(kernels.f.device));
  // Of attention alone, six launches are left; B has 11 + 4, of which 6 + 2 are.
  EXPECT_EQ(stages.of(plan_with("attn")).f.count(), 60'000);
  EXPECT_EQ(stages.of(plan_with("none")).b.count(), 110'000 + 40'000);
  EXPECT_EQ(stages.of(plan_with("attn")).b.count(), 60'000 + 20'000);
}

// A host that needs 1 ms for a block's modules and calls needs a tenth of it for one launch in ten,
// six tenths for six, and nothing for a step that is one graph.
TEST(Graphs, TakeTheHostsTimeWithThem) {
  Stages stages;
  stages.cluster.stack.time.block_host_forward = Seconds(1e-3);
  EXPECT_EQ(stages.of(plan_with("none")).f.count(), 1'000'000);
  EXPECT_EQ(stages.of(plan_with("blocks")).f.count(), 100'000);
  EXPECT_EQ(stages.of(plan_with("attn")).f.count(), 600'000);
  EXPECT_LT(stages.of(plan_with("step")).f.count(), 60'000);
}

// Times that were measured are as they were launched.
TEST(Graphs, LeaveMeasuredTimesAlone) {
  const Stages stages;
  const auto stage = [&](const char* graphs) {
    const Plan plan = plan_with(graphs);
    Costs costs =
        builtin_costs(stages.model, plan.seq_length, plan.dtype, stages.cluster, {plan.split()});
    costs.basis = Basis::measured;
    const ResolvedPlan loaded =
        derive(plan, stages.model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 1})));
    return cost_table(loaded, costs, stages.cluster).table.stages[0].f;
  };
  EXPECT_EQ(stage("step"), stage("none"));
}

}  // namespace
}  // namespace weir::graphs_test
