// Fused attention on the CPU against double precision, over tiles that do and do not divide the
// sequence.
//
// Sums of some tens of products of order 1 carry an error of about 10 x 6e-8, and the exponential
// 2e-7 of its value; the gradients are sums of such: 2e-5 of the largest leaves room.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/fused_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/exec/cpu/attention_reference.hpp"

namespace weir::fused_attention_test {
namespace {

std::vector<float> random_values(std::size_t count, std::mt19937& engine) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

void expect_close(const std::vector<double>& expected, const std::vector<float>& found,
                  const char* what) {
  ASSERT_EQ(expected.size(), found.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 2e-5 * largest) << what << "[" << i << "]";
  }
}

// Every output and the scratch memory begin as NaN: what is read before it is written shows.
void check(std::int64_t s, std::int64_t heads, std::int64_t d, double probability,
           cpu::KeyMask keys = cpu::KeyMask::causal) {
  SCOPED_TRACE("s " + std::to_string(s) + ", d " + std::to_string(d) + ", dropout " +
               std::to_string(probability));
  cpu::AttentionSize size{2, s, heads, d};
  size.mask = keys;
  const DropoutMask mask = dropout_mask(probability, 11, 3, 1, 2, DropoutSite::attention);
  std::mt19937 engine(7);
  const auto n = static_cast<std::size_t>(2 * s * heads * d);
  const std::vector<float> qkv = random_values(3 * n, engine), d_context = random_values(n, engine);
  const reference::AttentionResult expected =
      reference::attention({2, s, heads, d, mask, keys == cpu::KeyMask::causal}, qkv, d_context);

  constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> context(n, kPoison),
      statistics(static_cast<std::size_t>(2 * heads * s), kPoison);
  std::vector<float> tiles(static_cast<std::size_t>(2 * size.tile_rows() * s), kPoison),
      d_qkv(3 * n, kPoison);
  cpu::Matmul matmul;
  cpu::prepare_fused(size, matmul);
  std::vector<char> scratch(static_cast<std::size_t>(matmul.scratch_bytes()) + 64);
  matmul.use_scratch(scratch.data());
  const cpu::FusedAttention fused{size,        mask, qkv.data(), context.data(), statistics.data(),
                                  tiles.data()};
  cpu::fused_forward(fused, matmul);
  expect_close(expected.context, context, "context");
  expect_close(expected.statistics, statistics, "statistics");
  std::fill(tiles.begin(), tiles.end(), kPoison);
  cpu::fused_backward(fused, d_context.data(), d_qkv.data(), matmul);
  expect_close(expected.d_qkv, d_qkv, "d_qkv");
}

// 3 heads of 5: tiles of 7 rows. 37 tokens: five whole tiles and one of 2; 7: one tile; 1: a single
// row.
TEST(FusedAttention, IsTheDefinitionOnTilesOfEveryKind) {
  for (const double probability : {0.0, 0.3}) {
    for (const std::int64_t s : {1, 7, 8, 37}) check(s, 3, 5, probability);
    check(150, 2, 64, probability);  // tiles of 64 rows
  }
}

// To both sides every tile sees every key: the last rows' overwrites their gradients, the others
// add.
TEST(FusedAttention, SeesAllKeysWhereNothingIsCausal) {
  for (const double probability : {0.0, 0.3}) {
    for (const std::int64_t s : {1, 7, 8, 37}) check(s, 3, 5, probability, cpu::KeyMask::none);
    check(150, 2, 64, probability, cpu::KeyMask::none);
  }
}

// Two tiles of a sample fit into its s x width, which is what the block lends them.
TEST(FusedAttention, TilesFitIntoASample) {
  EXPECT_EQ((cpu::AttentionSize{1, 1024, 12, 64}.tile_rows()), 64);
  EXPECT_EQ((cpu::AttentionSize{1, 8, 3, 5}.tile_rows()), 7);
  for (const std::int64_t width : {2, 3, 100, 127, 128, 768}) {
    EXPECT_LE((2 * cpu::AttentionSize{1, 16, 1, width}.tile_rows()), width);
  }
}

}  // namespace
}  // namespace weir::fused_attention_test
