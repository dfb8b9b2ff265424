// Activations, dropout and sums over rows against their definitions in double precision.
// Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cuda/kernels/activation.hpp"
#include "exec/cuda/kernels/dropout.hpp"
#include "exec/cuda/kernels/sums.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::pointwise_test {
namespace {

constexpr std::int64_t kCount = 1003;  // some vectors and a tail, in either type

double curve(Curve kind, double x) {
  switch (kind) {
    case Curve::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Curve::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Curve::relu:
      return std::max(x, 0.0);
    default:
      return x / (1 + std::exp(-x));
  }
}

template <class E>
class CudaKernelPointwise : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelPointwise, ElementTypes);

// The slope is the reference's central difference; its own error is below 1e-9.
TYPED_TEST(CudaKernelPointwise, ActivationsAndTheirSlopes) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const auto x = random_held<E>(kCount, 5), dy = random_held<E>(kCount, 6);
  for (const Curve kind : {Curve::gelu, Curve::gelu_tanh, Curve::relu, Curve::silu}) {
    const DeviceArray<E> in(to_elements<E>(x)), y(x.size()), dx(to_elements<E>(dy));
    activate<E>(kind, in.get(), kCount, y.get(), nullptr);
    activate_gradient<E>(kind, in.get(), kCount, dx.get(), nullptr);
    std::vector<double> value, slope;
    for (std::size_t i = 0; i < x.size(); ++i) {
      value.push_back(curve(kind, x[i]));
      const double step = 1e-5;
      slope.push_back(dy[i] * (curve(kind, x[i] + step) - curve(kind, x[i] - step)) / (2 * step));
    }
    expect_close(host_floats(y), value, kElement<E>);
    expect_close(host_floats(dx), slope, kElement<E>);
  }
}

// Rows of g and u become those of curve(g) u; backwards dy lies where u's gradient belongs. Widths
// with vectors and without.
TYPED_TEST(CudaKernelPointwise, GatesAndTheirGradients) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  constexpr std::int64_t kRows = 7;
  for (const std::int64_t width : {61, 64}) {
    const auto x = random_held<E>(2 * kRows * width, 5), dy = random_held<E>(kRows * width, 6);
    std::vector<float> before(x.size(), 1e6F);  // what stands in g's place is overwritten
    std::vector<double> value, slope(x.size());
    for (std::int64_t i = 0; i < kRows * width; ++i) {
      const std::size_t g = size(i / width * 2 * width + i % width), u = g + size(width);
      before[u] = dy[size(i)];
      const double step = 1e-5, at = x[g];
      value.push_back(curve(Curve::silu, at) * x[u]);
      slope[g] = double{dy[size(i)]} * x[u] *
                 (curve(Curve::silu, at + step) - curve(Curve::silu, at - step)) / (2 * step);
      slope[u] = dy[size(i)] * curve(Curve::silu, at);
    }
    const DeviceArray<E> in(to_elements<E>(x)), y(dy.size()), dx(to_elements<E>(before));
    gate<E>(Curve::silu, in.get(), {kRows, width}, y.get(), nullptr);
    gate_gradient<E>(Curve::silu, in.get(), {kRows, width}, dx.get(), nullptr);
    expect_close(host_floats(y), value, kElement<E>);
    expect_close(host_floats(dx), slope, kElement<E>);
  }
}

// The mask is exec/training/philox's on the host, at the step that lies on the device: CPU and CUDA
// drop the same elements. From a first element that is a multiple of four and from one that is not;
// into another array and in place.
TYPED_TEST(CudaKernelPointwise, DropoutDrawsTheHostsMasks) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const StepOnDevice step(2);
  const DropoutMask mask = step.mask(0.3, DropoutSite::mlp_output);
  const auto x = random_held<E>(kCount, 7), added = random_held<E>(kCount, 8);
  for (const std::uint64_t first : {40U, 41U}) {
    const DeviceArray<E> in(to_elements<E>(x)), y(x.size()), sum(to_elements<E>(added));
    dropout<E>(step.on_device(mask), first, in.get(), kCount, y.get(), nullptr);
    dropout_add<E>(step.on_device(mask), in.get(), kCount, sum.get(), nullptr);
    std::vector<double> dropped, added_up;
    for (std::size_t i = 0; i < x.size(); ++i) {
      dropped.push_back(double{x[i]} * mask.factor(first + i));
      added_up.push_back(double{added[i]} * mask.factor(i) + x[i]);
    }
    expect_close(host_floats(y), dropped, kElement<E>);
    expect_close(host_floats(sum), added_up, kElement<E>);
    dropout<E>(step.on_device(mask), first, in.get(), kCount, in.get(), nullptr);
    EXPECT_EQ(host_floats(in), host_floats(y));
  }
}

TYPED_TEST(CudaKernelPointwise, WithoutAMaskNothingIsDropped) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const auto x = random_held<E>(kCount, 7);
  const DeviceArray<E> in(to_elements<E>(x)), y(x.size());
  dropout<E>({}, 0, in.get(), kCount, y.get(), nullptr);
  EXPECT_EQ(host_floats(y), x);
}

// One row, less than a partial sum, more than the second stage's slices; widths with vectors and
// without.
TYPED_TEST(CudaKernelPointwise, ColumnSums) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const std::int64_t rows : {1, 63, 997}) {
    for (const std::int64_t width : {333, 336}) {
      const auto x = random_held<E>(rows * width, 16);
      const auto before = random_floats(size(width), 17);
      const DeviceArray<E> in(to_elements<E>(x));
      const DeviceFloats partials(size(width * partials_of(rows))), added(before),
          written(size(width));
      column_sum<E>(in.get(), {rows, width}, Beta::one, partials.get(), added.get(), nullptr);
      column_sum<E>(in.get(), {rows, width}, Beta::zero, partials.get(), written.get(), nullptr);
      std::vector<double> sums(size(width)), with_before(before.begin(), before.end());
      for (std::int64_t i = 0; i < rows * width; ++i) {
        sums[size(i % width)] += x[size(i)];
        with_before[size(i % width)] += x[size(i)];
      }
      expect_close(written.host(), sums, kSum<float>);
      expect_close(added.host(), with_before, kSum<float>);
    }
  }
}

// Partial sums are as many as a grid has blocks in y, and two more: 2,097,169 ones, which fp32
// counts exactly.
TEST(CudaKernelSums, OfMoreRowsThanAGridTakes) {
  WEIR_NEEDS_DEVICE();
  constexpr std::int64_t kRows = 65536 * kRowsPerPartial + 17;
  const DeviceFloats ones(std::vector<float>(size(kRows), 1.0F)), sum(1),
      partials(size(partials_of(kRows)));
  column_sum<float>(ones.get(), {kRows, 1}, Beta::zero, partials.get(), sum.get(), nullptr);
  EXPECT_EQ(sum.host().front(), static_cast<float>(kRows));
}

// One of more than a block's length, and a short one beside it.
TEST(CudaKernelSums, VectorsAreAddedEachToItsOwn) {
  WEIR_NEEDS_DEVICE();
  for (const Beta into : {Beta::one, Beta::zero}) {
    const auto x = random_floats(300, 18), y = random_floats(7, 19);
    const auto before_x = random_floats(300, 20), before_y = random_floats(7, 21);
    const DeviceFloats x_in(x), y_in(y), x_sum(before_x), y_sum(before_y);
    accumulate({{{x_in.get(), x_sum.get(), 300}, {y_in.get(), y_sum.get(), 7}}, 2}, into, nullptr);
    std::vector<float> x_expected = x, y_expected = y;
    for (std::size_t j = 0; into == Beta::one && j < 300; ++j) x_expected[j] = before_x[j] + x[j];
    for (std::size_t j = 0; into == Beta::one && j < 7; ++j) y_expected[j] = before_y[j] + y[j];
    EXPECT_EQ(x_sum.host(), x_expected);
    EXPECT_EQ(y_sum.host(), y_expected);
  }
}

}  // namespace
}  // namespace weir::cuda::pointwise_test
