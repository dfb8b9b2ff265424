// Kernels on maps: the numbers of each by hand, forwards and backwards.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/map_kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/cpu/kernels/convolution.hpp"

namespace weir::map_kernels_test {
namespace {

std::vector<float> ramp(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

class Convolved {
 public:
  explicit Convolved(const cpu::ConvolutionSize& size) : size_(size) {
    library_.prepare(size);
    scratch_.resize(static_cast<std::size_t>(library_.scratch_bytes()) + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(scratch_.data());
    library_.use_scratch(scratch_.data() + (64 - address % 64) % 64);
  }
  std::vector<float> forward(const std::vector<float>& x, const std::vector<float>& w) {
    std::vector<float> y(
        static_cast<std::size_t>(size_.batch * size_.out_height * size_.out_width * size_.out));
    library_.forward(size_, x.data(), w.data(), nullptr, y.data());
    return y;
  }
  std::vector<float> input_gradient(const std::vector<float>& w, const std::vector<float>& dy) {
    std::vector<float> dx(
        static_cast<std::size_t>(size_.batch * size_.in_height * size_.in_width * size_.in));
    library_.input_gradient(size_, w.data(), dy.data(), dx.data());
    return dx;
  }
  std::vector<float> weight_gradient(const std::vector<float>& x, const std::vector<float>& dy,
                                     std::vector<float> dw, cpu::Beta beta) {
    library_.weight_gradient(size_, x.data(), dy.data(), beta, dw.data());
    return dw;
  }

 private:
  cpu::ConvolutionSize size_;
  cpu::Convolutions library_;
  std::vector<std::byte> scratch_;
};

// x = 1 2 3    w = 1 2    y[0][0] = 1*1 + 2*2 + 4*3 + 5*4 = 37; the next column each number is one
//     4 5 6        3 4    more, and the weights' sum is 10: 47; the next row 3 more: 67, 77.
//     7 8 9
// dy = 1 0 / 0 2: dx is w at the first window and 2 w at the last, which share the middle: 4 + 2.
// dw = first window + 2 x last: 1 + 2*5, 2 + 2*6, 4 + 2*8, 5 + 2*9.
TEST(Convolution, ByHand) {
  Convolved of({.in = 1,
                .in_height = 3,
                .in_width = 3,
                .out = 1,
                .out_height = 2,
                .out_width = 2,
                .kernel_height = 2,
                .kernel_width = 2});
  const std::vector<float> x = ramp(9), w = ramp(4), dy{1, 0, 0, 2};
  EXPECT_EQ(of.forward(x, w), (std::vector<float>{37, 47, 67, 77}));
  EXPECT_EQ(of.input_gradient(w, dy), (std::vector<float>{1, 2, 0, 3, 6, 4, 0, 6, 8}));
  EXPECT_EQ(of.weight_gradient(x, dy, {9, 9, 9, 9}, cpu::Beta::zero),
            (std::vector<float>{11, 14, 20, 23}));
  EXPECT_EQ(of.weight_gradient(x, dy, {1, 1, 1, 1}, cpu::Beta::one),
            (std::vector<float>{12, 15, 21, 24}));
}

// A padding of one and a stride of two on a 4 x 4 map: windows of three begin at -1 and 1. With
// ones for weights an output is the sum of what of its window lies on the map: 1 + 2 + 5 + 6 = 14,
// 2 + 3 + 4 + 6 + 7 + 8 = 30, 5 + 6 + 9 + 10 + 13 + 14 = 57, and the 3 x 3 of 6 to 16 = 99.
TEST(Convolution, StrideAndPadding) {
  Convolved of({.in = 1,
                .in_height = 4,
                .in_width = 4,
                .out = 1,
                .out_height = 2,
                .out_width = 2,
                .kernel_height = 3,
                .kernel_width = 3,
                .stride_y = 2,
                .stride_x = 2,
                .pad_y = 1,
                .pad_x = 1});
  EXPECT_EQ(of.forward(ramp(16), std::vector<float>(9, 1.0F)),
            (std::vector<float>{14, 30, 57, 99}));
}

// Windows of 1 x 3 with a step of two columns and a padding of one: they begin at columns -1 and 1
// of each of the two rows. With ones for weights: 1 + 2, 2 + 3 + 4, and 5 + 6, 6 + 7 + 8.
TEST(Convolution, AStrideOfItsOwnForEachAxis) {
  Convolved of({.in = 1,
                .in_height = 2,
                .in_width = 4,
                .out = 1,
                .out_height = 2,
                .out_width = 2,
                .kernel_width = 3,
                .stride_x = 2,
                .pad_x = 1});
  EXPECT_EQ(of.forward(ramp(8), {1, 1, 1}), (std::vector<float>{3, 9, 11, 21}));
}

// Two groups of 1 x 1: output channel g is input channel g times its own weight.
TEST(Convolution, Groups) {
  Convolved of({.groups = 2,
                .in = 2,
                .in_height = 1,
                .in_width = 2,
                .out = 2,
                .out_height = 1,
                .out_width = 2});
  EXPECT_EQ(of.forward({1, 2, 3, 4}, {10, 100}), (std::vector<float>{10, 200, 30, 400}));
}

// Two channels over three places: (1, 2, 3) has mean 2 and variance 2/3, (4, 4, 7) mean 5 and
// variance 2. With epsilon 0, gain 1 and shift 0 the first becomes -r, 0, r for r = sqrt(3/2).
TEST(BatchNorm, ByHand) {
  const std::vector<float> x{1, 4, 2, 4, 3, 7}, gain{1, 2}, shift{0, 1};
  std::vector<float> moments(4), y(6);
  cpu::channel_moments(x.data(), {3, 2}, moments.data());
  EXPECT_EQ(moments, (std::vector<float>{2, 5, 2.0F / 3, 2}));
  cpu::batch_norm(x.data(), {3, 2}, moments.data(), gain.data(), shift.data(), 0, y.data());
  const float r = std::sqrt(1.5F), s = std::sqrt(0.5F);
  const std::vector<float> expected{-r, 1 - 2 * s, 0, 1 - 2 * s, r, 1 + 4 * s};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(y[i], expected[i], 1e-6) << i;
  // dy is 1 at the first place of channel 0: z = (-r, 0, r), mean(dy) = 1/3, mean(dy z) = -r/3, so
  // dx = r (1 - 1/3 - r r/3, -1/3, -1/3 + r r/3) = r (1/6, -1/3, 1/6); the gain's gradient is -r,
  // the shift's 1.
  const std::vector<float> dy{1, 0, 0, 0, 0, 0};
  std::vector<float> dx(6), gradients(4);
  cpu::batch_norm_gradient(x.data(), {3, 2}, moments.data(), gain.data(), 0, dy.data(), dx.data(),
                           gradients.data());
  const std::vector<float> slope{r / 6, 0, -r / 3, 0, r / 6, 0};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(dx[i], slope[i], 1e-6) << i;
  EXPECT_NEAR(gradients[0], -r, 1e-6);
  EXPECT_EQ(gradients[2], 1);
}

// Micro-batches (1, 3) and (5, 7) of one number a sample: means 2 and 6, variances 1. The whole has
// mean 4 and variance 5, unbiased 20/3; a tenth of the way from (10, 1) is (9.4, 0.9 + 2/3).
TEST(BatchNorm, RunningStatisticsAreThoseOfTheWholeMiniBatch) {
  std::vector<float> running{10, 1}, sums(2);
  const std::vector<float> first{2, 1}, second{6, 1};
  cpu::add_moments(first.data(), running.data(), 1, 0.5F, cpu::Beta::zero, sums.data());
  cpu::add_moments(second.data(), running.data(), 1, 0.5F, cpu::Beta::one, sums.data());
  const float* all[] = {sums.data()};
  cpu::move_statistics({.momentum = 0.1, .places = 1}, 4, all, 1, running.data());
  EXPECT_NEAR(running[0], 9.4, 1e-6);
  EXPECT_NEAR(running[1], 0.9 + 2.0 / 3, 1e-6);
}

TEST(Rectifier, KeepsSigns) {
  const std::vector<float> x{-1, 2, 0, 3, -4, 5, 6, -7, 8};
  std::vector<float> y(9), dx(9);
  std::vector<std::uint8_t> signs(2);
  cpu::rectify(x.data(), 9, y.data(), signs.data());
  EXPECT_EQ(y, (std::vector<float>{0, 2, 0, 3, 0, 5, 6, 0, 8}));
  EXPECT_EQ(signs, (std::vector<std::uint8_t>{0b01101010, 1}));
  cpu::rectify_gradient(signs.data(), ramp(9).data(), 9, dx.data());
  EXPECT_EQ(dx, (std::vector<float>{0, 2, 0, 4, 0, 6, 7, 0, 9}));
  // What is no number stays so where it may be found, and passes nothing back.
  const std::vector<float> broken{-1, std::nanf(""), 3};
  cpu::rectify(broken.data(), 3, y.data(), signs.data());
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(signs[0], 0b100);
}

// Windows of two, a step of two and a padding of one on three columns: the first holds column 0
// alone, the second columns 1 and 2.
TEST(Pooling, ByHand) {
  const cpu::Pooling p{.input = {1, 1, 3},
                       .output = {1, 1, 2},
                       .kernel_y = 1,
                       .kernel_x = 2,
                       .stride_x = 2,
                       .pad_x = 1};
  const std::vector<float> x{5, 2, 4}, dy{10, 20};
  std::vector<float> y(2), dx(3);
  std::vector<std::uint8_t> places(2);
  cpu::max_pool(p, x.data(), y.data(), places.data());
  EXPECT_EQ(y, (std::vector<float>{5, 4}));
  EXPECT_EQ(places, (std::vector<std::uint8_t>{1, 1}));
  cpu::max_pool_gradient(p, places.data(), dy.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{10, 0, 20}));
  // Padding is not averaged: (5), (2 + 4) / 2.
  cpu::average_pool(p, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{5, 3}));
  cpu::average_pool_gradient(p, dy.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{10, 10, 10}));
}

// Places (1, 1), (1, 3) of a 2 x 4 map: windows of one place that begin a row and a column further
// on.
TEST(Pooling, OfTheOddPlaces) {
  const cpu::Pooling p{.input = {1, 2, 4},
                       .output = {1, 1, 2},
                       .stride_y = 2,
                       .stride_x = 2,
                       .pad_y = -1,
                       .pad_x = -1};
  std::vector<float> y(2), dx(8);
  cpu::average_pool(p, ramp(8).data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{6, 8}));
  cpu::average_pool_gradient(p, y.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{0, 0, 0, 0, 0, 6, 0, 8}));
}

TEST(Upsampling, ByHand) {
  const cpu::Pooling p{.input = {1, 1, 2}, .output = {1, 2, 4}, .stride_y = 2, .stride_x = 2};
  std::vector<float> y(8), dx(2);
  cpu::upsample(p, ramp(2).data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{1, 1, 2, 2, 1, 1, 2, 2}));
  cpu::upsample_gradient(p, ramp(8).data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{1 + 2 + 5 + 6, 3 + 4 + 7 + 8}));
}

}  // namespace
}  // namespace weir::map_kernels_test
