// RMS norms against their definition in double precision: widths that a block holds, with few
// elements a thread and with many, wider ones, and such as are no multiple of a vector; rows that
// do not fill the last partial sum. Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cuda/kernels/norms.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::rms_norms_test {
namespace {

constexpr std::int64_t kRows = 35;
constexpr double kEpsilon = 1e-5;

struct Reference {
  std::int64_t width;
  std::vector<double> inverse;  // 1 / rms of each row
  Reference(const std::vector<float>& x, std::int64_t w) : width(w) {
    for (std::int64_t r = 0; r < kRows; ++r) {
      double squares = 0;
      for (std::int64_t j = 0; j < w; ++j) squares += std::pow(x[size(r * w + j)], 2);
      inverse.push_back(1 / std::sqrt(squares / static_cast<double>(w) + kEpsilon));
    }
  }
  [[nodiscard]] double normed(const std::vector<float>& x, std::int64_t i) const {
    return x[size(i)] * inverse[size(i / width)];
  }
  [[nodiscard]] std::vector<double> outputs(const std::vector<float>& x,
                                            const std::vector<float>& weight) const {
    std::vector<double> y;
    for (std::int64_t i = 0; i < kRows * width; ++i)
      y.push_back(normed(x, i) * weight[size(i % width)]);
    return y;
  }
  // The mean is taken as 0.
  [[nodiscard]] std::vector<double> statistics() const {
    std::vector<double> all;
    for (const double one : inverse) {
      all.push_back(0);
      all.push_back(one);
    }
    return all;
  }
};

template <class E>
class CudaKernelRmsNorms : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelRmsNorms, ElementTypes);

TYPED_TEST(CudaKernelRmsNorms, Forward) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const std::int64_t width : {333, 336, 8}) {
    const auto x = random_held<E>(kRows * width, 1), weight = random_held<E>(width, 3);
    const DeviceArray<E> x_in(to_elements<E>(x)), weight_in(to_elements<E>(weight)), y(x.size());
    const DeviceFloats statistics(size(2 * kRows));
    rms_norm<E>(x_in.get(), {weight_in.get(), nullptr, 1e-5F, y.get(), statistics.get()},
                {kRows, width}, nullptr);
    const Reference reference(x, width);
    expect_close(host_floats(y), reference.outputs(x, weight), kSum<E>);
    expect_close(statistics.host(), reference.statistics(), kSum<float>);
    EXPECT_EQ(host_floats(x_in), x);
  }
}

// The sum is rounded to E before it is normed: the reference norms what the device holds of it.
// Without a mask nothing is dropped.
TYPED_TEST(CudaKernelRmsNorms, ResidualAndDropoutFirst) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const StepOnDevice step(2);
  for (const double probability : {0.0, 0.3}) {
    const DropoutMask mask = step.mask(probability, DropoutSite::attention_output);
    for (const std::int64_t width : {333, 336}) {
      const auto x = random_held<E>(kRows * width, 1), residual = random_held<E>(kRows * width, 2),
                 weight = random_held<E>(width, 3);
      const DeviceArray<E> sum(to_elements<E>(x)), residual_in(to_elements<E>(residual)),
          weight_in(to_elements<E>(weight)), y(x.size());
      const DeviceFloats statistics(size(2 * kRows));
      residual_rms_norm<E>(residual_in.get(), step.on_device(mask), sum.get(),
                           {weight_in.get(), nullptr, 1e-5F, y.get(), statistics.get()},
                           {kRows, width}, nullptr);
      std::vector<double> expected;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double kept = mask.active() ? mask.factor(i) : 1;
        expected.push_back(double{residual[i]} + double{x[i]} * kept);
      }
      expect_close(host_floats(sum), expected, kElement<E>);
      const std::vector<float> found = host_floats(sum);
      expect_close(host_floats(y), Reference(found, width).outputs(found, weight), kSum<E>);
    }
  }
}

// With n = x / rms and d = dy * weight: dx = (d - n * mean(d n)) / rms + residual, and the weight's
// gradient sum(dy n). From the residual into another array, or in its place.
template <class E>
void check_rms_gradient(std::int64_t width, bool in_place, bool drops) {
  const StepOnDevice step(3);
  const DropoutMask mask = step.mask(0.2, DropoutSite::mlp_output);
  const auto x = random_held<E>(kRows * width, 1), dy = random_held<E>(kRows * width, 2),
             weight = random_held<E>(width, 3), residual = random_held<E>(kRows * width, 5);
  const Reference n(x, width);
  const std::vector<double> exact = n.statistics();
  const DeviceArray<E> x_in(to_elements<E>(x)), dy_in(to_elements<E>(dy)),
      weight_in(to_elements<E>(weight)), residual_in(to_elements<E>(residual)), other(x.size()),
      dropped(x.size());
  const DeviceFloats statistics(std::vector<float>(exact.begin(), exact.end())), dgain(size(width)),
      partials(size(width * partials_of(kRows)));
  rms_norm_gradient<E>({.x = x_in.get(),
                        .statistics = statistics.get(),
                        .weight = weight_in.get(),
                        .dy = dy_in.get(),
                        .dx = in_place ? residual_in.get() : other.get(),
                        .weight_gradient = dgain.get(),
                        .bias_gradient = nullptr,
                        .partials = partials.get(),
                        .residual = residual_in.get(),
                        .dropped = drops ? dropped.get() : nullptr,
                        .mask = step.on_device(mask)},
                       {kRows, width}, nullptr);
  std::vector<double> dx_expected, dropped_expected, dgain_expected(size(width));
  for (std::int64_t r = 0; r < kRows; ++r) {
    double product = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t i = r * width + j;
      product +=
          double{dy[size(i)]} * weight[size(j)] * n.normed(x, i) / static_cast<double>(width);
      dgain_expected[size(j)] += dy[size(i)] * n.normed(x, i);
    }
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t i = r * width + j;
      const double d = double{dy[size(i)]} * weight[size(j)];
      dx_expected.push_back(n.inverse[size(r)] * (d - n.normed(x, i) * product) +
                            residual[size(i)]);
      dropped_expected.push_back(dx_expected.back() * mask.factor(static_cast<std::uint64_t>(i)));
    }
  }
  expect_close(host_floats(in_place ? residual_in : other), dx_expected, kSum<E>);
  if (drops) expect_close(host_floats(dropped), dropped_expected, 2 * kSum<E>);  // rounded twice
  expect_close(dgain.host(), dgain_expected, kSum<float>);  // in fp32 whatever E is
}

// 333: one element at a time. 8 to 2056: rows that a block holds, 2056 with twice as many elements
// a thread, its last vectors not there. 8200: wider than that.
TYPED_TEST(CudaKernelRmsNorms, GradientWithResidual) {
  WEIR_NEEDS_DEVICE();
  for (const std::int64_t width : {333, 8, 1000, 2056, 8200}) {
    check_rms_gradient<TypeParam>(width, width < 1000, width == 2056);
    if (width <= 1000) check_rms_gradient<TypeParam>(width, false, true);
  }
}

}  // namespace
}  // namespace weir::cuda::rms_norms_test
