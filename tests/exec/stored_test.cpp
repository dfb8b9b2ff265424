// bf16 is the upper half of a float: sign, 8 bits of exponent, 7 of fraction.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/stored.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

namespace weir::stored_test {
namespace {

// Between 1 and 2 numbers are 2^-7 apart. 1 + 2^-8 lies half-way: to the even neighbour, 1; 1 + 3 *
// 2^-8 lies half-way between an odd one and the even 1 + 2^-6; a little above half-way goes up. The
// largest float rounds to infinity.
TEST(Stored, Bf16RoundsToNearestTiesToEven) {
  EXPECT_EQ(to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(to_bf16(-2.0F), 0xC000);
  EXPECT_EQ(to_bf16(1.00390625F), 0x3F80);
  EXPECT_EQ(to_bf16(1.01171875F), 0x3F82);
  EXPECT_EQ(to_bf16(1.0039064F), 0x3F81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7F80);
}

// All fraction bits below the half that is kept: rounding alone would make an infinity of it.
TEST(Stored, ANanStaysOne) {
  const std::uint32_t bits = 0x7F800001;
  float nan = 0;
  std::memcpy(&nan, &bits, 4);
  EXPECT_EQ(to_bf16(nan), 0x7FC0);
}

TEST(Stored, BytesOfEachDtype) {
  const std::array<float, 2> values{1.0F, 1.01171875F};
  EXPECT_EQ(
      stored(values, Dtype::bf16),
      (std::vector<std::byte>{std::byte{0x80}, std::byte{0x3F}, std::byte{0x82}, std::byte{0x3F}}));
  for (const Dtype dtype : {Dtype::fp32, Dtype::tf32}) {
    const std::vector<std::byte> bytes = stored(values, dtype);
    ASSERT_EQ(bytes.size(), 8U);
    const auto as_they_are = std::as_bytes(std::span(values));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), as_they_are.begin()));
  }
}

}  // namespace
}  // namespace weir::stored_test
