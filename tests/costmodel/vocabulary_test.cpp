// What shards of a divided vocabulary hold, compute and exchange, by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/memory/memory.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::vocabulary_test {
namespace {

// A table of 1024 rows with learned positions, two blocks, a norm and a head, h = 128, bf16; rows
// of 64 tokens. A block has 12 h^2 + 13 h numbers.
constexpr std::int64_t kWide = 128, kBlock = 12 * kWide * kWide + 13 * kWide, kTokens = 64;
constexpr std::int64_t kHidden = kTokens * kWide * 2;  // bytes of x

Model model_of(std::int64_t vocabulary, bool tied) {
  const TransformerShape block{
      .hidden = kWide, .heads = 4, .kv_heads = 4, .head_dim = 32, .ffn = 512};
  Model model;
  model.family = "gpt2";
  model.layers = {
      {"embedding",
       EmbeddingShape{
           .vocabulary = vocabulary, .hidden = kWide, .positions = kTokens, .tied = tied},
       ""},
      {"b0", block, ""},
      {"b1", block, ""},
      {"norm", NormShape{.hidden = kWide}, ""},
      {"head", HeadShape{.vocabulary = vocabulary, .hidden = kWide, .tied = tied}, ""}};
  return model;
}

ResolvedPlan planned(const char* schedule, Model model, std::vector<int> boundaries) {
  Plan plan;
  plan.seq_length = kTokens;
  plan.dtype = Dtype::bf16;
  plan.schedule = schedule;
  plan.pp = static_cast<int>(boundaries.size()) + 1;
  plan.microbatches = 4;
  plan.boundaries = std::move(boundaries);
  set_treatment(model, plan);
  return derive(plan, std::move(model),
                std::get<Schedule>(make_schedule(schedule, {plan.pp, 1, plan.microbatches})));
}

BytesByKind state_of(const ResolvedPlan& r, int stage) {
  return StageMemory(r.plan, *r.part, r.stages[static_cast<std::size_t>(stage)], Allocator::arena)
      .parameters();
}

Cluster a100s() { return load_cluster(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-a100.json"); }

// Dividing is undone by another schedule, whatever number of ranks it was for.
TEST(DividedVocabulary, IsTheSameModelAgain) {
  for (const bool tied : {false, true}) {
    const Model whole = model_of(1000, tied);
    Model model = whole;
    set_vocabulary(model, 3);
    ASSERT_EQ(model.layers.size(), 6U);
    EXPECT_EQ(std::get<HeadShape>(model.layers[5].shape).vocabulary, 334);  // of 1000 / 3
    set_vocabulary(model, 8);
    EXPECT_EQ(std::get<EmbeddingShape>(model.layers[4].shape).vocabulary, 125);
    set_vocabulary(model, 1);
    ASSERT_EQ(model.layers.size(), whole.layers.size());
    for (std::size_t l = 0; l < whole.layers.size(); ++l)
      EXPECT_EQ(model.layers[l].shape, whole.layers[l].shape) << l;
    EXPECT_EQ(parameter_count(model), parameter_count(whole));
  }
}

// Two ranks: positions and a block, a block and the norm, and of each table 512 rows on either,
// which a tied head has once, with one state.
TEST(DividedVocabulary, HoldsItsRowsOnEveryRank) {
  for (const bool tied : {false, true}) {
    const ResolvedPlan r = planned("vocab-2", model_of(1024, tied), {2});
    ASSERT_EQ(r.stages.size(), 4U);
    const std::int64_t rows = 512 * kWide * (tied ? 1 : 2);
    EXPECT_EQ(state_of(r, 0)[MemoryKind::weights], 2 * (kTokens * kWide + kBlock));
    EXPECT_EQ(state_of(r, 1)[MemoryKind::weights], 2 * (kBlock + 2 * kWide));
    for (const int shard : {2, 3}) {
      EXPECT_EQ(state_of(r, shard)[MemoryKind::weights], 2 * rows);
      EXPECT_EQ(state_of(r, shard)[MemoryKind::optimizer_state], 12 * rows);
    }
    EXPECT_TRUE(r.ties.empty());
  }
}

// From S to T a shard keeps x and its columns' logits; nothing is left behind T.
TEST(DividedVocabulary, KeepsItsColumnsLogitsBetweenItsPasses) {
  const ResolvedPlan r = planned("vocab-1", model_of(1024, false), {2});
  const StageMemory shard(r.plan, *r.part, r.stages[2], Allocator::arena);
  const std::int64_t kept = kHidden + kTokens * 512 * 2;
  EXPECT_EQ(shard.of(ActionKind::F, false).net[MemoryKind::activations], kept);
  EXPECT_EQ(shard.of(ActionKind::B, false).net[MemoryKind::activations], -kept);
}

// S and T are the F and the backward of a whole model's tables of 512 rows, each a stage of its
// own; with one barrier the head's I is S's.
TEST(DividedVocabulary, TakesTheTimeOfASmallerVocabulary) {
  const Cluster cluster = a100s();
  const auto costs_of = [&](const ResolvedPlan& r) {
    const Costs costs = builtin_costs(r.model, kTokens, Dtype::bf16, cluster);
    return cost_table(r, costs, cluster).table.stages;
  };
  const auto whole = costs_of(planned("1f1b", model_of(512, false), {1, 2, 3, 4}));
  // Positions are the first stage's: only what they share in looking up is told apart by rounding.
  const auto two = costs_of(planned("vocab-1", model_of(1024, false), {2}));
  const auto one = costs_of(planned("vocab-2", model_of(1024, false), {2}));
  const auto near = [](Nanoseconds a, Nanoseconds b) {
    EXPECT_NEAR(static_cast<double>(a.count()), static_cast<double>(b.count()), 2);
  };
  for (const std::size_t shard : {2U, 3U}) {
    near(two[shard].f, whole[0].f + whole[4].f);
    near(two[shard].i, whole[0].i + whole[4].i);
    near(one[shard].f, two[shard].f + two[shard].i);
    near(one[shard].b, two[shard].w);
  }
}

// Two ranks, alpha = 1 us, 1 GB/s: x is n = 16,384 bytes. Broadcast alpha + 2 n in fp32, or n; an
// all-reduce of n bytes 2 alpha + n: three of 256 bytes, 6.768 us; the embedding's sum and its
// gradient's broadcast, 18.384 + 17.384; dx 18.384, of which interlaced waits for what T's product
// for the weights does not hide.
TEST(DividedVocabulary, ExchangesWhatItMust) {
  Cluster cluster = a100s();
  cluster.intra.latency = Seconds(1e-6);
  cluster.intra.bandwidth = BytesPerSecond(1e9);
  cluster.intra.regimes.clear();
  struct Collectives {
    std::int64_t broadcast, all_reduce_f, all_reduce_b;
    bool operator==(const Collectives&) const = default;
  };
  std::int64_t weights = 0;  // of T
  const auto of = [&](const char* schedule, const std::vector<int>& boundaries = {2}) {
    const ResolvedPlan r = planned(schedule, model_of(1024, false), boundaries);
    const std::size_t k = boundaries.size() + 1, last = 2 * k - 1;
    const Costs costs = builtin_costs(r.model, kTokens, Dtype::bf16, cluster);
    const CostTable table = cost_table(r, costs, cluster).table;
    weights = table.stages[last].w.count();
    return Collectives{table.forward_messages[k - 1].occupancy.count(),
                       table.forward_messages[last].occupancy.count(),
                       table.backward_messages[last].occupancy.count()};
  };
  EXPECT_EQ(of("vocab-1"), (Collectives{33768, 6768 + 35768, 18384}));
  EXPECT_EQ(of("vocab-2"), (Collectives{33768, 6768 + 35768 + 18384, 18384}));
  const Collectives within = of("interlaced");
  ASSERT_GT(weights, 0);
  EXPECT_EQ(within, (Collectives{17384, 6768 + 35768, std::max<std::int64_t>(0, 18384 - weights)}));
  // Of four ranks a broadcast has two more latencies, and an all-reduce by a ring is 6 alpha + 1.5
  // n: 30.576 and 19.384 us of the embedding, 30.576 of dx. 256 bytes are sooner by a tree, 4 alpha
  // + 2 n: three of 4.512.
  EXPECT_EQ(of("vocab-1", {1, 2, 3}), (Collectives{35768, 13536 + 49960, 30576}));
}

// What a divided vocabulary cannot be beside is refused by name.
TEST(DividedVocabulary, RefusesWhatItCannotBeWith) {
  Plan plan;
  plan.schedule = "vocab-1";
  plan.seq_length = kTokens;
  const auto reason = [&](const Model& model) {
    const auto misfit = cannot_divide(model, plan);
    return misfit ? misfit->key + ": " + misfit->reason : "";
  };
  Model model = model_of(1024, false);
  EXPECT_EQ(reason(model), "");
  plan.recompute.mode = RecomputeMode::stage;
  EXPECT_EQ(
      reason(model),
      "recompute: stage: expected layers, or none, with vocab-1, whose shards are stages that "
      "are not rebuilt");
  plan.recompute.mode = RecomputeMode::none;
  std::get<HeadShape>(model.layers.back().shape).pooled = true;
  EXPECT_EQ(reason(model), "schedule: vocab-1: the model has no head of tokens behind");
}

}  // namespace
}  // namespace weir::vocabulary_test
