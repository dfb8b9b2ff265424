// What cells do to maps beside convolutions and norms, against its definitions in double precision,
// number by number. Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/maps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::maps_test {
namespace {

template <class E>
class CudaKernelMaps : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelMaps, ElementTypes);

// Windows of 3 x 2 by steps of 2 and 1, which overlap and lie half beside the map; of one place by
// steps of two, between which places are in none, from the second row on; and the whole map.
// Channels that vectors hold and that they do not.
std::vector<Windows> all_windows() {
  std::vector<Windows> all;
  for (const std::int32_t channels : {3, 16}) {
    Windows overlapping{2, channels, 5, 6, 3, 6, 3, 2, 2, 1, 1, 1};
    overlapping.out_width = 7;
    const Windows apart{2, channels, 6, 5, 3, 3, 1, 1, 2, 2, -1, 0};
    const Windows whole{3, channels, 4, 5, 1, 1, 4, 5, 1, 1, 0, 0};
    all.insert(all.end(), {overlapping, apart, whole});
  }
  return all;
}

std::int64_t inputs(const Windows& w) {
  return std::int64_t{w.images} * w.in_height * w.in_width * w.channels;
}
std::int64_t outputs(const Windows& w) {
  return std::int64_t{w.images} * w.out_height * w.out_width * w.channels;
}

using Visit = std::function<void(std::int64_t output, std::int64_t input, int tap)>;

// visit(output's number, input's, which of the window) of all that lies on the map.
void each_pair(const Windows& w, const Visit& visit) {
  for (std::int64_t output = 0; output < outputs(w); ++output) {
    const std::int64_t c = output % w.channels, place = output / w.channels;
    const std::int64_t ox = place % w.out_width, oy = place / w.out_width % w.out_height;
    const std::int64_t image = place / w.out_width / w.out_height;
    for (int tap = 0; tap < w.kernel_y * w.kernel_x; ++tap) {
      const std::int64_t y = oy * w.stride_y - w.pad_y + tap / w.kernel_x;
      const std::int64_t x = ox * w.stride_x - w.pad_x + tap % w.kernel_x;
      if (y < 0 || y >= w.in_height || x < 0 || x >= w.in_width) continue;
      visit(output, ((image * w.in_height + y) * w.in_width + x) * w.channels + c, tap);
    }
  }
}

// Few different numbers, so that many are equal to their neighbours, and all below zero.
template <class E>
std::vector<float> with_ties(std::int64_t count) {
  std::vector<float> values = random_held<E>(count, 5);
  for (float& value : values) value = std::floor(2 * value) - 20;
  return values;
}

TYPED_TEST(CudaKernelMaps, MaximaAndTheirPlaces) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const Windows& w : all_windows()) {
    const std::vector<float> x = with_ties<E>(inputs(w)), dy = random_held<E>(outputs(w), 6);
    std::vector<double> y(size(outputs(w)), -std::numeric_limits<double>::infinity());
    std::vector<double> dx(x.size());
    std::vector<int> places(y.size());
    std::vector<std::int64_t> from(y.size());
    each_pair(w, [&](std::int64_t output, std::int64_t input, int tap) {
      if (x[size(input)] <= y[size(output)]) return;  // of equal ones the first
      y[size(output)] = x[size(input)];
      places[size(output)] = tap;
      from[size(output)] = input;
    });
    for (std::size_t i = 0; i < y.size(); ++i) dx[size(from[i])] += dy[i];
    const DeviceArray<E> x_in(to_elements<E>(x)), dy_in(to_elements<E>(dy));
    const DeviceArray<E> y_out(y.size()), dx_out(x.size());
    const DeviceArray<std::uint8_t> places_out(y.size());
    max_pool<E>(w, x_in.get(), y_out.get(), places_out.get(), nullptr);
    max_pool_gradient<E>(w, places_out.get(), dy_in.get(), dx_out.get(), nullptr);
    expect_close(host_floats(y_out), y, 0, 0);
    const std::vector<std::uint8_t> found = places_out.host();
    EXPECT_TRUE(std::equal(found.begin(), found.end(), places.begin()));
    expect_close(host_floats(dx_out), dx, kElement<E>);
  }
}

// Padding does not count.
TYPED_TEST(CudaKernelMaps, MeansOfWhatLiesOnTheMap) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const Windows& w : all_windows()) {
    const std::vector<float> x = random_held<E>(inputs(w), 7), dy = random_held<E>(outputs(w), 8);
    std::vector<double> y(size(outputs(w))), dx(x.size()), count(y.size());
    each_pair(w, [&](std::int64_t output, std::int64_t input, int) {
      y[size(output)] += x[size(input)];
      ++count[size(output)];
    });
    for (std::size_t i = 0; i < y.size(); ++i) y[i] /= count[i];
    each_pair(w, [&](std::int64_t output, std::int64_t input, int) {
      dx[size(input)] += dy[size(output)] / count[size(output)];
    });
    const DeviceArray<E> x_in(to_elements<E>(x)), dy_in(to_elements<E>(dy));
    const DeviceArray<E> y_out(y.size()), dx_out(x.size());
    average_pool<E>(w, x_in.get(), y_out.get(), nullptr);
    average_pool_gradient<E>(w, dy_in.get(), dx_out.get(), nullptr);
    expect_close(host_floats(y_out), y, kElement<E>);
    expect_close(host_floats(dx_out), dx, kElement<E>);
  }
}

// Each place becomes 2 x 3 equal ones, which are windows that do not overlap the other way round.
TYPED_TEST(CudaKernelMaps, UpsamplingAndItsSum) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const std::int32_t channels : {3, 16}) {
    const Windows w{2, channels, 3, 4, 6, 12, 1, 1, 2, 3, 0, 0};
    const Windows other{2, channels, 6, 12, 3, 4, 2, 3, 2, 3, 0, 0};
    const std::vector<float> x = random_held<E>(inputs(w), 9), dy = random_held<E>(outputs(w), 10);
    std::vector<double> y(size(outputs(w))), dx(x.size());
    each_pair(other, [&](std::int64_t place, std::int64_t copy, int) {
      y[size(copy)] = x[size(place)];
      dx[size(place)] += dy[size(copy)];
    });
    const DeviceArray<E> x_in(to_elements<E>(x)), dy_in(to_elements<E>(dy));
    const DeviceArray<E> y_out(y.size()), dx_out(x.size());
    upsample<E>(w, x_in.get(), y_out.get(), nullptr);
    upsample_gradient<E>(w, dy_in.get(), dx_out.get(), nullptr);
    expect_close(host_floats(y_out), y, 0, 0);
    expect_close(host_floats(dx_out), dx, kElement<E>);
  }
}

// 1005 numbers: the last byte has five signs. Zeros and numbers below have no gradient; what is no
// number stays that.
TYPED_TEST(CudaKernelMaps, SignsOfWhatIsRectified) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  constexpr std::int64_t kCount = 1005;
  std::vector<float> x = random_held<E>(kCount, 11);
  const std::vector<float> dy = random_held<E>(kCount, 12);
  x[17] = 0;
  const DeviceArray<E> dy_in(to_elements<E>(dy)), y(x.size()), dx(x.size());
  const DeviceArray<std::uint8_t> signs((x.size() + 7) / 8);
  std::vector<double> expected, gradient;
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected.push_back(std::max(x[i], 0.0F));
    gradient.push_back(x[i] > 0 ? dy[i] : 0);
  }
  const DeviceArray<E> x_in(to_elements<E>(x));
  rectify<E>(x_in.get(), kCount, y.get(), signs.get(), nullptr);
  rectify_gradient<E>(signs.get(), dy_in.get(), kCount, dx.get(), nullptr);
  expect_close(host_floats(y), expected, 0, 0);
  expect_close(host_floats(dx), gradient, 0, 0);
  x.front() = std::numeric_limits<float>::quiet_NaN();
  const DeviceArray<E> broken(to_elements<E>(x));
  rectify<E>(broken.get(), kCount, y.get(), signs.get(), nullptr);
  EXPECT_TRUE(std::isnan(host_floats(y).front()));
}

// A sum may take the place of either term.
TYPED_TEST(CudaKernelMaps, Sums) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const std::int64_t count : {1003, 4096}) {
    const std::vector<float> a = random_held<E>(count, 13), b = random_held<E>(count, 14);
    std::vector<double> expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(double{a[i]} + b[i]);
    const DeviceArray<E> a_in(to_elements<E>(a)), b_in(to_elements<E>(b)), y(a.size());
    add<E>(a_in.get(), b_in.get(), count, y.get(), nullptr);
    add<E>(a_in.get(), b_in.get(), count, a_in.get(), nullptr);
    expect_close(host_floats(y), expected, kElement<E>);
    EXPECT_EQ(host_floats(a_in), host_floats(y));
  }
}

// Columns 8 to 24 or 3 to 8 of rows, to columns 16 or 2 on of others; what is beside them stays.
TYPED_TEST(CudaKernelMaps, ColumnsComeToStandInOtherRows) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const Columns& c : {Columns{7, 16, 8, 32, 16, 40}, Columns{7, 5, 3, 9, 2, 8}}) {
    const std::vector<float> from = random_held<E>(c.rows * c.from_row, 15),
                             before = random_held<E>(c.rows * c.to_row, 16);
    std::vector<double> expected(before.begin(), before.end());
    for (std::int64_t row = 0; row < c.rows; ++row) {
      for (std::int64_t j = 0; j < c.width; ++j) {
        expected[size(row * c.to_row + c.to_offset + j)] =
            from[size(row * c.from_row + c.from_offset + j)];
      }
    }
    const DeviceArray<E> from_in(to_elements<E>(from)), to(to_elements<E>(before));
    copy_columns<E>(c, from_in.get(), to.get(), nullptr);
    expect_close(host_floats(to), expected, 0, 0);
  }
}

TYPED_TEST(CudaKernelMaps, NumbersOfImagesAreRounded) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const std::vector<float> images = random_floats(777, 17);
  const std::vector<float> expected = held<E>(images);
  const DeviceFloats in(images);
  const DeviceArray<E> rounded(images.size());
  const DeviceFloats back(images.size());
  convert(in.get(), 777, rounded.get(), nullptr);
  convert(rounded.get(), 777, back.get(), nullptr);
  EXPECT_EQ(host_floats(rounded), expected);
  EXPECT_EQ(back.host(), expected);
}

}  // namespace
}  // namespace weir::cuda::maps_test
