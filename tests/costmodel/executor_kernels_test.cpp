// The CUDA executor's launches by hand, for GPT-2 124M with a micro-batch of 8 x 1024 tokens in
// bf16: T = 8,192 rows, h = 768, f = 3,072, V = 50,257, 124,439,808 parameters.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/executor_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "costmodel/layers/layer_math.hpp"
#include "plan/model/decoder.hpp"
#include "plan/model/model.hpp"

namespace weir::executor_kernels_test {
namespace {

constexpr std::int64_t kRows = 8192, kHidden = 768, kVocabulary = 50257;

Model gpt2(double dropout, AttentionKind attention) {
  EmbeddingShape embedding{.vocabulary = kVocabulary, .hidden = kHidden, .positions = 1024};
  embedding.tied = true;
  TransformerShape block;
  block.hidden = kHidden;
  block.heads = block.kv_heads = 12;
  block.head_dim = 64;
  block.ffn = 3072;
  block.qkv_bias = block.output_bias = block.mlp_bias = true;
  block.activation = Activation::gelu_tanh;
  block.residual_dropout = dropout;
  block.attention = attention;
  Model model;
  model.name = "gpt2";
  model.layers.push_back({"embedding", embedding});
  for (int l = 0; l < 12; ++l) model.layers.push_back({"block", block});
  NormShape norm;
  norm.hidden = kHidden;
  model.layers.push_back({"norm", norm});
  HeadShape head;
  head.hidden = kHidden;
  head.vocabulary = kVocabulary;
  head.tied = true;
  model.layers.push_back({"head", head});
  return model;
}

const ExecutorStep kStep{.seq_length = 1024, .batch = 8, .dtype = Dtype::bf16};

const KernelWork& of(const std::vector<KernelWork>& all, const std::string& name,
                     const std::string& action) {
  for (const KernelWork& kernel : all) {
    if (kernel.name == name && kernel.action == action) return kernel;
  }
  ADD_FAILURE() << "no " << name << " in " << action;
  return all.front();
}

TEST(ExecutorKernels, BytesByHand) {
  const auto all = executor_kernels(gpt2(0, AttentionKind::fused), kStep);
  // Gradient, weight and two moments read, the last three written, in fp32; the working copy in 16
  // bits: 30 bytes a parameter.
  EXPECT_EQ(of(all, "adamw_kernel", "OPTIMIZER").bytes, Bytes(30 * 124'439'808LL));
  // Logits read and written once, rows padded to 50,264.
  EXPECT_EQ(of(all, "held_cross_entropy_kernel", "F").bytes,
            Bytes(2 * kRows * 50264 * 2 + kRows * 12));
  // x W' + b with its residual: rows of 768 read twice and written, a weight of 768 x 768.
  const KernelWork& output = of(all, "product: attention output", "F");
  EXPECT_EQ(output.calls, 12);
  EXPECT_EQ(output.bytes, Bytes((3 * kRows * kHidden + kHidden * kHidden) * 2));
  EXPECT_EQ(output.flops, Flops(2.0 * kRows * kHidden * kHidden));
  // Two norms a block and one behind them, rows read and written.
  EXPECT_EQ(of(all, "layer_norm_kernel", "F").calls, 24);
  EXPECT_EQ(of(all, "layer_norm_kernel", "F").bytes,
            Bytes(2 * kRows * kHidden * 2 + 2 * kHidden * 2 + 2 * kRows * 4));
}

// Llama's block of 32 heads of 64 on 8 of keys, h = 2,048, f = 8,192: T = 8,192 rows of bf16.
TEST(ExecutorKernels, BytesOfALlamaByHand) {
  TransformerShape block{.hidden = 2048, .heads = 32, .kv_heads = 8, .head_dim = 64, .ffn = 8192};
  block.norm = NormKind::rms_norm;
  block.activation = Activation::silu;
  block.gated = block.rotary = true;
  block.qkv_bias = block.output_bias = block.mlp_bias = false;
  block.attention = AttentionKind::fused;
  Model model;
  model.layers.push_back({"block", block});
  const auto all = executor_kernels(model, kStep);
  // Rows read and written, one gain, two statistics a row.
  EXPECT_EQ(of(all, "rms_norm_kernel", "F").bytes, Bytes((2 * kRows + 1) * 2048 * 2 + kRows * 8));
  EXPECT_EQ(of(all, "product: qkv", "F").flops, Flops(2.0 * kRows * 2048 * (32 + 2 * 8) * 64));
  // 40 heads read and written in place, there and back; a table of 1,024 positions.
  for (const char* action : {"F", "B"}) {
    EXPECT_EQ(of(all, "turn_heads_kernel", action).bytes,
              Bytes(2 * kRows * 40 * 64 * 2 + 1024 * 64 * 4));
  }
  // Two halves become one number; backwards one gradient and two halves become two.
  EXPECT_EQ(of(all, "gate_kernel", "F").bytes, Bytes(3 * kRows * 8192 * 2));
  EXPECT_EQ(of(all, "gate_gradient_kernel", "B").bytes, Bytes(5 * kRows * 8192 * 2));
  // Without biases nothing is summed over rows but the gains' partial sums, of 32 rows each.
  EXPECT_EQ(of(all, "rms_norm_gradient_kernel", "B").bytes,
            Bytes((4 * kRows + 1) * 2048 * 2 + kRows * 8 + kRows / 32 * 2048 * 4));
  EXPECT_EQ(of(all, "accumulate_kernel", "B").bytes, Bytes(2 * 2 * 2048 * 4));
  EXPECT_EQ(of(all, "product: down weight", "B").bytes,
            Bytes(kRows * (2048 + 8192) * 2 + 2048 * 8192 * 4));
  for (const KernelWork& kernel : all) EXPECT_NE(kernel.name, "column_partials_kernel");
}

// A row is held where it fits the 99 KB of shared memory that a block can have: 50,688 logits of
// two bytes, not one more, and 25,344 of four.
TEST(ExecutorKernels, RowsOfLogitsAreHeldUpToWhatABlockCanHave) {
  const auto held = [](std::int64_t vocabulary, Dtype dtype) {
    Model model = gpt2(0, AttentionKind::unfused);
    std::get<EmbeddingShape>(model.layers.front().shape).vocabulary = vocabulary;
    std::get<HeadShape>(model.layers.back().shape).vocabulary = vocabulary;
    ExecutorStep step = kStep;
    step.dtype = dtype;
    const auto all = executor_kernels(model, step);
    return std::ranges::any_of(
        all, [](const KernelWork& kernel) { return kernel.name == "held_cross_entropy_kernel"; });
  };
  EXPECT_TRUE(held(50'688, Dtype::bf16));
  EXPECT_FALSE(held(50'689, Dtype::bf16));
  EXPECT_TRUE(held(25'344, Dtype::fp32));
  EXPECT_FALSE(held(25'348, Dtype::fp32));
}

// Three times the forward's products, and the cores as they are executed: no product is missing and
// none is counted twice. In 16 bits the head's three also make the 7 columns that pad 50,257.
TEST(ExecutorKernels, ProductsAreTheLayers) {
  for (const AttentionKind attention : {AttentionKind::fused, AttentionKind::unfused}) {
    const Model model = gpt2(0.1, attention);
    double found = 0, expected = 3.0 * 2 * static_cast<double>(kStep.seq_length) * kHidden * 7;
    for (const KernelWork& kernel : executor_kernels(model, kStep))
      found += kernel.flops.count() * static_cast<double>(kernel.calls);
    for (const Layer& layer : model.layers) {
      const auto* block = std::get_if<TransformerShape>(&layer.shape);
      const double forward = executed_flops(layer, kStep.seq_length).count();
      expected += 3 * forward;
      if (block == nullptr) continue;
      const CoreFlops core = core_flops(*block, kStep.seq_length);
      expected += core.backward.count() - 2 * core.forward.count();
    }
    EXPECT_NEAR(found / (expected * static_cast<double>(kStep.batch)), 1, 1e-12);
  }
}

// 2.4 GB at 2 TB/s are 1.2 ms, 1.2 TFLOP at 600 TFLOP/s 2 ms.
TEST(ExecutorKernels, TheLongerOfTheTwoIsTheLeastTime) {
  Device device;
  device.memory_bandwidth = BytesPerSecond(2e12);
  device.peak_bf16 = FlopsPerSecond(6e14);
  KernelWork kernel;
  kernel.bytes = Bytes(2'400'000'000);
  EXPECT_DOUBLE_EQ(least_time(kernel, device, Dtype::bf16).count(), 1.2e-3);
  kernel.flops = Flops(1.2e12);
  EXPECT_DOUBLE_EQ(least_time(kernel, device, Dtype::bf16).count(), 2e-3);
}

}  // namespace
}  // namespace weir::executor_kernels_test
