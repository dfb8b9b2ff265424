// Batch norms against their definition in double precision: channels that vectors hold and that
// they do not, fewer and more than a warp has, rows of several parts. Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/map_norms.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::map_norms_test {
namespace {

constexpr double kEpsilon = 1e-3;

template <class E>
class CudaKernelMapNorms : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelMapNorms, ElementTypes);

const std::vector<Rows> kSizes = {{331, 3}, {331, 16}, {75, 264}, {1, 8}};

// Means of 3 beside deviations of 1, so that squares taken from zero would show.
template <class E>
std::vector<float> maps(const Rows& size_of) {
  std::vector<float> x = random_floats(size(size_of.rows * size_of.width), 21);
  for (float& value : x) value += 3;
  return held<E>(x);
}

struct Channel {
  double mean = 0, variance = 0;
};
std::vector<Channel> channels_of(const std::vector<float>& x, const Rows& of) {
  std::vector<Channel> channels(size(of.width));
  const auto rows = static_cast<double>(of.rows);
  for (std::size_t i = 0; i < x.size(); ++i) channels[i % channels.size()].mean += x[i] / rows;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Channel& c = channels[i % channels.size()];
    c.variance += (x[i] - c.mean) * (x[i] - c.mean) / rows;
  }
  return channels;
}

std::vector<float> moments_of(const std::vector<Channel>& channels) {
  std::vector<float> moments;
  for (const Channel& c : channels) moments.push_back(static_cast<float>(c.mean));
  for (const Channel& c : channels) moments.push_back(static_cast<float>(c.variance));
  return moments;
}

TYPED_TEST(CudaKernelMapNorms, Moments) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const Rows& of : kSizes) {
    const std::vector<float> x = maps<E>(of), expected = moments_of(channels_of(x, of));
    const DeviceArray<E> x_in(to_elements<E>(x));
    const DeviceFloats partials(size(norm_partials(of))), moments(size(2 * of.width));
    channel_moments<E>(x_in.get(), of, partials.get(), moments.get(), nullptr);
    expect_close(moments.host(), {expected.begin(), expected.end()}, kSum<float>);
  }
}

// Parts of 64 rows, of which there are 521: each takes two more.
TYPED_TEST(CudaKernelMapNorms, MomentsOfManyRows) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const Rows of{521 * kLeastOfPart, 1};
  ASSERT_EQ(rows_of_part(of.rows), 66);
  const std::vector<float> x = maps<E>(of), expected = moments_of(channels_of(x, of));
  const DeviceArray<E> x_in(to_elements<E>(x));
  const DeviceFloats partials(size(norm_partials(of))), moments(2);
  channel_moments<E>(x_in.get(), of, partials.get(), moments.get(), nullptr);
  expect_close(moments.host(), {expected.begin(), expected.end()}, kSum<float>);
}

TYPED_TEST(CudaKernelMapNorms, Forward) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const Rows& of : kSizes) {
    const std::vector<float> x = maps<E>(of), gain = random_held<E>(of.width, 22),
                             shift = random_held<E>(of.width, 23);
    const std::vector<Channel> channels = channels_of(x, of);
    std::vector<double> expected;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i % channels.size();
      expected.push_back((x[i] - channels[c].mean) / std::sqrt(channels[c].variance + kEpsilon) *
                             gain[c] +
                         shift[c]);
    }
    const DeviceArray<E> x_in(to_elements<E>(x)), gain_in(to_elements<E>(gain)),
        shift_in(to_elements<E>(shift)), y(x.size());
    const DeviceFloats moments(moments_of(channels));
    batch_norm<E>({x_in.get(), moments.get(), gain_in.get(), shift_in.get(), kEpsilon}, of, y.get(),
                  nullptr);
    expect_close(host_floats(y), expected, kElement<E>, 4);
  }
}

// Ioffe and Szegedy's formulas, term by term.
TYPED_TEST(CudaKernelMapNorms, Gradient) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const Rows& of : kSizes) {
    const std::vector<float> x = maps<E>(of), gain = random_held<E>(of.width, 24),
                             dy = random_held<E>(of.rows * of.width, 25);
    const std::vector<Channel> channels = channels_of(x, of);
    const std::size_t width = channels.size();
    const auto rows = static_cast<double>(of.rows);
    const auto inverse = [&](std::size_t c) {
      return 1 / std::sqrt(channels[c].variance + kEpsilon);
    };
    std::vector<double> gradients(2 * width), dx;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i % width;
      gradients[c] += dy[i] * (x[i] - channels[c].mean) * inverse(c);
      gradients[width + c] += dy[i];
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i % width;
      const double z = (x[i] - channels[c].mean) * inverse(c);
      dx.push_back(gain[c] * inverse(c) *
                   (dy[i] - gradients[width + c] / rows - z * gradients[c] / rows));
    }
    const DeviceArray<E> x_in(to_elements<E>(x)), gain_in(to_elements<E>(gain)),
        dy_in(to_elements<E>(dy)), dx_out(x.size());
    const DeviceFloats moments(moments_of(channels)), partials(size(norm_partials(of))),
        found(gradients.size());
    batch_norm_gradient<E>({x_in.get(), moments.get(), gain_in.get(), kEpsilon, dy_in.get(),
                            dx_out.get(), found.get(), partials.get()},
                           of, nullptr);
    expect_close(found.host(), gradients, kSum<float>, std::sqrt(rows));
    expect_close(host_floats(dx_out), dx, kSum<E>, 4);
  }
}

// Three micro-batches of a quarter, a quarter and a half of a mini-batch, whose moments are known,
// and running statistics that lie elsewhere; in bf16 the weights that W reads are not quite the
// masters. By hand: of all, the mean is the shares' mean, the variance the mean square about it.
TYPED_TEST(CudaKernelMapNorms, RunningStatisticsMoveTowardsTheMiniBatchs) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  constexpr std::int64_t kChannels = 300, kPlaces = 40;
  constexpr double kMomentum = 0.1;
  const float shares[] = {0.25F, 0.25F, 0.5F};
  const std::vector<float> master = random_floats(2 * kChannels, 26);
  const DeviceFloats running(master);
  const DeviceArray<E> working(to_elements<E>(master));
  // Two replicas' sums: the first's of two micro-batches.
  const DeviceFloats sums(2 * kChannels), other_sums(2 * kChannels);
  std::vector<double> mean(kChannels), square(kChannels);
  for (int part = 0; part < 3; ++part) {
    std::vector<float> moments = random_floats(2 * kChannels, 27 + static_cast<unsigned>(part));
    for (std::int64_t c = 0; c < kChannels; ++c) {
      float& variance = moments[size(kChannels + c)];
      variance = std::abs(variance);
      const double m = moments[size(c)];
      mean[size(c)] += shares[part] * m;
      square[size(c)] += shares[part] * (variance + m * m);
    }
    const DeviceFloats moments_in(moments);
    add_moments<E>(moments_in.get(), working.get(), kChannels, shares[part],
                   part == 1 ? Beta::one : Beta::zero, (part == 2 ? other_sums : sums).get(),
                   nullptr);
  }
  const double unbiased = kPlaces / (kPlaces - 1.0);
  std::vector<double> expected;
  for (std::size_t c = 0; c < kChannels; ++c)
    expected.push_back(master[c] + kMomentum * (mean[c] - master[c]));
  for (std::size_t c = 0; c < kChannels; ++c) {
    const double variance = (square[c] - mean[c] * mean[c]) * unbiased, old = master[kChannels + c];
    expected.push_back(old + kMomentum * (variance - old));
  }
  Bf16* copy = nullptr;
  if constexpr (sizeof(E) == 2) copy = working.get();
  move_statistics(
      {{{sums.get(), other_sums.get()}, 2}, kChannels, {running.get(), copy}, kMomentum, unbiased},
      nullptr);
  expect_close(running.host(), expected, 1e-5);
  if (copy != nullptr) {
    EXPECT_EQ(host_floats(working), held<E>(running.host()));
  }
}

}  // namespace
}  // namespace weir::cuda::map_norms_test
