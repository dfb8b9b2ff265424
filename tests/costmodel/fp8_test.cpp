// A plan whose products are in 8 bits: what it holds, gathers and looks through, by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "costmodel/layers/kernels.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/builtin.hpp"
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

// 0.5 bytes a ns. Before its cast each product looks through what it reads: in F 64 x (128 + 128 +
// 128 + 512) numbers of 2 bytes, 229,376 ns; in I the outputs' gradients, 64 x (384 + 128 + 512 +
// 128), 294,912 ns.
TEST(Fp8, ScalesOfTheTensorItselfNeedAPass) {
  Device device;
  device.peak_fp32 = FlopsPerSecond(1e12);
  device.peak_fp8 = FlopsPerSecond(2e12);
  device.memory_bandwidth = BytesPerSecond(1e9);
  device.multiprocessors = 4;
  KernelModel& kernels = device.kernels.emplace();
  kernels.tile_rows = 2;
  kernels.tile_columns = 4;
  kernels.products.efficiency = kernels.bandwidth_efficiency = 0.5;
  const auto time = [&](Fp8Recipe recipe) {
    Layer layer = block();
    layer.treated.fp8 = recipe;
    return kernel_times(layer, 64, Dtype::bf16, {}, 1, device);
  };
  const LayerTime itself = time(Fp8Recipe::tensorwise), before = time(Fp8Recipe::delayed);
  EXPECT_NEAR((itself.f - before.f).count() * 1e9, 229'376, 1e-3);
  EXPECT_NEAR((itself.i - before.i).count() * 1e9, 294'912, 1e-3);
  EXPECT_EQ(itself.w, before.w);
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
