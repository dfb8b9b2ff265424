// The generator against the published known answers, and the mask against its own definition.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/philox.hpp"

#include <gtest/gtest.h>

namespace weir::philox_test {
namespace {

void expect_words(const PhiloxBlock& got, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                  std::uint32_t d) {
  EXPECT_EQ(got.word[0], a);
  EXPECT_EQ(got.word[1], b);
  EXPECT_EQ(got.word[2], c);
  EXPECT_EQ(got.word[3], d);
}

// The three rows for philox4x32, 10 rounds, of the known-answer file of the paper's library
// (Random123).
TEST(Philox, GivesThePublishedKnownAnswers) {
  expect_words(philox4x32_10({{0, 0, 0, 0}}, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  expect_words(philox4x32_10({{~0U, ~0U, ~0U, ~0U}}, ~std::uint64_t{0}), 0x408f276d, 0x41c83b0e,
               0xa20bc7c6, 0x6d5451fd);
  expect_words(
      philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822ULL),
      0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

// A kept element is scaled by 1 / (1 - 1/4) = 4/3. Of 40,000 elements 10,000 are dropped, give or
// take 6 standard deviations of a binomial: 6 * sqrt(40000 * 1/4 * 3/4) = 520.
TEST(DropoutMask, DropsTheAskedShareAndScalesTheRest) {
  const DropoutMask mask = dropout_mask(0.25, 7, 3, 2, 5, DropoutSite::mlp_output);
  int dropped = 0;
  for (std::uint64_t i = 0; i < 40000; ++i) {
    const float factor = mask.factor(i);
    dropped += factor == 0.0F ? 1 : 0;
    EXPECT_TRUE(factor == 0.0F || factor == static_cast<float>(4.0 / 3.0));
  }
  EXPECT_NEAR(dropped, 10000, 520);
}

// Two masks that differ in one of step, micro-batch, layer, site or seed agree only by chance: of
// 4096 elements with probability 1/2 each, 2048 +- 6 * 32 agree.
TEST(DropoutMask, EveryCoordinateChangesTheMask) {
  const DropoutMask base = dropout_mask(0.5, 1, 1, 1, 1, DropoutSite::embedding);
  const DropoutMask others[] = {dropout_mask(0.5, 2, 1, 1, 1, DropoutSite::embedding),
                                dropout_mask(0.5, 1, 2, 1, 1, DropoutSite::embedding),
                                dropout_mask(0.5, 1, 1, 2, 1, DropoutSite::embedding),
                                dropout_mask(0.5, 1, 1, 1, 2, DropoutSite::embedding),
                                dropout_mask(0.5, 1, 1, 1, 1, DropoutSite::attention)};
  for (const DropoutMask& other : others) {
    int agree = 0;
    for (std::uint64_t i = 0; i < 4096; ++i) agree += base.factor(i) == other.factor(i) ? 1 : 0;
    EXPECT_NEAR(agree, 2048, 192);
  }
}

TEST(DropoutMask, ProbabilityZeroDropsNothing) {
  const DropoutMask mask = dropout_mask(0.0, 1, 1, 1, 1, DropoutSite::embedding);
  EXPECT_FALSE(mask.active());
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(mask.factor(i), 1.0F);
}

}  // namespace
}  // namespace weir::philox_test
