// Initial weights are numbers of their place alone, whichever core makes them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/parameters.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "exec/training/philox.hpp"

namespace weir::parameters_test {
namespace {

// 3 * 2^20 + 5 numbers are enough for several threads, and odd. Element i is half of what counter i
// - i % 2 makes: deviation * sqrt(-2 log u) times the cosine or the sine of 2 pi v.
TEST(InitialValues, AreNumbersOfTheirPlace) {
  constexpr std::size_t kCount = (std::size_t{3} << 20) + 5;
  constexpr std::uint32_t kLayer = 2, kTensor = 3, kStream = 0x696e6974;
  Model model;
  model.initializer_range = 0.02;
  ParameterTensor parameter;
  parameter.shape = {static_cast<std::int64_t>(kCount)};
  const std::vector<float> values = initial_values(model, parameter, kLayer, kTensor, 11);
  ASSERT_EQ(values.size(), kCount);
  const auto expected = [](std::size_t i) {
    const auto counter = static_cast<std::uint32_t>(i - i % 2);
    const PhiloxBlock block =
        philox4x32_10(PhiloxBlock{{counter, 0, kLayer * 64 + kTensor, kStream}}, 11);
    const double radius = std::sqrt(-2 * std::log((block.word[0] + 1.0) / 4294967296.0));
    const double angle = 2 * std::numbers::pi * (block.word[1] / 4294967296.0);
    return static_cast<float>(0.02 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
  };
  for (std::size_t i = 0; i < kCount; i += 101) ASSERT_EQ(values[i], expected(i)) << i;
  for (std::size_t threads = 1; threads <= 3; ++threads) {  // about where shares may meet
    const std::size_t middle = kCount / threads;
    for (std::size_t i = middle - 8; i < std::min(middle + 8, kCount); ++i)
      ASSERT_EQ(values[i], expected(i)) << i;
  }
}

}  // namespace
}  // namespace weir::parameters_test
