// The partition with the shortest step, held to every partition simulated, and what software ships.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/partitioning.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "costmodel/table/builtin.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/engine/compiled_engine.hpp"
#include "sim/partition/shipped.hpp"
#include "sim/search/partitions/kept_together.hpp"

namespace weir::partitioning_test {
namespace {

Model timed_model(std::mt19937_64& random, int layers) {
  std::uniform_int_distribution<int> pick(1, 40);
  Model model;
  for (int l = 0; l < layers; ++l) {
    TimedShape shape{.forward = Seconds(pick(random) * 1e-6), .boundary = Bytes(640)};
    shape.backward_input = shape.backward_weight = shape.forward;
    model.layers.push_back({"layer", shape, "timed"});
  }
  return model;
}

Cluster four_devices() {
  Cluster cluster;
  cluster.devices_per_node = 4;
  cluster.intra = {Seconds(1e-6), BytesPerSecond(1e9)};
  return cluster;
}

Nanoseconds step_of(const Plan& plan, const LayerCosts& known, const Cluster& cluster,
                    const Schedule& schedule) {
  const ResolvedPlan resolved = derive(plan, known.model(), schedule, known.part());
  const auto program = std::get<CompiledProgram>(compile(resolved.program));
  return CompiledEngine(program).makespan(cost_table(resolved, known, cluster).table);
}

using Boundaries = std::vector<int>;

// The embedding, 4 blocks, the norm and the head.
Model four_blocks() {
  Model model;
  model.layers.push_back({"embedding", EmbeddingShape{.vocabulary = 32, .hidden = 8}, ""});
  const TransformerShape block{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 32};
  for (int l = 0; l < 4; ++l) model.layers.push_back({"block", block, ""});
  model.layers.push_back({"norm", NormShape{}, ""});
  model.layers.push_back({"head", HeadShape{.vocabulary = 32, .hidden = 8}, ""});
  return model;
}

// Behind the norm two blocks that predict (6, 7) and the head (8). A boundary at 7 parts the two;
// at 6 or 8 it stands before or behind both.
TEST(Partitioning, BlocksThatPredictStayTogether) {
  Model model = four_blocks();
  EXPECT_FALSE(KeptTogether(model, Stack{}).any());
  EXPECT_TRUE(KeptTogether(model, Stack{}).keeps(Boundaries{1, 2, 3, 4, 5, 6}));
  set_prediction(model, 2);
  ASSERT_EQ(model.layers.size(), 9);
  const KeptTogether together(model, Stack{});
  EXPECT_TRUE(together.keeps(Boundaries{3, 6, 8}));
  EXPECT_FALSE(together.keeps(Boundaries{3, 7}));
  EXPECT_EQ(together.kept({3, 6, 8}), Boundaries({3, 6, 8}));
  EXPECT_EQ(together.kept({3, 7}), Boundaries({3, 6}));
  // What stands at 6 makes room, and so does what stands there before it.
  EXPECT_EQ(together.kept({5, 6, 7, 8}), Boundaries({4, 5, 6, 8}));
  // Eight boundaries leave no stage with two layers.
  EXPECT_EQ(together.kept({1, 2, 3, 4, 5, 6, 7, 8}), Boundaries({1, 2, 3, 4, 5, 6, 7, 8}));
}

// Boundaries at 5 and 6 leave the norm alone, which then goes with the last block, and what is in
// the way a layer ahead; a stage for each of 7 layers leaves it alone however they are cut.
TEST(Partitioning, TheNormIsNotAloneWhereAStackHasNoSuchStage) {
  Model model = four_blocks();
  const KeptTogether together(model, Stack{.lone_norm = false});
  EXPECT_TRUE(together.keeps(Boundaries{1, 2, 3, 4, 5}));
  EXPECT_TRUE(together.keeps(Boundaries{4, 6}));
  EXPECT_FALSE(together.keeps(Boundaries{3, 5, 6}));
  EXPECT_EQ(together.kept({3, 5, 6}), Boundaries({3, 4, 6}));
  EXPECT_EQ(together.kept({3, 4, 5, 6}), Boundaries({2, 3, 4, 6}));
  EXPECT_FALSE(together.too_many(6));
  EXPECT_EQ(together.too_many(7),
            "K*v = 7 parts layers that stand on one stage: expected at most 6");
  // Of blocks that predict behind it, 6 is the first.
  set_prediction(model, 2);
  EXPECT_EQ(KeptTogether(model, Stack{.lone_norm = false}).kept({5, 6, 7, 8}),
            Boundaries({3, 4, 6, 8}));
  // Nine layers, of which two and two are on one stage.
  EXPECT_FALSE(KeptTogether(model, Stack{.lone_norm = false}).too_many(7));
  EXPECT_TRUE(KeptTogether(model, Stack{.lone_norm = false}).too_many(8));
  EXPECT_FALSE(KeptTogether(model, Stack{}).too_many(8));
}

// Ten layers in three stages: 36 partitions, all simulated, for few and for many micro-batches.
TEST(Partitioning, OptimalIsTheShortestStepOfAll) {
  std::mt19937_64 random(21);
  const Cluster cluster = four_devices();
  for (int trial = 0; trial < 30; ++trial) {
    const Model model = timed_model(random, 10);
    const Costs costs = builtin_costs(model, 0, Dtype::fp32, cluster);
    Plan plan;
    plan.pp = 3;
    plan.microbatches = trial % 2 == 0 ? 3 : 12;
    plan.slots = 0;
    const auto schedule = std::get<Schedule>(
        make_schedule(trial % 3 == 0 ? "zb-h1" : "1f1b", {plan.pp, 1, plan.microbatches}));
    const LayerCosts known(plan, model, costs);
    const ChosenPartition chosen = shortest_step_partition(plan, known, cluster, schedule);
    Nanoseconds best{std::numeric_limits<std::int64_t>::max()};
    for (int a = 1; a < 9; ++a) {
      for (int b = a + 1; b < 10; ++b) {
        plan.boundaries = {a, b};
        best = std::min(best, step_of(plan, known, cluster, schedule));
      }
    }
    EXPECT_EQ(chosen.step, best) << "seed 21, trial " << trial;
    EXPECT_TRUE(chosen.optimal);
    EXPECT_LE(static_cast<double>(best.count()) / (1 + chosen.gap), best.count() * (1 + 1e-9));
    plan.boundaries = chosen.boundaries;
    EXPECT_EQ(step_of(plan, known, cluster, schedule), best);
  }
}

// Too many partitions to simulate all: never worse than what is shipped, and within its own gap.
TEST(Partitioning, IsNoWorseThanWhatSoftwareShips) {
  std::mt19937_64 random(22);
  const Cluster cluster = four_devices();
  for (int trial = 0; trial < 10; ++trial) {
    const Model model = timed_model(random, 30);
    const Costs costs = builtin_costs(model, 0, Dtype::fp32, cluster);
    Plan plan;
    plan.pp = 4;
    plan.microbatches = 4 + trial;
    plan.slots = 0;
    const auto schedule =
        std::get<Schedule>(make_schedule("1f1b", {plan.pp, 1, plan.microbatches}));
    const LayerCosts known(plan, model, costs);
    const ChosenPartition chosen = shortest_step_partition(plan, known, cluster, schedule);
    std::vector<std::int64_t> times;
    for (const Layer& layer : model.layers)
      times.push_back(std::llround(std::get<TimedShape>(layer.shape).forward.count() * 3e9));
    for (const auto& shipped : {uniform_boundaries(30, 4), block_boundaries(times, 4)}) {
      plan.boundaries = shipped;
      EXPECT_LE(chosen.step, step_of(plan, known, cluster, schedule)) << "seed 22, trial " << trial;
    }
    EXPECT_GE(chosen.gap, 0);
    EXPECT_EQ(chosen.minimax.proof, PartitionProof::optimal);
  }
}

// Two layers of activations fit a device of 1F1B's first rank with two micro-batches in flight, the
// last one has room for more: of four equal layers the even split does not fit where the first
// device has room for one layer's two micro-batches.
TEST(Partitioning, KeepsToMemoryByStage) {
  Model model;
  for (int l = 0; l < 4; ++l) {
    TimedShape shape{.forward = Seconds(1e-3), .boundary = Bytes(1000)};
    shape.backward_input = shape.backward_weight = shape.forward;
    shape.activation = Bytes(1'000'000);
    model.layers.push_back({"layer", shape, "timed"});
  }
  Cluster cluster = four_devices();
  const Costs costs = builtin_costs(model, 0, Dtype::fp32, cluster);
  Plan plan;
  plan.pp = 2;
  plan.microbatches = 8;
  const auto schedule = std::get<Schedule>(make_schedule("1f1b", {2, 1, 8}));
  const LayerCosts known(plan, model, costs);
  EXPECT_EQ(shortest_step_partition(plan, known, cluster, schedule).boundaries,
            std::vector<int>{2});
  cluster.device.memory = Bytes(3'300'000);
  const auto tight = shortest_step_partition(plan, known, cluster, schedule);
  EXPECT_EQ(tight.boundaries, std::vector<int>{1});
  EXPECT_TRUE(tight.fits);
  cluster.device.memory = Bytes(1'000'000);
  EXPECT_FALSE(shortest_step_partition(plan, known, cluster, schedule).fits);
}

// Three equal layers of 1 and one of 4 in two stages. Normalised 0 0 0 1: blocks 0 and 1 differ by
// no more than 1, so torchgpipe's stays at equal counts, 2 | 5, where 3 | 4 is the best.
TEST(Partitioning, BlockPartitionTakesShortLayersForFree) {
  EXPECT_EQ(block_boundaries(std::vector<std::int64_t>{1, 1, 1, 4}, 2), std::vector<int>{2});
  EXPECT_EQ(block_boundaries(std::vector<std::int64_t>{9, 9, 9, 1, 1, 1}, 3),
            (std::vector<int>{1, 2}));
  EXPECT_EQ(uniform_boundaries(7, 3), (std::vector<int>{3, 5}));
}

// 99,990 equal layers behind one that is free, in 1024 stages: 97 each to begin with, and 759 in
// the last, which gives 660 of them away one by one. Sums of all layers for each of some 340,000
// steps took minutes. In the end no stage has over a layer more than another.
TEST(Partitioning, BlockPartitionOfManyLayersEnds) {
  constexpr int kLayers = 99'991, kStages = 1024;
  std::vector<std::int64_t> times(kLayers, 7);
  times.front() = 0;
  std::vector<int> ends = block_boundaries(times, kStages);
  ends.push_back(kLayers);
  int least = kLayers, most = 0;
  for (int s = 0, begin = 0; s < kStages; begin = ends[static_cast<std::size_t>(s++)]) {
    const int size = ends[static_cast<std::size_t>(s)] - begin - (s == 0 ? 1 : 0);
    least = std::min(least, size);
    most = std::max(most, size);
  }
  EXPECT_LE(most - least, 1);
}

}  // namespace
}  // namespace weir::partitioning_test
