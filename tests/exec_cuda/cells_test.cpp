// Convolutions, and cells made of every operation, against their definitions in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "exec/cuda/cells/convolution.hpp"
#include "exec/cuda/cuda_backend.hpp"
#include "plan/model/cnn/cell_builder.hpp"
#include "plan/model/cnn/network.hpp"
#include "tests/exec/cell_reference.hpp"
#include "tests/exec/cell_stage.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::cells_test {
namespace {

struct Case {
  const char* what;
  FeatureMap input;
  CellOperation operation;
};

CellOperation operation(FeatureMap output, std::int64_t side, std::int64_t stride, std::int64_t pad,
                        std::int64_t groups = 1, bool bias = false) {
  CellOperation o;
  o.kind = CellOperationKind::convolution;
  o.output = output;
  o.kernel_y = o.kernel_x = side;
  o.stride_y = o.stride_x = stride;
  o.pad_y = o.pad_x = pad;
  o.groups = groups;
  o.bias = bias;
  return o;
}

// Maps are {channels, height, width}.
std::vector<Case> cases() {
  CellOperation wide = operation({8, 5, 6}, 1, 1, 0);
  wide.kernel_x = 7;
  wide.pad_x = 3;
  return {{"a map that is its own windows", {6, 5, 4}, operation({10, 5, 4}, 1, 1, 0)},
          {"the same in groups", {16, 5, 4}, operation({6, 5, 4}, 1, 1, 0, 2, true)},
          {"odd channels", {5, 7, 6}, operation({6, 7, 6}, 3, 1, 1, 1, true)},
          {"by steps", {16, 7, 6}, operation({8, 4, 3}, 3, 2, 1)},
          {"every other place", {8, 6, 6}, operation({16, 3, 3}, 1, 2, 0)},
          {"the places between them", {3, 6, 6}, operation({4, 3, 3}, 1, 2, -1)},
          {"groups", {8, 5, 5}, operation({12, 5, 5}, 3, 1, 1, 2, true)},
          {"a group a channel", {8, 5, 5}, operation({8, 5, 5}, 3, 1, 1, 8)},
          {"a line for a window", {8, 5, 6}, wide},
          {"a stem", {3, 11, 11}, operation({8, 6, 6}, 7, 2, 3)},
          {"one channel to several", {1, 5, 4}, operation({6, 5, 4}, 1, 1, 0)},
          {"several to one", {6, 5, 4}, operation({1, 5, 4}, 3, 1, 1, 1, true)},
          {"all of the map", {8, 3, 3}, operation({5, 1, 1}, 3, 1, 0)}};
}

constexpr std::int64_t kImages = 3;

// dx and dw of L = sum(y * dy).
struct Slopes {
  reference::Matrix dx, dw;
};
Slopes slopes(const Case& of, const std::vector<float>& x, const std::vector<float>& w,
              const std::vector<float>& dy) {
  const CellOperation& o = of.operation;
  const std::int64_t seen = of.input.channels / o.groups, made = o.output.channels / o.groups;
  Slopes s{reference::Matrix(x.size()), reference::Matrix(w.size())};
  reference::each_number(o.output, kImages, [&](auto b, auto oy, auto ox, auto c) {
    const double slope = dy[reference::at(o.output, b, oy, ox, c)];
    reference::each_place(o, of.input, oy, ox, [&](auto y, auto column, auto ky, auto kx) {
      for (std::int64_t i = 0; i < seen; ++i) {
        const std::size_t from = reference::at(of.input, b, y, column, c / made * seen + i);
        const std::size_t weight = size(((c * seen + i) * o.kernel_y + ky) * o.kernel_x + kx);
        s.dx[from] += slope * w[weight];
        s.dw[weight] += slope * x[from];
      }
    });
  });
  return s;
}

template <class E>
Dtype dtype() {
  return sizeof(E) == 4 ? Dtype::fp32 : Dtype::bf16;
}

template <class E>
class Bench {
 public:
  Bench(const Convolution& convolution, Dtype dtype) : matmul_(dtype, 0) {
    on_.matmul = &matmul_;
    const ScratchNeeds needs = convolution.prepare(matmul_);
    unfolded_ = needs.unfolded_bytes;
    scratch_ = std::make_unique<DeviceArray<std::byte>>(size(needs.bytes()));
    on_.use(scratch_->get(), needs);
  }
  [[nodiscard]] const Workbench& on() const { return on_; }
  [[nodiscard]] std::int64_t unfolded() const { return unfolded_; }

 private:
  Matmul matmul_;
  Workbench on_;
  std::int64_t unfolded_ = 0;
  std::unique_ptr<DeviceArray<std::byte>> scratch_;
};

// Sums of at most 147 products, and in dw of 108: kSum. What is unfolded at a time changes where
// sums are cut, and no more.
template <class E>
void expect_convolution(const Case& of, const UnfoldingLimits& limits,
                        Dtype computes = dtype<E>()) {
  const CellOperation& o = of.operation;
  const std::int64_t weights =
      o.output.channels * (of.input.channels / o.groups) * o.kernel_y * o.kernel_x;
  const auto drawn = [&](std::int64_t count, unsigned seed) {
    // tf32 keeps what bf16 holds: what it multiplies is not rounded.
    return computes == Dtype::tf32 ? random_held<Bf16>(count, seed) : random_held<E>(count, seed);
  };
  const auto x = drawn(kImages * of.input.numbers(), 31), w = drawn(weights, 32),
             bias = drawn(o.output.channels, 33), dy = drawn(kImages * o.output.numbers(), 34);
  const std::vector<float> before = random_floats(size(weights), 35);
  const Convolution convolution(of.input, o, kImages, limits);
  const Bench<E> bench(convolution, computes);
  // At least sixteen rows, or those of the lines that see a line of the input.
  const std::int64_t row = (of.input.channels / o.groups * o.kernel_y * o.kernel_x + 7) / 8 * 8;
  const std::int64_t lines = (o.kernel_y + o.stride_y - 1) / o.stride_y;
  const std::int64_t rows = std::max<std::int64_t>(16, lines * o.output.width);
  EXPECT_LE(bench.unfolded(), std::max(limits.bytes, rows * o.groups * row * 4));
  const DeviceArray<E> x_in(to_elements<E>(x)), w_in(to_elements<E>(w)),
      bias_in(to_elements<E>(bias)), dy_in(to_elements<E>(dy)), y(dy.size()), dx(x.size());
  const DeviceFloats dw(w.size()), added(before);
  convolution.forward<E>(bench.on(), x_in.get(), w_in.get(), bias_in.get(), y.get());
  convolution.input_gradient<E>(bench.on(), w_in.get(), dy_in.get(), dx.get());
  convolution.weight_gradient<E>(bench.on(), x_in.get(), dy_in.get(), Beta::zero, dw.get());
  convolution.weight_gradient<E>(bench.on(), x_in.get(), dy_in.get(), Beta::one, added.get());
  const reference::Matrix x_of(x.begin(), x.end()), w_of(w.begin(), w.end()),
      bias_of(bias.begin(), bias.end());
  const reference::Matrix expected =
      reference::convolve(o, of.input, x_of, w_of, o.bias ? &bias_of : nullptr, kImages);
  Slopes s = slopes(of, x, w, dy);
  expect_close(host_floats(y), expected, kSum<E>, 4);
  expect_close(host_floats(dx), s.dx, kSum<E>, 4);
  expect_close(dw.host(), s.dw, kSum<float>, 4);
  for (std::size_t i = 0; i < before.size(); ++i) s.dw[i] += before[i];
  expect_close(added.host(), s.dw, kSum<float>, 4);
}

template <class E>
class CudaConvolution : public ::testing::Test {};
TYPED_TEST_SUITE(CudaConvolution, ElementTypes);

TYPED_TEST(CudaConvolution, IsThatOfDoublePrecision) {
  WEIR_NEEDS_BF16();
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.what);
    expect_convolution<TypeParam>(of, {});
  }
}

TEST(CudaConvolution, MayBeInTf32) {
  WEIR_NEEDS_DEVICE();
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.what);
    expect_convolution<float>(of, {}, Dtype::tf32);
  }
}

// 4 KiB hold a few lines, or an image or two.
TYPED_TEST(CudaConvolution, MayBeUnfoldedPieceByPiece) {
  WEIR_NEEDS_BF16();
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.what);
    for (const std::int64_t most : {1, 4096, 20'000})
      expect_convolution<TypeParam>(of, {.bytes = most});
  }
}

// Sums of 16, 32 or 48 rows beside each other, and of what is left.
TYPED_TEST(CudaConvolution, WeightsGradientsMayBeSummedInParts) {
  WEIR_NEEDS_BF16();
  for (const Case& of : cases()) {
    SCOPED_TRACE(of.what);
    for (const std::int64_t rows : {1, 32, 48}) {
      expect_convolution<TypeParam>(of, {.part_rows = rows});
      expect_convolution<TypeParam>(of, {.bytes = 20'000, .part_rows = rows});
    }
  }
}

std::unique_ptr<Backend> one_device() { return cuda_backends()({}); }

// Output and gradients of one layer's passes, each of these along random signs: how L = sum(output
// * r) changes there is the sum of the gradient's numbers by them.
void expect_passes(CellStage& stage, std::mt19937& random, double tolerance) {
  const double loss = stage.run_twice();
  if (stage.is_head()) {
    EXPECT_NEAR(loss, stage.objective(), 1e-5);
  }
  const reference::Matrix got = stage.output();
  const reference::Matrix expected = stage.expected_output();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << i;
  std::bernoulli_distribution heads;
  for (auto& [name, at, gradient] : stage.operands()) {
    double norm = 0;
    for (const double value : gradient) norm += value * value;
    for (int trial = 0; trial < 3; ++trial) {
      reference::Matrix direction(gradient.size());
      std::ranges::generate(direction, [&] { return heads(random) ? 1.0 : -1.0; });
      double sum = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i) sum += gradient[i] * direction[i];
      EXPECT_NEAR(slope_along(stage, *at, direction), sum,
                  tolerance * std::max(std::sqrt(norm), 0.1))
          << name;
    }
  }
}

void expect_layers(const Model& model, int batch, int layers, double tolerance) {
  const CellModel whole(model, batch, 5);
  std::mt19937 random(6);
  for (int index = 0; index < layers; ++index) {
    SCOPED_TRACE(index);
    CellStage stage(whole, index, random, one_device());
    expect_passes(stage, random, tolerance);
  }
}

Model named(Model model) {
  model.name = "cells";
  model.family = "cnn";
  return model;
}

// fp32 sums of some hundred products through at most five operations; of a bias before a norm,
// which moves nothing, what is left is rounding of terms near 1.
TEST(CudaCells, PassesOfEveryOperation) {
  WEIR_NEEDS_DEVICE();
  cnn::CellBuilder stem({3, 4, 4}, true), mean({6, 4, 4});
  stem.convolution("conv", 0, {.count = 4}, cnn::square(3));
  mean.global_pool("mean", 0);
  Model model;
  model.layers = {
      {"stem", stem.take(), "stem"},
      {"cell", every_operation({4, 4, 4}), "cell"},
      {"mean", mean.take(), "pool"},
      {"fc", HeadShape{.vocabulary = 5, .hidden = 6, .bias = true, .pooled = true}, ""}};
  expect_layers(named(std::move(model)), 4, 4, 5e-4);
}

// Its stem, both kinds of cell, and one behind a reduction, whose farther input is halved: through
// eight norms and their convolutions, one behind the other.
TEST(CudaCells, PassesOfAmoebaNets) {
  WEIR_NEEDS_DEVICE();
  expect_layers(named(cnn::amoebanet_d_blocks(3, 8, {3, 32}, 5)), 4, 4, 1e-3);
}

}  // namespace
}  // namespace weir::cuda::cells_test
