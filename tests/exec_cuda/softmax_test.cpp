// The kept softmax of attention and its gradient against their definitions in double precision,
// dropout included. What a row does not see is poison on the way in and zero on the way out: what
// lies right of the diagonal, and left of a window; where attention is not causal it sees all.
// Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/softmax.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::softmax_test {
namespace {

constexpr std::int64_t kMatrices = 3, kFirst = 4;
constexpr float kScale = 0.5F;

constexpr std::int64_t kAll = -1;  // in the place of a window: each row sees all

// Whether row i of a matrix sees column j; a window of 0 is none.
bool sees(std::int64_t i, std::int64_t j, std::int64_t window) {
  return window == kAll || (j <= i && (window == 0 || i - j < window));
}

// NaN where a row does not see: kernels must not let it through.
std::vector<float> seen_alone(std::vector<float> values, std::int64_t s, std::int64_t window) {
  for (std::int64_t i = 0; i < kMatrices * s * s; ++i) {
    if (!sees(i / s % s, i % s, window)) values[size(i)] = std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

// Lengths and windows: in vectors and not; one key, some that begin within a vector, all.
const std::vector<std::pair<std::int64_t, std::int64_t>> kCases = {
    {301, 0}, {304, 0}, {5, 0}, {304, 1}, {304, 100}, {301, 37}, {301, kAll}, {304, kAll}};

Matrices matrices_of(std::int64_t s, std::int64_t window) {
  return {kMatrices, s, kFirst, std::max<std::int64_t>(window, 0), window != kAll};
}

template <class E>
class CudaKernelSoftmax : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelSoftmax, ElementTypes);

TYPED_TEST(CudaKernelSoftmax, WithDropout) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const StepOnDevice step(1);
  const DropoutMask mask = step.mask(0.25, DropoutSite::attention);
  for (const auto& [s, window] : kCases) {
    const Matrices matrices = matrices_of(s, window);
    const auto x = random_floats(size(kMatrices * s * s), 9);
    const DeviceFloats scores(seen_alone(x, s, window));
    const DeviceArray<E> p(x.size()), masked(x.size());
    softmax<E>(kScale, scores.get(), matrices, step.on_device(mask), p.get(), masked.get(),
               nullptr);
    std::vector<double> expected, masked_expected;
    for (std::int64_t row = 0; row < kMatrices * s; ++row) {
      double total = 0;
      for (std::int64_t j = 0; j < s; ++j) {
        if (sees(row % s, j, window)) total += std::exp(double{kScale} * x[size(row * s + j)]);
      }
      for (std::int64_t j = 0; j < s; ++j) {
        const std::int64_t i = row * s + j;
        const bool seen = sees(row % s, j, window);
        expected.push_back(seen ? std::exp(double{kScale} * x[size(i)]) / total : 0);
        masked_expected.push_back(expected.back() *
                                  mask.factor(static_cast<std::uint64_t>(kFirst + i)));
      }
    }
    expect_close(host_floats(p), expected, kSum<E>, 0);                  // no terms that cancel
    expect_close(host_floats(masked), masked_expected, 2 * kSum<E>, 0);  // rounded twice
    const DeviceArray<E> alone(x.size());
    softmax<E>(kScale, scores.get(), matrices, {}, alone.get(), nullptr, nullptr);
    EXPECT_EQ(host_floats(alone), host_floats(p));
  }
}

TYPED_TEST(CudaKernelSoftmax, Gradient) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const StepOnDevice step(1);
  const DropoutMask mask = step.mask(0.25, DropoutSite::attention);
  for (const auto& [s, window] : kCases) {
    const Matrices matrices = matrices_of(s, window);
    auto p = random_held<E>(kMatrices * s * s, 9);
    for (float& value : p)
      value = static_cast<float>(static_cast<E>(std::abs(value) / static_cast<float>(s)));
    const auto dp = random_floats(p.size(), 10);
    const DeviceArray<E> p_in(to_elements<E>(seen_alone(p, s, window))), ds(p.size());
    const DeviceFloats dp_in(seen_alone(dp, s, window));
    softmax_gradient<E>(kScale, p_in.get(), dp_in.get(), matrices, step.on_device(mask), ds.get(),
                        nullptr);
    std::vector<double> expected;
    for (std::int64_t row = 0; row < kMatrices * s; ++row) {
      const auto gradient = [&](std::int64_t i) {
        return double{dp[size(i)]} * mask.factor(static_cast<std::uint64_t>(kFirst + i));
      };
      double sum = 0;
      for (std::int64_t j = 0; j < s; ++j) {
        if (sees(row % s, j, window)) sum += gradient(row * s + j) * p[size(row * s + j)];
      }
      for (std::int64_t j = 0; j < s; ++j) {
        const std::int64_t i = row * s + j;
        const bool seen = sees(row % s, j, window);
        expected.push_back(seen ? kScale * p[size(i)] * (gradient(i) - sum) : 0);
      }
    }
    expect_close(host_floats(ds), expected, kSum<E>,
                 0.5 / static_cast<double>(s));  // kScale times p's typical size
  }
}

}  // namespace
}  // namespace weir::cuda::softmax_test
