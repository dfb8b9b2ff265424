// Stages of layers that are alike are counted and priced by the kind, to the bytes and bits that
// come of walking them one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "plan/job/stack_part.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::alike_stages_test {
namespace {

// Embedding, dense blocks but for some with experts, norm and head. With labels no two layers are
// of one kind, and all else of them is the same.
Model blocks(bool labelled) {
  const TransformerShape dense{.hidden = 32, .heads = 4, .kv_heads = 4, .head_dim = 8, .ffn = 128};
  TransformerShape experts = dense;
  experts.experts = 4;
  experts.experts_per_token = 2;
  Model model;
  model.layers = {{"embedding", EmbeddingShape{.vocabulary = 64, .hidden = 32, .tied = true}, ""}};
  for (int b = 0; b < 60; ++b)
    model.layers.push_back({"block", b > 40 && b < 45 ? experts : dense, ""});
  model.layers.push_back({"norm", NormShape{.hidden = 32}, ""});
  model.layers.push_back({"head", HeadShape{.vocabulary = 64, .hidden = 32, .tied = true}, ""});
  for (std::size_t l = 0; labelled && l < model.layers.size(); ++l)
    model.layers[l].label = std::to_string(l);
  return model;
}

Plan two_stages(const char* recompute, int zero) {
  Plan plan;
  plan.seq_length = 8;
  plan.dtype = Dtype::bf16;
  plan.micro_batch_size = 2;
  plan.pp = plan.microbatches = 2;
  plan.dp = 4;
  plan.zero = zero;
  plan.boundaries = {25};
  plan.schedule = "1f1b";
  plan.recompute = parse_recompute_word(recompute).value();
  return plan;
}

ResolvedPlan derived(const Plan& plan, bool labelled) {
  return derive(plan, blocks(labelled), std::get<Schedule>(make_schedule("1f1b", {2, 1, 2})));
}

constexpr const char* kRecomputes[] = {"none", "selective", "full", "full:3", "stage", "3-9,30"};

// Weir's own arena, and a caching allocator with a stack that keeps its own tensors.
TEST(AlikeStages, HoldWhatTheirLayersHoldOneByOne) {
  Stack other{.own_tensors = false};
  other.memory.block = {{.tensor = "norm", .width = Width::hidden},
                        {.tensor = "core",
                         .width = Width::query,
                         .until_i = true,
                         .rebuilt_by = BlockModule::core_attn}};
  int compared = 0;
  for (const char* recompute : kRecomputes) {
    for (const int zero : {0, 1, 2, 3}) {
      const ResolvedPlan a = derived(two_stages(recompute, zero), false),
                         b = derived(two_stages(recompute, zero), true);
      ASSERT_LT(a.part->kinds.size(), 6U);
      ASSERT_EQ(b.part->kinds.size(), 63U);
      for (const Stack& stack : {Stack(), other}) {
        const ModelPart parts[] = {stack_part(a.model, 8, Dtype::bf16, {}, stack),
                                   stack_part(b.model, 8, Dtype::bf16, {}, stack)};
        const auto allocator = stack.own_tensors ? Allocator::arena : Allocator::pytorch;
        for (const std::size_t s : {0, 1}) {
          const StageMemory one(a.plan, parts[0], a.stages[s], allocator, stack),
              other_one(b.plan, parts[1], b.stages[s], allocator, stack);
          EXPECT_EQ(one.parameters().values, other_one.parameters().values);
          for (const ActionKind kind : kPassKinds) {
            for (const bool remat : {false, true}) {
              const Footprint x = one.of(kind, remat), y = other_one.of(kind, remat);
              EXPECT_EQ(x.net.values, y.net.values) << recompute << zero << s;
              EXPECT_EQ(x.worst.values, y.worst.values) << recompute << zero << s;
              ++compared;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(compared, 6 * 4 * 2 * 2 * 5 * 2);
}

// Of blocks behind the embedding, of as many elsewhere, and of those with experts between: as long
// as its layers by themselves, but for half a nanosecond that each of those is rounded by; and to
// the nanosecond whatever was asked before.
TEST(AlikeStages, TakeWhatTheirLayersTakeOneByOne) {
  Cluster cluster;
  cluster.device.peak_bf16 = cluster.device.peak_fp32 = FlopsPerSecond(1e12);
  cluster.device.memory_bandwidth = BytesPerSecond(1e11);
  const Model model = blocks(false);
  for (const char* recompute : kRecomputes) {
    const Plan plan = two_stages(recompute, 0);
    const Costs costs = builtin_costs(model, 8, Dtype::bf16, cluster, {plan.split()});
    const LayerCosts known(plan, model, costs);
    const StageCosts asked(plan, known, cluster);
    for (const LayerRange range :
         {LayerRange{0, 25}, {1, 25}, {2, 26}, {5, 12}, {10, 30}, {20, 63}, {30, 50}, {12, 32}}) {
      const StagePart stage = stage_part(*known.part(), range);
      const StageCost cost = asked.of(stage), again = asked.of(stage),
                      fresh = StageCosts(plan, known, cluster).of(stage);
      for (const ActionKind kind : kPassKinds) {
        EXPECT_EQ(cost[kind], fresh[kind]) << recompute << " " << range.first;
        EXPECT_EQ(cost[kind], again[kind]) << recompute << " " << range.first;
        std::int64_t sum = 0;
        for (int l = range.first; l < range.last; ++l)
          sum += asked.of(stage_part(*known.part(), {l, l + 1}))[kind].count();
        EXPECT_NEAR(static_cast<double>(cost[kind].count()), static_cast<double>(sum),
                    range.size() / 2.0 + 1)
            << recompute << " " << range.first;
      }
    }
  }
}

// Three stages of the same run of blocks, the one between without a layer: it asks for nothing.
TEST(AlikeStages, AnEmptyStageHasNoScratch) {
  const Model model = blocks(false);
  Plan plan = two_stages("none", 0);
  plan.pp = 3;
  plan.boundaries = {5, 5};
  Cluster cluster;
  cluster.device.peak_bf16 = cluster.device.peak_fp32 = FlopsPerSecond(1e12);
  cluster.device.memory_bandwidth = BytesPerSecond(1e11);
  Costs costs = builtin_costs(model, 8, Dtype::bf16, cluster, {plan.split()});
  for (LayerCost& layer : costs.layers) {
    for (auto& [batch, time] : layer.by_batch) time.scratch = Bytes(100);
  }
  const LayerCosts known(plan, model, costs);
  const ScheduleShape shape = std::get<Schedule>(make_schedule("1f1b", {3, 1, 2})).shape;
  std::vector<StagePart> stages;
  for (const LayerRange range : {LayerRange{0, 5}, {5, 5}, {5, 63}})
    stages.push_back(stage_part(*known.part(), range));
  EXPECT_EQ(StageCosts(plan, known, cluster).scratch(shape, stages),
            (std::vector<Bytes>{Bytes(100), Bytes(0), Bytes(100)}));
}

}  // namespace
}  // namespace weir::alike_stages_test
