// What a plan that trains adapters, or not all layers, holds, computes and sends, by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "costmodel/layers/kernels.hpp"
#include "costmodel/layers/layer_key.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "plan/job/stack_part.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::adapters_test {
namespace {

using testing::HasSubstr;

// An embedding of 1024 rows, two blocks and a head, h = 128, 4 heads of 32, f = 512, bf16: widths
// of which every tensor is a multiple of 64 bytes. A block has 12 h^2 + 13 h = 198,272 numbers.
constexpr std::int64_t kHidden = 128, kBlock = 12 * kHidden * kHidden + 13 * kHidden;
constexpr std::int64_t kTable = 1024 * kHidden;
struct Small {
  Plan plan;
  Model model;

  Small() {
    const TransformerShape block{
        .hidden = kHidden, .heads = 4, .kv_heads = 4, .head_dim = 32, .ffn = 512};
    model.layers = {{"embedding", EmbeddingShape{.vocabulary = 1024, .hidden = kHidden}, ""},
                    {"b0", block, ""},
                    {"b1", block, ""},
                    {"head", HeadShape{.vocabulary = 1024, .hidden = kHidden}, ""}};
    plan.seq_length = 64;
    plan.dtype = Dtype::bf16;
  }
  [[nodiscard]] ResolvedPlan resolved() {
    set_treatment(model, plan);
    return derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 1})));
  }
  [[nodiscard]] BytesByKind state() {
    const ResolvedPlan r = resolved();
    return StageMemory(r.plan, *r.part, r.stages[0], Allocator::arena).parameters();
  }
  [[nodiscard]] std::int64_t kept() {
    const ResolvedPlan r = resolved();
    const StageMemory memory(r.plan, *r.part, r.stages[0], Allocator::arena);
    return total_bytes(memory.of(ActionKind::F, false).net);
  }
};

// r = 8 beside all four products of a block: 8 (128 + 384) + 8 (128 + 128) + 8 (128 + 512) + 8 (512
// + 128) = 16,384 numbers. Weights are 2 bytes each, of adapters too; gradients of 4 and a master
// copy with two moments of 12 are of adapters alone.
TEST(Adapters, HaveAllOfTheStateButTheFrozenWeights) {
  Small small;
  small.plan.lora = {8, all_products(), 0};
  const BytesByKind state = small.state();
  const std::int64_t adapters = 2 * 16384, others = 2 * kBlock + 2 * kTable;
  EXPECT_EQ(state[MemoryKind::weights], 2 * (others + adapters));
  EXPECT_EQ(state[MemoryKind::gradients], 4 * adapters);
  EXPECT_EQ(state[MemoryKind::optimizer_state], 12 * adapters);
}

// The embedding and the first block frozen: gradients and state of the second block and the head.
TEST(Adapters, FrozenLayersHaveWeightsAlone) {
  Small small;
  small.plan.frozen = {{0, 2}};
  const BytesByKind state = small.state();
  const std::int64_t trained = kBlock + kTable;
  EXPECT_EQ(state[MemoryKind::weights], 2 * (2 * trained));
  EXPECT_EQ(state[MemoryKind::gradients], 4 * trained);
  EXPECT_EQ(state[MemoryKind::optimizer_state], 12 * trained);
}

// Of 64 tokens a block keeps 64 x 128 x 2 = 16 KiB for each of: both norms' outputs, the context,
// the MLP's input; three times as much of queries, keys and values, four times before and behind
// the activation; 4 heads x 64 x 64 x 2 = 32 KiB of probabilities; and statistics of 2 x 64 x 4 for
// each norm. Norms' outputs, context and activation are for weights' gradients alone: 7 of the 16
// KiB. Adapters of rank 8 beside qkv keep its input, and 64 x 8 x 2 = 1 KiB of what A makes.
TEST(Adapters, WhatOnlyFrozenWeightsReadIsNotKept) {
  const auto block = [](const Treatment& treated) {
    const Layer layer{
        "b",
        TransformerShape{.hidden = kHidden, .heads = 4, .kv_heads = 4, .head_dim = 32, .ffn = 512},
        "", treated};
    std::int64_t bytes = 0;
    for (const KeptTensor& kept : layer_tensors(layer, 64, Dtype::bf16).saved)
      bytes += kept.bytes_per_sample;
    return bytes;
  };
  const std::int64_t one = 16 << 10;
  const std::int64_t all = block({});
  EXPECT_EQ(all, (2 + 1 + 1 + 3 + 4 + 4) * one + (32 << 10) + 2 * 512);
  EXPECT_EQ(block({.frozen = true}), all - 7 * one);
  Adapters beside{8, {}, 0};
  beside.targets.add(BlockProduct::linear_qkv);
  EXPECT_EQ(block({.frozen = true, .adapters = beside}), all - 6 * one + 1024);
  // Its inputs dropped out: a copy of 2 bytes and a mask of 1.
  beside.dropout = 0.1;
  EXPECT_EQ(block({.frozen = true, .adapters = beside}), all - 7 * one + one * 3 / 2 + 1024);
  EXPECT_EQ(block({.frozen = true, .backward = false}), 0);
}

// What stands before the first layer that is trained keeps nothing, and has no backward.
TEST(Adapters, NothingFlowsBelowTheFirstThatIsTrained) {
  Small small;
  const std::int64_t all = small.kept();
  small.plan.frozen = {{0, 2}};
  const ResolvedPlan r = small.resolved();
  EXPECT_FALSE(r.model.layers[1].treated.backward);
  EXPECT_TRUE(r.model.layers[2].treated.backward);
  // The block's 15 times 16 KiB and 33, and its input.
  EXPECT_EQ(all - small.kept(), ((15 + 1) * 16 + 33) << 10);
  // A frozen layer behind it hands the gradient on.
  small.plan.frozen = {{2, 3}};
  EXPECT_TRUE(small.resolved().model.layers[2].treated.backward);
}

// A stack's rule names the product whose weights alone need a tensor; of the others nothing
// changes. 64 tokens x 128 x 2 bytes are 16 KiB, of the MLP's 512 numbers 64.
TEST(Adapters, AStackSaysWhatOnlyWeightsRead) {
  Stack stack{.own_tensors = false};
  stack.memory.block = {
      {.tensor = "norm", .width = Width::hidden, .weights_of = BlockProduct::linear_qkv},
      {.tensor = "input", .width = Width::hidden},
      {.tensor = "activation", .width = Width::ffn, .weights_of = BlockProduct::linear_fc2}};
  Small small;
  const auto kept = [&] {
    const ResolvedPlan r = small.resolved();
    const ModelPart part = stack_part(r.model, 64, Dtype::bf16, {}, stack);
    std::int64_t bytes = 0;
    for (const KeptTensor& tensor : part.layer(1).tensors.saved) bytes += tensor.bytes_per_sample;
    return bytes;
  };
  EXPECT_EQ(kept(), (16 + 16 + 64) << 10);
  small.plan.lora = {8, {}, 0};
  small.plan.lora.targets.add(BlockProduct::linear_fc2);
  // The adapter reads the activation, and keeps 1 KiB of its own.
  EXPECT_EQ(kept(), (16 + 64 + 1) << 10);
}

// s = 8, h = 16, 4 heads of 4, f = 64: a token's products are 2 (16 x 48 + 16 x 16 + 2 x 16 x 64) =
// 6144, of 8 tokens 49,152, and the core's 4 x 64 x 16 = 4096: 53,248. Adapters of rank 2 beside
// qkv are 2 (16 + 48) = 128 numbers, 2 x 8 x 128 = 2048 FLOPs a pass. I has the products and the
// core twice, W the adapters' alone.
TEST(Adapters, ModelFlopsAreThoseOfWhatIsTrained) {
  Layer layer{
      "b", TransformerShape{.hidden = 16, .heads = 4, .kv_heads = 4, .head_dim = 4, .ffn = 64}, ""};
  ASSERT_EQ(forward_flops(layer, 8).count(), 53248);
  Model model;
  model.layers = {layer};
  EXPECT_EQ(training_flops(model, 8).count(), 3 * 53248);
  Adapters beside{2, {}, 0};
  beside.targets.add(BlockProduct::linear_qkv);
  set_trained(model, beside, {});
  EXPECT_NEAR(training_flops(model, 8).count(), (53248 + 2048) + (49152 + 2 * 4096 + 2048) + 2048,
              1e-6);
  set_trained(model, {}, {{0, 1}});
  EXPECT_EQ(training_flops(model, 8).count(), 53248) << "nothing is trained: a forward";
  EXPECT_THAT(layer_key(model.layers[0], 8, Dtype::bf16), HasSubstr(" frozen forward tokens=8"));
}

// Hu et al., ICLR 2022, section 4.2: GPT-3 175B trains 25 % faster with LoRA (43.1 for 32.5 tokens
// a second and V100, 1.33), since no gradients of its weights are computed, and in 350 GB. Its
// blocks (h 12,288, 96 heads, 2048 tokens) rebuilt, as such memory needs: four passes of a forward
// each for F, R, I (and the core's once more). 96 blocks of 12 h^2 + 13 h at 2 bytes are 347.9 GB.
TEST(Adapters, TrainGpt3AsFastAndInAsMuchAsWasPublished) {
  Layer layer{"b",
              TransformerShape{
                  .hidden = 12288, .heads = 96, .kv_heads = 96, .head_dim = 128, .ffn = 4 * 12288},
              ""};
  layer.treated.frozen = true;
  layer.treated.adapters.rank = 4;
  layer.treated.adapters.targets = parse_products("linear_q+linear_v").value();
  const LayerShares shares = layer_shares(layer, 2048);
  const double rebuilt = shares.forward;
  EXPECT_NEAR(4 / (rebuilt + shares.forward + shares.input + shares.weights), 43.1 / 32.5, 0.01);
  Model model;
  model.layers.assign(96, layer);
  Plan plan;
  plan.seq_length = 2048;
  plan.dtype = Dtype::fp16;
  const ResolvedPlan r = derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 1})));
  const StageMemory memory(r.plan, *r.part, r.stages[0], Allocator::arena);
  EXPECT_NEAR(static_cast<double>(total_bytes(memory.parameters())), 350e9, 3e9);
}

// tp 4 at 1 byte a ns, s = 8, h = 16, bf16: what a layer reads is n = 256 bytes, and what A makes
// with r = 4 q = 64. Gathering or scattering sends 3/4, summing twice that. Beside qkv: 48 in F;
// q summed 96 and n summed 384 in I, scattered 192 with sequence parallelism. Beside the output: q
// summed 96 and n gathered 192 in F, q summed in I; with sequence parallelism n gathered there too.
TEST(Adapters, SendWhatTheirProductsDoNot) {
  Plan plan;
  plan.seq_length = 8;
  plan.dtype = Dtype::bf16;
  plan.tp = 4;
  const Link link{Seconds(0), BytesPerSecond(1e9)};
  Layer layer{
      "b", TransformerShape{.hidden = 16, .heads = 4, .kv_heads = 4, .head_dim = 4, .ffn = 64}, ""};
  const PerKind<Seconds> without = tensor_traffic(layer, plan, link);
  const auto more = [&](BlockProduct beside, ActionKind kind) {
    layer.treated.frozen = true;
    layer.treated.adapters = {4, {}, 0};
    layer.treated.adapters.targets.add(beside);
    const Layer plain{"b", layer.shape, ""};
    return (tensor_traffic(layer, plan, link)[kind] - tensor_traffic(plain, plan, link)[kind])
               .count() *
           1e9;
  };
  EXPECT_NEAR(more(BlockProduct::linear_qkv, ActionKind::F), 48, 1e-6);
  EXPECT_NEAR(more(BlockProduct::linear_qkv, ActionKind::I), 96 + 384, 1e-6);
  EXPECT_NEAR(more(BlockProduct::linear_proj, ActionKind::F), 96 + 192, 1e-6);
  EXPECT_NEAR(more(BlockProduct::linear_proj, ActionKind::B), 96, 1e-6);
  plan.sequence_parallel = true;
  EXPECT_NEAR(more(BlockProduct::linear_qkv, ActionKind::I), 96 + 192, 1e-6);
  EXPECT_NEAR(more(BlockProduct::linear_proj, ActionKind::I), 96 + 192, 1e-6);
  EXPECT_GT(without.f.count(), 0);
}

// Two replicas, 1000 numbers of which 100 are trained, 1 byte a ns: gradients of 4 bytes are
// summed, 400; ZeRO-1 scatters half and gathers half of 2 bytes each, ZeRO-3 gathers all weights,
// 1000, in F and in I.
TEST(Adapters, ReplicasExchangeWhatIsTrained) {
  Plan plan;
  plan.dtype = Dtype::bf16;
  plan.dp = 2;
  const Link link{Seconds(0), BytesPerSecond(1e9)};
  const HeldNumbers numbers{1000, 100, 0};
  const auto ns = [](Seconds time) { return time.count() * 1e9; };
  EXPECT_DOUBLE_EQ(ns(step_traffic(numbers, plan, link).reduce), 400);
  plan.zero = 1;
  EXPECT_DOUBLE_EQ(ns(step_traffic(numbers, plan, link).reduce), 200);
  EXPECT_DOUBLE_EQ(ns(step_traffic(numbers, plan, link).gather), 100);
  plan.zero = 3;
  EXPECT_DOUBLE_EQ(ns(replica_traffic(numbers, plan, link).f), 1000);
  EXPECT_DOUBLE_EQ(ns(replica_traffic(numbers, plan, link).w), 200);
}

}  // namespace
}  // namespace weir::adapters_test
