// Three answers of one band, and the probabilities at its marks.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/fits.hpp"

#include <gtest/gtest.h>

namespace weir::fits_test {
namespace {

constexpr Bytes gib(std::int64_t count) { return Bytes(count << 30); }

// 60 GiB expected, 72 at most: an 80 GiB card holds it, a 64 GiB one perhaps, a 48 GiB one does
// not.
TEST(Fits, YesMaybeNo) {
  const MemoryBand band{gib(60), gib(72)};
  EXPECT_EQ(fits(band, gib(80)), Fits::yes);
  EXPECT_EQ(fits(band, gib(72)), Fits::yes);
  EXPECT_EQ(fits(band, gib(64)), Fits::maybe);
  EXPECT_EQ(fits(band, gib(60)), Fits::maybe);
  EXPECT_EQ(fits(band, gib(48)), Fits::no);
  EXPECT_EQ(to_string(Fits::maybe), "maybe");
}

// Half at the expectation, 95 % at the upper bound; 66 GiB is ln 1.1 / ln 1.2 = 0.523 of the way,
// so Phi(0.523 * 1.645) = Phi(0.860) = 0.805.
TEST(Fits, TheProbabilityIsLognormal) {
  const MemoryBand band{gib(60), gib(72)};
  EXPECT_NEAR(fits_probability(band, gib(60)), 0.5, 1e-9);
  EXPECT_NEAR(fits_probability(band, gib(72)), 0.95, 1e-4);
  EXPECT_NEAR(fits_probability(band, gib(66)), 0.805, 1e-3);
  EXPECT_NEAR(fits_probability(band, gib(50)), 0.05, 1e-4);  // 60 / 1.2
}

// Where nothing is in doubt, nothing between 0 and 1 is said.
TEST(Fits, WithoutABandItIsCertain) {
  EXPECT_EQ(fits_probability({gib(60), gib(60)}, gib(60)), 1);
  EXPECT_EQ(fits_probability({gib(60), gib(60)}, gib(59)), 0);
  EXPECT_EQ(fits({gib(60), gib(60)}, gib(59)), Fits::no);
}

}  // namespace
}  // namespace weir::fits_test
