// The kept softmax of attention and its gradient against their definitions in double precision,
// dropout included. What lies right of the diagonal is poison on the way in and zero on the way
// out. Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/softmax.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda {
namespace {

constexpr std::int64_t kMatrices = 3, kFirst = 4;
constexpr float kScale = 0.5F;

// NaN right of the diagonal: causal kernels must not let it through.
std::vector<float> lower_triangles(std::vector<float> values, std::int64_t s) {
  for (std::int64_t i = 0; i < kMatrices * s * s; ++i) {
    if (i % s > i / s % s) values[size(i)] = std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

template <class E>
class CudaKernelSoftmax : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelSoftmax, ElementTypes);

TYPED_TEST(CudaKernelSoftmax, CausalWithDropout) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const StepOnDevice step(1);
  const DropoutMask mask = step.mask(0.25, DropoutSite::attention);
  for (const std::int64_t s : {std::int64_t{301}, std::int64_t{304}, std::int64_t{5}}) {
    const auto x = random_floats(size(kMatrices * s * s), 9);
    const DeviceFloats scores(lower_triangles(x, s));
    const DeviceArray<E> p(x.size()), masked(x.size());
    causal_softmax<E>(kScale, scores.get(), {kMatrices, s, kFirst}, step.on_device(mask), p.get(),
                      masked.get(), nullptr);
    std::vector<double> expected, masked_expected;
    for (std::int64_t row = 0; row < kMatrices * s; ++row) {
      double total = 0;
      for (std::int64_t j = 0; j <= row % s; ++j)
        total += std::exp(double{kScale} * x[size(row * s + j)]);
      for (std::int64_t j = 0; j < s; ++j) {
        const std::int64_t i = row * s + j;
        expected.push_back(j <= row % s ? std::exp(double{kScale} * x[size(i)]) / total : 0);
        masked_expected.push_back(expected.back() *
                                  mask.factor(static_cast<std::uint64_t>(kFirst + i)));
      }
    }
    expect_close(host_floats(p), expected, kSum<E>, 0);                  // no terms that cancel
    expect_close(host_floats(masked), masked_expected, 2 * kSum<E>, 0);  // rounded twice
    const DeviceArray<E> alone(x.size());
    causal_softmax<E>(kScale, scores.get(), {kMatrices, s, kFirst}, {}, alone.get(), nullptr,
                      nullptr);
    EXPECT_EQ(host_floats(alone), host_floats(p));
  }
}

TYPED_TEST(CudaKernelSoftmax, Gradient) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const StepOnDevice step(1);
  const DropoutMask mask = step.mask(0.25, DropoutSite::attention);
  for (const std::int64_t s : {std::int64_t{301}, std::int64_t{304}}) {
    auto p = random_held<E>(kMatrices * s * s, 9);
    for (float& value : p)
      value = static_cast<float>(static_cast<E>(std::abs(value) / static_cast<float>(s)));
    const auto dp = random_floats(p.size(), 10);
    const DeviceArray<E> p_in(to_elements<E>(lower_triangles(p, s))), ds(p.size());
    const DeviceFloats dp_in(lower_triangles(dp, s));
    softmax_gradient<E>(kScale, p_in.get(), dp_in.get(), {kMatrices, s, kFirst},
                        step.on_device(mask), ds.get(), nullptr);
    std::vector<double> expected;
    for (std::int64_t row = 0; row < kMatrices * s; ++row) {
      const auto gradient = [&](std::int64_t i) {
        return double{dp[size(i)]} * mask.factor(static_cast<std::uint64_t>(kFirst + i));
      };
      double sum = 0;
      for (std::int64_t j = 0; j <= row % s; ++j)
        sum += gradient(row * s + j) * p[size(row * s + j)];
      for (std::int64_t j = 0; j < s; ++j) {
        const std::int64_t i = row * s + j;
        expected.push_back(j <= row % s ? kScale * p[size(i)] * (gradient(i) - sum) : 0);
      }
    }
    expect_close(host_floats(ds), expected, kSum<E>,
                 0.5 / static_cast<double>(s));  // kScale times p's typical size
  }
}

}  // namespace
}  // namespace weir::cuda
