// A plan whose products are in 8 bits: what it holds, gathers and looks through, by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "costmodel/layers/fp8_casts.hpp"
#include "costmodel/layers/kernels.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/layer_prices.hpp"
#include "plan/job/stack_part.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"

namespace weir::fp8_test {
namespace {

Layer block() {
  return {"b",
          TransformerShape{.hidden = 128, .heads = 4, .kv_heads = 4, .head_dim = 32, .ffn = 512},
          ""};
}

// A block of h = 128: matrices of 12 h^2 = 196,608 numbers, biases and norms of 13 h. Two copies of
// the matrices in 8 bits are 2 bytes a number beside the 2 of bf16, or all there is; with a scale
// of 8 bits for 32 numbers MXFP8's are 1/32 more. Gradients and state are as they were.
TEST(Fp8, MatricesHaveCopiesInEightBits) {
  Plan plan;
  plan.seq_length = 64;
  plan.dtype = Dtype::bf16;
  Model model;
  model.layers = {block()};
  Stack stack{.own_tensors = false};
  stack.memory.fp8_weights = 2;
  const auto held = [&](Fp8Recipe recipe, bool alone, MemoryKind kind) {
    plan.fp8 = recipe;
    plan.fp8_parameters = alone;
    set_treatment(model, plan);
    const ResolvedPlan r =
        derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 1})));
    return StageMemory(r.plan, *r.part, r.stages[0], Allocator::arena, stack).parameters()[kind];
  };
  const std::int64_t matrices = 12 * 128 * 128, others = 13 * 128;
  const MemoryKind weights = MemoryKind::weights;
  EXPECT_EQ(held(Fp8Recipe::none, false, weights), 2 * (matrices + others));
  EXPECT_EQ(held(Fp8Recipe::delayed, false, weights), 2 * (matrices + others) + 2 * matrices);
  EXPECT_EQ(held(Fp8Recipe::delayed, true, weights), 2 * others + 2 * matrices);
  EXPECT_EQ(held(Fp8Recipe::mxfp8, true, weights), 2 * others + 2 * matrices * 33 / 32);
  EXPECT_EQ(held(Fp8Recipe::delayed, true, MemoryKind::optimizer_state),
            held(Fp8Recipe::none, false, MemoryKind::optimizer_state));
}

// Of 64 tokens x 128 numbers a rule's 2 bytes are 16 KiB, its 1 byte in 8 bits 8 KiB, and with a
// scale for 32 or 128 numbers a 32nd of a byte more. Of frozen weights nothing is cast to be kept.
TEST(Fp8, WhatIsKeptForWeightsIsAByte) {
  Stack stack{.own_tensors = false};
  stack.memory.block = {{.tensor = "input", .width = Width::hidden, .bytes = 2, .fp8 = 1}};
  const auto kept = [&](const Treatment& treated) {
    Model model;
    model.layers = {block()};
    model.layers[0].treated = treated;
    return stack_part(model, 64, Dtype::bf16, {}, stack).layer(0).tensors.saved[0].bytes_per_sample;
  };
  EXPECT_EQ(kept({}), 16 << 10);
  EXPECT_EQ(kept({.fp8 = Fp8Recipe::delayed}), 8 << 10);
  EXPECT_EQ(kept({.fp8 = Fp8Recipe::mxfp8}), (8 << 10) + 256);
  EXPECT_EQ(kept({.frozen = true, .fp8 = Fp8Recipe::delayed}), 16 << 10);
}

// Two replicas, 1000 numbers of which 600 are products', 1 byte a ns: of 2000 bytes ZeRO-1 gathers
// half, of 1400 with weights in 8 bits alone. MXFP8 is gathered before it is cast.
TEST(Fp8, ProductsAreGatheredInEightBits) {
  Plan plan;
  plan.dtype = Dtype::bf16;
  plan.dp = 2;
  plan.zero = 1;
  plan.fp8 = Fp8Recipe::delayed;
  const Link link{Seconds(0), BytesPerSecond(1e9)};
  const auto gather = [&] {
    return step_traffic({1000, 1000, 600}, plan, link).gather.count() * 1e9;
  };
  EXPECT_DOUBLE_EQ(gather(), 1000);
  plan.fp8_parameters = true;
  EXPECT_DOUBLE_EQ(gather(), 700);
  plan.fp8 = Fp8Recipe::mxfp8;
  EXPECT_DOUBLE_EQ(gather(), 1000);
}

// Bytes beside a product of 16 bits, a number: read 2 and written 1 for each of two copies, a scale
// being 1/32 of a byte; 2 more where the largest number is looked for first. A norm writes 8 bits
// itself (1 less) where scales are known before, and its columns are turned (1 + 1); it finds the
// largest number on its way. Weights that are kept in 8 bits are turned, MXFP8's cast.
TEST(Fp8, CastsAreCountedByRecipe) {
  Device hopper, blackwell;
  blackwell.fp8_any_layout = true;
  const auto bytes = [](Fp8Recipe recipe, CastOf from, const Device& device) {
    const Fp8Casts casts = fp8_casts(recipe, device);
    return cast_bytes(casts, from, casts.copies);
  };
  using enum Fp8Recipe;
  const CastOf norm = CastOf::norm, other = CastOf::other;
  EXPECT_EQ(bytes(delayed, other, hopper), 4);
  EXPECT_EQ(bytes(delayed, norm, hopper), 1);
  EXPECT_EQ(bytes(delayed, other, blackwell), 3);
  EXPECT_EQ(bytes(delayed, norm, blackwell), 0);
  EXPECT_EQ(bytes(tensorwise, other, hopper), 6);
  EXPECT_EQ(bytes(tensorwise, norm, blackwell), 3);
  EXPECT_EQ(bytes(blockwise, norm, hopper), 4 + 2.0 / 32);
  EXPECT_EQ(bytes(mxfp8, other, blackwell), 4 + 2.0 / 32);
  EXPECT_EQ(bytes(none, other, hopper), 0);
  const auto weight = [](Fp8Recipe recipe, bool kept, const Device& device) {
    return weight_cast_bytes(fp8_casts(recipe, device), kept);
  };
  EXPECT_EQ(weight(delayed, false, hopper), 4);
  EXPECT_EQ(weight(delayed, true, hopper), 2);
  EXPECT_EQ(weight(delayed, true, blackwell), 0);
  EXPECT_EQ(weight(mxfp8, true, blackwell), 4 + 2.0 / 32);
  EXPECT_EQ(weight(none, false, hopper), 0);
}

// 0.5 bytes a ns.
Device slow_memory() {
  Device device;
  device.peak_fp32 = FlopsPerSecond(1e12);
  device.peak_fp8 = FlopsPerSecond(2e12);
  device.memory_bandwidth = BytesPerSecond(1e9);
  device.multiprocessors = 4;
  KernelModel& kernels = device.kernels.emplace();
  kernels.tile_rows = 2;
  kernels.tile_columns = 4;
  kernels.products.efficiency = kernels.bandwidth_efficiency = 0.5;
  return device;
}

LayerTime block_time(Fp8Recipe recipe, const Device& device, const Split& split = {}) {
  Layer layer = block();
  layer.treated.fp8 = recipe;
  return kernel_times(layer, 64, Dtype::bf16, split, 1, device);
}

// Of 64 tokens products read in F 2 x 8192 numbers behind norms and 8192 + 32,768 others, in I
// gradients of 64 x (384 + 128 + 512 + 128) = 73,728. With two copies scales of the tensor itself
// cost 3 bytes more behind a norm and 2 elsewhere: 131,072 bytes in F, 147,456 in I, each 2 ns; one
// copy costs 1 less of each: 57,344 and 73,728.
TEST(Fp8, WhatProductsReadIsCastFirst) {
  const Device two = slow_memory();
  Device one = two;
  one.fp8_any_layout = true;
  const LayerTime before = block_time(Fp8Recipe::delayed, two);
  const auto beside = [&](const LayerTime& time) {
    return std::pair{std::round((time.f - before.f).count() * 1e9),
                     std::round((time.i - before.i).count() * 1e9)};
  };
  EXPECT_EQ(beside(block_time(Fp8Recipe::tensorwise, two)), std::pair(262'144., 294'912.));
  EXPECT_EQ(beside(block_time(Fp8Recipe::delayed, one)), std::pair(-114'688., -147'456.));
  EXPECT_EQ(block_time(Fp8Recipe::tensorwise, two).w, before.w);
}

// Two devices with sequence parallelism: each casts its half of what is gathered, by rows, and
// turns all of it for W, 2 bytes of 4 x 8192 numbers (inputs of queries and of the MLP, gradients
// of what both give). Scales of rows and columns are cast for both at once: of F's 8192 numbers
// behind norms that it holds 4 1/16 bytes for none, of its 4096 + 16,384 others 1/16 more. Columns
// of blocks of 128 are put in order where they were gathered, 2 bytes of as many numbers.
TEST(Fp8, GatheredFactorsAreTurnedOnEachDevice) {
  const Device device = slow_memory();
  const Split split{.tp = 2, .sequence_parallel = true};
  const LayerTime turned = block_time(Fp8Recipe::delayed, device, split),
                  both = block_time(Fp8Recipe::mxfp8, device, split),
                  blocks = block_time(Fp8Recipe::blockwise, device, split);
  EXPECT_NEAR((turned.w - both.w).count() * 1e9, 2 * 2 * 4 * 8192, 1e-3);
  EXPECT_NEAR((both.f - turned.f).count() * 1e9, 2 * (8192 * 4.0625 + 20'480 * 0.0625), 1e-3);
  EXPECT_EQ(blocks.f, both.f);
  EXPECT_EQ(blocks.i, both.i);
  EXPECT_NEAR((blocks.w - both.w).count() * 1e9, 2 * 2 * 4 * 8192, 1e-3);
}

// Of 512 bytes among 4 at 1 byte a ns an all-gather is 384 ns, of 256 192, of 264 198, of 528 396;
// sums stay 384. A block gathers twice in F and twice in I; frozen, gradients by rows alone.
TEST(Fp8, WhatProductsReadIsGatheredInEightBits) {
  Layer layer{
      "b", TransformerShape{.hidden = 16, .heads = 4, .kv_heads = 4, .head_dim = 4, .ffn = 64}, ""};
  Plan plan;
  plan.seq_length = 16;
  plan.dtype = Dtype::bf16;
  plan.tp = 4;
  plan.sequence_parallel = true;
  const Link link{Seconds(0), BytesPerSecond(1e9)};
  const auto ns = [&](Fp8Recipe recipe) {
    const PerKind<Seconds> t = tensor_traffic(layer, plan, link, {}, WeightGathers::hidden, recipe);
    return std::pair{std::round(t.f.count() * 1e9), std::round(t.i.count() * 1e9)};
  };
  EXPECT_EQ(ns(Fp8Recipe::none), std::pair(2 * 768., 2 * 768.));
  EXPECT_EQ(ns(Fp8Recipe::delayed), std::pair(2 * (192. + 384), 2 * (192. + 384)));
  EXPECT_EQ(ns(Fp8Recipe::mxfp8), std::pair(2 * (198. + 384), 2 * (396. + 384)));
  layer.treated.frozen = true;
  EXPECT_EQ(ns(Fp8Recipe::mxfp8), std::pair(2 * (198. + 384), 2 * (198. + 384)));
}

// 32 tokens of 8 numbers of 16 bits are 512 bytes, of which two devices gather or scatter 256 ns;
// attention reads 264 bytes with their scales, 132 ns, and 528 of gradients, 264 ns. What goes to
// four experts, two a token, is gathered before it is cast: 512 bytes, or behind an exchange among
// two replicas those of both visits, 1024. A stack that gathers again does what F did.
TEST(Fp8, WhatGoesToExpertsIsGatheredIn16Bits) {
  TransformerShape shape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 16};
  shape.experts = 4;
  shape.experts_per_token = 2;
  const Layer layer{"b", shape, ""};
  Plan plan;
  plan.seq_length = 32;
  plan.dtype = Dtype::bf16;
  plan.tp = plan.dp = 2;
  plan.sequence_parallel = true;
  const Link link{Seconds(0), BytesPerSecond(1e9)};
  const auto ns = [&](Fp8Recipe recipe, int ep, bool regathers) {
    plan.ep = ep;
    const StackTime stack{.regathers = regathers};
    const auto t = tensor_traffic(layer, plan, link, stack, WeightGathers::hidden, recipe);
    return std::pair{std::round(t.f.count() * 1e9), std::round(t.i.count() * 1e9)};
  };
  using enum Fp8Recipe;
  EXPECT_EQ(ns(none, 1, false), std::pair(4 * 256., 4 * 256.));
  EXPECT_EQ(ns(delayed, 1, false), std::pair(128 + 3 * 256., 128 + 3 * 256.));
  EXPECT_EQ(ns(mxfp8, 1, false), std::pair(132 + 3 * 256., 264 + 3 * 256.));
  EXPECT_EQ(ns(mxfp8, 1, true).second, 264 + 3 * 256 + 132 + 256);
  EXPECT_EQ(ns(mxfp8, 2, false), std::pair(132 + 256 + 2 * 512., 264 + 256 + 2 * 512.));
  EXPECT_EQ(ns(mxfp8, 2, true).second, 264 + 256 + 2 * 512 + 132 + 512);
}

// Latents are cast behind their own norms, and gathered as what they are cast to; queries that are
// made at once are of no product with a norm. Of 64 tokens products read in F 128 numbers each for
// narrow queries (or queries), narrow keys and what attention gives, and 512 of the MLP's: 896,
// each 2 bytes more with scales of the tensor itself. Behind norms they read 64 + 32 latents (32)
// and 128 of the MLP, 3 bytes more each: 2464 (2272) bytes a token, each 2 ns.
TEST(Fp8, LatentsAreCastBehindTheirNorms) {
  const auto latent = [](std::int64_t query) {
    Layer layer = block();
    auto& b = std::get<TransformerShape>(layer.shape);
    b.latent = {.query = query, .key_value = 32, .rotary = 16, .value = 32};
    return layer;
  };
  const auto forward = [](Layer layer, Fp8Recipe recipe) {
    layer.treated.fp8 = recipe;
    return kernel_times(layer, 64, Dtype::bf16, {}, 1, slow_memory()).f.count() * 1e9;
  };
  using enum Fp8Recipe;
  EXPECT_NEAR(forward(latent(64), tensorwise) - forward(latent(64), delayed), 2464 * 64 * 2, 1e-3);
  EXPECT_NEAR(forward(latent(0), tensorwise) - forward(latent(0), delayed), 2272 * 64 * 2, 1e-3);
  Plan plan;
  plan.seq_length = 64;
  plan.dtype = Dtype::bf16;
  plan.tp = 2;
  plan.sequence_parallel = true;
  const Link link{Seconds(0), BytesPerSecond(1e9)};
  const auto sent = [&](const Layer& layer) {
    return tensor_traffic(layer, plan, link, {}, WeightGathers::hidden, delayed);
  };
  EXPECT_EQ(sent(latent(64)).f, sent(block()).f);
  EXPECT_EQ(sent(latent(64)).i, sent(block()).i);
}

// What a stack has in steps where products are in 16 bits may be one kernel where they are in 8:
// norms of 2 x 8192 numbers that move 36 bytes and not 4, and 3 more of each of 8192 queries.
TEST(Fp8, StepsMayBeOfProductsIn16BitsAlone) {
  Stack stack{.own_tensors = false};
  stack.time.norm = {.forward = 36, .backward = 92};
  stack.time.block = {{.what = "rotated", .width = Width::query, .forward = 3}};
  const auto forward = [&](bool with_fp8) {
    stack.time.norm.with_fp8 = stack.time.block[0].with_fp8 = with_fp8;
    Layer layer = block();
    std::get<TransformerShape>(layer.shape).norm = NormKind::rms_norm;
    layer.treated.fp8 = Fp8Recipe::delayed;
    return kernel_times(layer, 64, Dtype::bf16, {}, 1, slow_memory(), stack).f.count() * 1e9;
  };
  EXPECT_NEAR(forward(true) - forward(false), 2 * (2 * 8192 * 32 + 8192 * 3), 1e-3);
}

// Weights are cast once a step and not once a micro-batch, trained or frozen: a block's 196,608
// numbers, 4 bytes each with scales from before and 2 more with those of the tensor itself, each 2
// ns. Where nothing before them is trained there is one copy, 1 less. Passes have none of it.
TEST(Fp8, WeightsAreCastOnceAStep) {
  Cluster cluster;
  cluster.device = slow_memory();
  Plan plan;
  plan.seq_length = 64;
  plan.dtype = Dtype::bf16;
  const auto priced = [&](Fp8Recipe recipe, int microbatches, bool frozen, bool backward = true) {
    plan.microbatches = microbatches;
    Model model;
    model.layers = {block()};
    model.layers[0].treated = {.frozen = frozen, .backward = backward, .fp8 = recipe};
    const Costs costs = builtin_costs(model, 64, Dtype::bf16, cluster);
    const LayerCosts known(plan, model, costs);
    return LayerPrices(plan, known, cluster).of(0);
  };
  using enum Fp8Recipe;
  const auto update_ns = [&](auto... of) {
    return std::round(priced(of...).time.optimizer.count() * 1e9);
  };
  for (const int microbatches : {1, 8}) {
    const double none_cast = update_ns(none, microbatches, false);
    EXPECT_EQ(update_ns(delayed, microbatches, false) - none_cast, 196'608 * 4 * 2);
    EXPECT_EQ(update_ns(tensorwise, microbatches, false) - none_cast, 196'608 * 6 * 2);
    EXPECT_EQ(update_ns(delayed, microbatches, true), 196'608 * 4 * 2);
    EXPECT_EQ(update_ns(delayed, microbatches, true, false), 196'608 * 3 * 2);
  }
  EXPECT_EQ(priced(delayed, 8, false).time.f, block_time(delayed, slow_memory()).f);
}

// A stack that multiplies in 8 bits does so in 16 on a device without such units: nothing is cast,
// and what it has in steps beside products in 16 bits is there.
TEST(Fp8, AStackWithoutADeviceForItMultipliesIn16Bits) {
  Device none = slow_memory();
  none.peak_fp8 = FlopsPerSecond(0);
  Stack in_16{.own_tensors = false};
  in_16.time.norm = {.forward = 36, .backward = 92, .with_fp8 = false};
  Stack in_8 = in_16;
  in_8.fp8 = true;
  EXPECT_EQ(products_recipe(block(), in_8, none), Fp8Recipe::none);
  EXPECT_EQ(products_recipe(block(), in_8, slow_memory()), Fp8Recipe::delayed);
  const auto time = [](const Stack& stack, const Device& device) {
    return kernel_times(block(), 64, Dtype::bf16, {}, 1, device, stack);
  };
  EXPECT_EQ(time(in_8, none).f, time(in_16, none).f);
  EXPECT_EQ(time(in_8, none).i, time(in_16, none).i);
  EXPECT_NE(time(in_8, slow_memory()).f, time(in_16, slow_memory()).f);
}

// A device without such units is refused by the key that it lacks.
TEST(Fp8, NeedsADeviceThatHasIt) {
  Cluster cluster;
  cluster.name = "old";
  cluster.device.peak_bf16 = FlopsPerSecond(1e12);
  cluster.device.memory_bandwidth = BytesPerSecond(1e9);
  Model model;
  model.layers = {block()};
  EXPECT_NO_THROW(static_cast<void>(builtin_costs(model, 64, Dtype::bf16, cluster, {})));
  set_fp8(model, Fp8Recipe::delayed);
  try {
    static_cast<void>(builtin_costs(model, 64, Dtype::bf16, cluster, {}));
    ADD_FAILURE() << "it has none";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "old: device.peak_fp8_tflops: is missing: b's products are in 8 "
                 "bits (fp8 = delayed)");
  }
}

}  // namespace
}  // namespace weir::fp8_test
