// What the embedding of images launches beside its products, against its definitions in double
// precision. Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/patches.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::patches_test {
namespace {

template <class E>
class CudaKernelPatches : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelPatches, ElementTypes);

// Each pixel's channels are numbered, so that a number says where it comes from: of two images of
// 7 x 9 and patches of 3 x 3, a row is in none. An exact copy in fp32, a rounded one in bf16.
TYPED_TEST(CudaKernelPatches, AreUnfolded) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  constexpr std::int64_t kImages = 2, kHeight = 7, kWidth = 9, kChannels = 3, kSide = 3;
  const PatchGrid grid{kImages, kHeight, kWidth, kChannels, kSide};
  ASSERT_EQ(grid.patches(), 6);
  ASSERT_EQ(grid.numbers(), 27);
  std::vector<float> pixels;
  for (std::int64_t i = 0; i < kImages * kHeight * kWidth * kChannels; ++i)
    pixels.push_back(static_cast<float>(i));
  const DeviceFloats images(pixels);
  const DeviceArray<E> patches(size(kImages * grid.patches() * grid.numbers()));
  unfold<E>(images.get(), grid, patches.get(), nullptr);
  std::vector<double> expected;
  for (std::int64_t image = 0; image < kImages; ++image) {
    for (std::int64_t patch = 0; patch < 6; ++patch) {
      for (std::int64_t channel = 0; channel < kChannels; ++channel) {
        for (std::int64_t y = patch / 3 * kSide; y < patch / 3 * kSide + kSide; ++y) {
          for (std::int64_t x = patch % 3 * kSide; x < patch % 3 * kSide + kSide; ++x) {
            const std::int64_t number = ((image * kHeight + y) * kWidth + x) * kChannels + channel;
            expected.push_back(static_cast<float>(static_cast<E>(static_cast<float>(number))));
          }
        }
      }
    }
  }
  expect_close(host_floats(patches), expected, 0, 0);
}

// Rows of 36 numbers, which no vectors hold in bf16, and of 64. Where the class token comes to
// stand is poison on the way in.
TYPED_TEST(CudaKernelPatches, StandBehindTheClassToken) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  constexpr std::int64_t kImages = 3, kRows = 5;
  const StepOnDevice step(1);
  const DropoutMask mask = step.mask(0.2, DropoutSite::embedding);
  for (const std::int64_t h : {36, 64}) {
    const auto token = random_held<E>(h, 3), bias = random_held<E>(h, 4),
               position = random_held<E>(kRows * h, 5);
    std::vector<float> products = random_held<E>(kImages * kRows * h, 6);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < kImages * kRows * h; ++i) {
      const std::int64_t row = i / h % kRows, j = i % h;
      const double first = token[size(j)], other = double{products[size(i)]} + bias[size(j)];
      expected.push_back(((row == 0 ? first : other) + position[size(row * h + j)]) *
                         mask.factor(static_cast<std::uint64_t>(i)));
      if (row == 0) products[size(i)] = std::numeric_limits<float>::quiet_NaN();
    }
    const DeviceArray<E> token_in(to_elements<E>(token)), bias_in(to_elements<E>(bias)),
        position_in(to_elements<E>(position)), y(to_elements<E>(products));
    place_patches<E>({token_in.get(), bias_in.get(), position_in.get()}, kImages, {kRows, h},
                     step.on_device(mask), y.get(), nullptr);
    expect_close(host_floats(y), expected, kElement<E>);
  }
}

}  // namespace
}  // namespace weir::cuda::patches_test
