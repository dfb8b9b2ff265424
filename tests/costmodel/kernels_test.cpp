// Quantisation by hand on a device of 4 multiprocessors with tiles of 2 x 4, and a layer held
// against a published one.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/kernels.hpp"

#include <gtest/gtest.h>

#include "costmodel/links/parallel.hpp"

namespace weir {
namespace {

// 1 TFLOP/s at half efficiency, 1 GB/s at half, floor 100 ns, launch 300 ns.
Device small() {
  Device device;
  device.peak_fp32 = FlopsPerSecond(1e12);
  device.memory_bandwidth = BytesPerSecond(1e9);
  device.multiprocessors = 4;
  device.kernels = KernelModel{2, 4, 0.5, 0.5, Seconds(100e-9), Seconds(300e-9)};
  return device;
}
double ns(Seconds time) { return time.count() * 1e9; }

// m = 4, n = 8: 2 x 2 tiles are one wave of 2 x 2 x 4 x k FLOPs a multiprocessor. With k = 100'000,
// 4 of them at 5e11 a second take 12.8 us; one row more begins a second wave, as long. The bytes
// would take less at a thousand GB/s.
TEST(Kernels, TilesAndWaves) {
  Device device = small();
  device.memory_bandwidth = BytesPerSecond(1e15);
  EXPECT_DOUBLE_EQ(ns(matmul_time({4, 8, 100'000}, device, Dtype::fp32)), 12'800);
  EXPECT_DOUBLE_EQ(ns(matmul_time({3, 5, 100'000}, device, Dtype::fp32)), 12'800);
  EXPECT_DOUBLE_EQ(ns(matmul_time({5, 8, 100'000}, device, Dtype::fp32)), 25'600);
  EXPECT_DOUBLE_EQ(ns(matmul_time({4, 8, 100'000, 3}, device, Dtype::fp32)), 3 * 12'800);
}

// 4 x 4 numbers three times over are 192 bytes, 384 ns at 0.5 GB/s, while the products take 1 ns;
// 20 bytes are less than the floor.
TEST(Kernels, BytesAndTheFloor) {
  EXPECT_DOUBLE_EQ(ns(matmul_time({4, 4, 4}, small(), Dtype::fp32)), 384);
  EXPECT_DOUBLE_EQ(ns(stream_time(Bytes(20), small())), 100);
  EXPECT_DOUBLE_EQ(ns(stream_time(Bytes(1000), small())), 2000);
}

// Two kernels of 100 ns wait for the host's two launches of 300; one of 2000 ns does not.
TEST(Kernels, LaunchesBoundSmallKernels) {
  const Device device = small();
  EXPECT_DOUBLE_EQ(ns(KernelSum(device, Dtype::fp32).stream(5).stream(5).time()), 600);
  EXPECT_DOUBLE_EQ(ns(KernelSum(device, Dtype::fp32).stream(5).stream(250).time()), 2100);
}

// A norm reads and writes 2 rows of 3 tokens and 8 numbers, 192 bytes each way: 384 + 384 ns in F,
// and half as much again in I; it has no products, so W is nothing.
TEST(Kernels, ANormIsItsBytes) {
  const LayerTime time =
      kernel_times({"n", NormShape{.hidden = 8}, ""}, 3, Dtype::fp32, {}, 2, small());
  EXPECT_DOUBLE_EQ(ns(time.f), 768);
  EXPECT_DOUBLE_EQ(ns(time.i), 1152);
  EXPECT_EQ(time.w, Seconds(0));
  EXPECT_EQ(time.b, time.i);
}

// 4 rows are two tiles, one wave; 8 keys are two tiles of 4. A tile of 2 x 4 x d = 100'000 takes
// 1.6e6 FLOPs a product, so F's two products on 4 multiprocessors, two tiles of keys each, are 4 x
// 2 x 2 x 1.6e6 = 25.6e6 at 5e11 a second: 51.2 us. A causal mask leaves three tiles of four; the
// backward has five products instead of two. Three heads are six tiles of rows, two waves.
TEST(Kernels, AFusedCoreSkipsWhatIsMasked) {
  Device device = small();
  device.memory_bandwidth = BytesPerSecond(1e15);
  FusedCore core{
      .rows = 4, .keys = 8, .d = 100'000, .heads = 1, .causal = false, .products = 2, .moved = 1};
  EXPECT_DOUBLE_EQ(ns(fused_core_time(core, device, Dtype::fp32)), 51'200);
  core.causal = true;
  EXPECT_DOUBLE_EQ(ns(fused_core_time(core, device, Dtype::fp32)), 38'400);
  core.products = 5;
  EXPECT_DOUBLE_EQ(ns(fused_core_time(core, device, Dtype::fp32)), 96'000);
  core.heads = 3;
  EXPECT_DOUBLE_EQ(ns(fused_core_time(core, device, Dtype::fp32)), 192'000);
}

// A block on a device where only bytes count: fused attention moves no scores. Of F go two products
// and the softmax, and one kernel comes that reads queries, keys and values and writes the context.
TEST(Kernels, AFusedBlockMovesNoScores) {
  Device device = small();
  device.peak_fp32 = FlopsPerSecond(1e18);
  device.kernels->floor = device.kernels->launch = Seconds(0);
  TransformerShape block{.hidden = 8, .heads = 4, .kv_heads = 4, .head_dim = 2, .ffn = 16};
  const auto time = [&] { return kernel_times({"b", block, ""}, 4, Dtype::fp32, {}, 2, device); };
  const LayerTime unfused = time();
  block.attention = AttentionKind::fused;
  const LayerTime fused = time();
  // Numbers of 4 bytes at 0.5 GB/s: 8 ns each. q, k, v and the context have 2 x 4 x 8 = 64 numbers
  // each, scores 128.
  const double products =
      64 + 64 + 128;  // read, read, written; or of scores and values: read, read, written
  EXPECT_NEAR(ns(unfused.f - fused.f), 8 * (2 * products + 2 * 128 - 4 * 64), 1e-6);
  // I: four products and 3 x 128 for the softmax; fused 2 x 64 for the row sums and 8 x 64 of the
  // one kernel.
  EXPECT_NEAR(ns(unfused.i - fused.i), 8 * (4 * products + 3 * 128 - 2 * 64 - 8 * 64), 1e-6);
  EXPECT_EQ(unfused.w, fused.w);
  EXPECT_NEAR(ns(fused.core), 8 * 4 * 64, 1e-6);
}

// Korthikanti et al. 2022, table 4: one layer of their 22B model (s 2048, h 6144, 64 heads,
// micro-batch 4) on 8 A100 takes 7.7 ms forward and 11.9 backward, 13.2 with selective
// re-materialisation; with sequence parallelism 7.2 and 11.8. The efficiencies of dgx-a100.json are
// fitted to the first two; all five come within 8 %.
TEST(Kernels, ALayerOfKorthikantis) {
  const Cluster cluster = load_cluster(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-a100.json");
  const Layer layer{
      "b",
      TransformerShape{
          .hidden = 6144, .heads = 64, .kv_heads = 64, .head_dim = 96, .ffn = 4 * 6144},
      ""};
  Plan plan;
  plan.seq_length = 2048;
  plan.micro_batch_size = 4;
  plan.dtype = Dtype::fp16;
  plan.tp = 8;
  const auto of = [&](bool sequence) {
    plan.sequence_parallel = sequence;
    LayerTime time = kernel_times(layer, 2048, Dtype::fp16, plan.split(), 4, cluster.device);
    const PerKind<Seconds> traffic = tensor_traffic(layer, plan, cluster.intra);
    time += traffic;
    return time;
  };
  const LayerTime tensor = of(false), sequence = of(true);
  EXPECT_NEAR(tensor.f.count() / 7.7e-3, 1, 0.08);
  EXPECT_NEAR(tensor.b.count() / 11.9e-3, 1, 0.08);
  EXPECT_NEAR((tensor.b + tensor.core).count() / 13.2e-3, 1, 0.08);
  EXPECT_NEAR(sequence.f.count() / 7.2e-3, 1, 0.08);
  EXPECT_NEAR(sequence.b.count() / 11.8e-3, 1, 0.08);
}

}  // namespace
}  // namespace weir
