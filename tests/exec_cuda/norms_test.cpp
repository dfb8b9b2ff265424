// Layer norms against their definition in double precision: widths that are a multiple of a vector
// and that are not, rows that do not fill the last partial sum. Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/norms.hpp"

#include <gtest/gtest.h>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::norms_test {
namespace {

constexpr std::int64_t kRows = 131;
constexpr double kEpsilon = 1e-5;

struct Reference {
  std::int64_t width;
  std::vector<double> mean, rstd;
  Reference(const std::vector<float>& x, std::int64_t w) : width(w) {
    for (std::int64_t r = 0; r < kRows; ++r) {
      double sum = 0, squares = 0;
      for (std::int64_t j = 0; j < w; ++j) sum += x[size(r * w + j)];
      for (std::int64_t j = 0; j < w; ++j)
        squares += std::pow(x[size(r * w + j)] - sum / static_cast<double>(w), 2);
      mean.push_back(sum / static_cast<double>(w));
      rstd.push_back(1 / std::sqrt(squares / static_cast<double>(w) + kEpsilon));
    }
  }
  [[nodiscard]] double normed(const std::vector<float>& x, std::int64_t row, std::int64_t j) const {
    return (x[size(row * width + j)] - mean[size(row)]) * rstd[size(row)];
  }
  [[nodiscard]] std::vector<double> outputs(const std::vector<float>& x,
                                            const std::vector<float>& weight,
                                            const std::vector<float>& bias) const {
    std::vector<double> y;
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t j = 0; j < width; ++j)
        y.push_back(normed(x, r, j) * weight[size(j)] + bias[size(j)]);
    }
    return y;
  }
};

template <class E>
class CudaKernelNorms : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelNorms, ElementTypes);

TYPED_TEST(CudaKernelNorms, Forward) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const std::int64_t width : {std::int64_t{333}, std::int64_t{336}, std::int64_t{8}}) {
    const auto x = random_held<E>(kRows * width, 1), weight = random_held<E>(width, 3),
               bias = random_held<E>(width, 4);
    const DeviceArray<E> x_in(to_elements<E>(x)), weight_in(to_elements<E>(weight)),
        bias_in(to_elements<E>(bias));
    const DeviceArray<E> y(x.size());
    const DeviceFloats statistics(size(2 * kRows));
    layer_norm<E>(x_in.get(), {weight_in.get(), bias_in.get(), 1e-5F, y.get(), statistics.get()},
                  {kRows, width}, nullptr);
    const Reference reference(x, width);
    expect_close(host_floats(y), reference.outputs(x, weight, bias), kSum<E>);
    std::vector<double> expected;
    for (std::int64_t r = 0; r < kRows; ++r) {
      expected.push_back(reference.mean[size(r)]);
      expected.push_back(reference.rstd[size(r)]);
    }
    expect_close(statistics.host(), expected, kSum<float>);
    EXPECT_EQ(host_floats(x_in), x);
  }
}

// The sum is rounded to E before it is normed: the reference norms what the device holds of it.
TYPED_TEST(CudaKernelNorms, ResidualAndDropoutFirst) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const StepOnDevice step(2);
  const DropoutMask mask = step.mask(0.3, DropoutSite::attention_output);
  for (const std::int64_t width : {std::int64_t{333}, std::int64_t{336}}) {
    const auto x = random_held<E>(kRows * width, 1), residual = random_held<E>(kRows * width, 2);
    const auto weight = random_held<E>(width, 3), bias = random_held<E>(width, 4);
    const DeviceArray<E> sum(to_elements<E>(x)), residual_in(to_elements<E>(residual));
    const DeviceArray<E> weight_in(to_elements<E>(weight)), bias_in(to_elements<E>(bias)),
        y(x.size());
    const DeviceFloats statistics(size(2 * kRows));
    residual_layer_norm<E>(residual_in.get(), step.on_device(mask), sum.get(),
                           {weight_in.get(), bias_in.get(), 1e-5F, y.get(), statistics.get()},
                           {kRows, width}, nullptr);
    std::vector<double> expected;
    for (std::size_t i = 0; i < x.size(); ++i)
      expected.push_back(double{residual[i]} + double{x[i]} * mask.factor(i));
    expect_close(host_floats(sum), expected, kElement<E>);
    const std::vector<float> found = host_floats(sum);
    expect_close(host_floats(y), Reference(found, width).outputs(found, weight, bias), kSum<E>);
  }
}

// dx (from the residual, in place where asked) with the reference's own formula.
template <class E>
void check_gradient(std::int64_t width, bool in_place) {
  const StepOnDevice step(3);
  const DropoutMask mask = step.mask(0.2, DropoutSite::mlp_output);
  const auto x = random_held<E>(kRows * width, 1), dy = random_held<E>(kRows * width, 2);
  const auto weight = random_held<E>(width, 3), residual = random_held<E>(kRows * width, 5);
  const Reference n(x, width);
  std::vector<float> statistics;
  for (std::int64_t r = 0; r < kRows; ++r) {
    statistics.push_back(static_cast<float>(n.mean[size(r)]));
    statistics.push_back(static_cast<float>(n.rstd[size(r)]));
  }
  const DeviceArray<E> x_in(to_elements<E>(x)), dy_in(to_elements<E>(dy)),
      weight_in(to_elements<E>(weight));
  const DeviceArray<E> residual_in(to_elements<E>(residual)), other(x.size()), dropped(x.size());
  const DeviceFloats statistics_in(statistics), dgain(size(width)), dshift(size(width)),
      partials(size(2 * width * partials_of(kRows)));
  E* dx = in_place ? residual_in.get() : other.get();
  layer_norm_gradient<E>({.x = x_in.get(),
                          .statistics = statistics_in.get(),
                          .weight = weight_in.get(),
                          .dy = dy_in.get(),
                          .dx = dx,
                          .weight_gradient = dgain.get(),
                          .bias_gradient = dshift.get(),
                          .partials = partials.get(),
                          .residual = residual_in.get(),
                          .dropped = dropped.get(),
                          .mask = step.on_device(mask)},
                         {kRows, width}, nullptr);
  std::vector<double> dx_expected, dropped_expected, dgain_expected(size(width)),
      dshift_expected(size(width));
  for (std::int64_t r = 0; r < kRows; ++r) {
    double sum = 0, product = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const double d = double{dy[size(r * width + j)]} * weight[size(j)];
      sum += d / static_cast<double>(width);
      product += d * n.normed(x, r, j) / static_cast<double>(width);
      dgain_expected[size(j)] += dy[size(r * width + j)] * n.normed(x, r, j);
      dshift_expected[size(j)] += dy[size(r * width + j)];
    }
    for (std::int64_t j = 0; j < width; ++j) {
      const std::size_t i = size(r * width + j);
      const double d = double{dy[i]} * weight[size(j)];
      dx_expected.push_back(n.rstd[size(r)] * (d - sum - n.normed(x, r, j) * product) +
                            residual[i]);
      dropped_expected.push_back(dx_expected.back() * mask.factor(i));
    }
  }
  expect_close(host_floats(in_place ? residual_in : other), dx_expected, kSum<E>);
  expect_close(host_floats(dropped), dropped_expected, 2 * kSum<E>);  // rounded twice
  expect_close(dgain.host(), dgain_expected, kSum<float>);            // in fp32 whatever E is
  expect_close(dshift.host(), dshift_expected, kSum<float>);
}

// 333: one element at a time. 8 to 1024: rows that a warp holds, its last vectors there or not.
// 1032: wider than that.
TYPED_TEST(CudaKernelNorms, GradientWithResidualAndDropout) {
  WEIR_NEEDS_DEVICE();
  for (const std::int64_t width : {333, 8, 336, 768, 1000, 1024, 1032}) {
    for (const bool in_place : {false, true}) check_gradient<TypeParam>(width, in_place);
  }
}

}  // namespace
}  // namespace weir::cuda::norms_test
