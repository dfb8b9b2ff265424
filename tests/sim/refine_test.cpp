// The descent from one partition to better ones: what it prices anew, and where it ends.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/partitions/refine.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <variant>

#include "costmodel/table/builtin.hpp"
#include "plan/job/derive.hpp"
#include "plan/model/decoder.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::refine_test {
namespace {

constexpr std::int64_t kTokens = 512;

// Fourteen blocks between an embedding and a head that has its weight: a tie between stages.
Model tied_blocks() {
  Decoder d;
  d.embedding = {.vocabulary = 50'000, .hidden = 512};
  d.embedding.tied = true;
  d.block = {.hidden = 512, .heads = 8, .kv_heads = 8, .head_dim = 64, .ffn = 2048};
  d.blocks = 14;
  d.norm = {512, NormKind::layer_norm, 1e-5};
  d.head = {.vocabulary = 50'000, .hidden = 512};
  d.head.tied = true;
  Model model = decoder_model(d);
  model.seq_length = kTokens;
  return model;
}

class Refine : public testing::Test {
 protected:
  Refine() {
    cluster_ = load_cluster(std::filesystem::path(WEIR_SOURCE_DIR) /
                            "tools/examples/clusters/dgx-a100.json");
    cluster_.stragglers[1] = 1.3;
  }
  // Cut so that the descent has far to go: a layer a stage, all the others in the last.
  [[nodiscard]] Refined refined(const std::string& schedule, int v, const RefineLimits& limits,
                                std::vector<int> boundaries = {}) const {
    Plan plan;
    plan.seq_length = kTokens;
    plan.pp = 4;
    plan.vpp = v;
    plan.microbatches = 8;
    plan.schedule = schedule;
    plan.slots = 0;  // as many as it takes
    plan.boundaries = std::move(boundaries);
    for (int s = 1; plan.stages() > 1 + static_cast<int>(plan.boundaries.size()); ++s)
      plan.boundaries.push_back(s);
    const Model model = tied_blocks();
    const ResolvedPlan resolved = derive(
        plan, model, std::get<Schedule>(make_schedule(schedule, {plan.pp, v, plan.microbatches})));
    const Costs costs = builtin_costs(model, kTokens, plan.dtype, cluster_, {plan.split()});
    return refine_boundaries(resolved, LayerCosts(resolved, costs, cluster_.stack), cluster_,
                             limits);
  }

  Cluster cluster_;
};

// What a descent knows of the partition it ends with, of which it priced two stages alone, is what
// the whole partition takes: with copies of stages, with slow ranks, a tie that moves, and sends
// that wait.
TEST_F(Refine, WhatAMovePricesIsTheWhole) {
  for (const bool waits : {false, true}) {
    cluster_.stack.time.blocking_messages = waits;
    for (const auto& [schedule, v] :
         {std::pair("1f1b", 1), {"interleaved-1f1b", 2}, {"zb-v", 2}, {"chimera", 1}}) {
      const Refined found = refined(schedule, v, {});
      const Refined stays = refined(schedule, v, {.operations = 0}, found.boundaries);
      ASSERT_TRUE(found.makespan) << schedule;
      EXPECT_GT(found.evaluated, 16) << schedule;
      EXPECT_LT(*found.makespan, *refined(schedule, v, {.operations = 0}).makespan) << schedule;
      EXPECT_EQ(stays.boundaries, found.boundaries) << schedule;
      EXPECT_EQ(stays.makespan, found.makespan) << schedule << (waits ? ", sends wait" : "");
    }
  }
}

// 17 layers in 8 stages: 16 choose 7 partitions, more than are all looked at. With room for one
// operation the descent makes one round, in which one boundary can move, the last one up; with room
// for none it stays.
TEST_F(Refine, ADescentEndsWhereItsOperationsDo) {
  const Refined stays = refined("interleaved-1f1b", 2, {.operations = 0});
  EXPECT_EQ(stays.evaluated, 0);
  EXPECT_EQ(stays.boundaries, (std::vector<int>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_FALSE(stays.optimal);
  const Refined one = refined("interleaved-1f1b", 2, {.operations = 1});
  EXPECT_EQ(one.evaluated, 1);
  EXPECT_EQ(one.boundaries, (std::vector<int>{1, 2, 3, 4, 5, 6, 8}));
  const Refined whole = refined("interleaved-1f1b", 2, {});
  EXPECT_LT(*whole.makespan, *one.makespan);
  EXPECT_LT(*one.makespan, *stays.makespan);
}

// A move's work is the program's, 8 x 8 x 2 passes, 7 x 8 x 2 messages at both ends, 8 updates and
// 2 reductions of the tie, 362 operations in all; and the prices of two stages of 17 / 8 layers,
// each as 8 operations: 34.
TEST_F(Refine, LayersThatAreMovedCountAsWork) {
  EXPECT_EQ(refined("interleaved-1f1b", 2, {.operations = 396}).evaluated, 1);
  EXPECT_GT(refined("interleaved-1f1b", 2, {.operations = 397}).evaluated, 1);
}

}  // namespace
}  // namespace weir::refine_test
