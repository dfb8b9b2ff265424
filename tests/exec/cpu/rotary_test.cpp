// Rotary positions: the worked example of docs/theory.md 5.5, and a turn that is undone.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/rotary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/training/rotary_tables.hpp"

namespace weir::rotary_test {
namespace {

std::vector<float> frequencies(const RotaryAngles& angles) {
  std::vector<float> result(3);
  rotary_frequencies(angles, 6, result);
  return result;
}

// fp32 rounds to 6e-8 of each.
void expect_frequencies(const RotaryAngles& angles, const std::vector<double>& expected) {
  const std::vector<float> found = frequencies(angles);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 2e-7 * expected[i]) << i;
}

TEST(Rotary, FrequenciesAreTheoryFiveFive) {
  const double second = std::pow(10, -4.0 / 3), third = std::pow(10, -8.0 / 3);
  expect_frequencies({}, {1, second, third});
  expect_frequencies({.scaling = RotaryScaling::linear, .factor = 4},
                     {0.25, second / 4, third / 4});
  // 40.74 turns over 256 positions are kept, 0.0878 slowed; 1.8912 stand 0.2971 of the way.
  const double share = (256 * second / (2 * M_PI) - 1) / 3;
  EXPECT_NEAR(share, 0.2971, 5e-5);
  expect_frequencies({.scaling = RotaryScaling::llama3, .factor = 8, .original_positions = 256},
                     {1, (1 - share) * second / 8 + share * second, third / 8});
}

// A head of 4 at position 2 turns its pairs (0, 2) and (1, 3) by 2 and by 2 / 100; back again, it
// is what it was. What stands behind the heads stays.
TEST(Rotary, TurnsHalvesAgainstEachOtherAndBack) {
  RotaryTables tables;
  tables.prepare({}, 4, 3);
  std::vector<float> memory(static_cast<std::size_t>(tables.bytes()) / 4);
  ASSERT_EQ(memory.size(), 12U);
  tables.use(memory.data(), [](float* to, const std::vector<float>& table) {
    std::copy(table.begin(), table.end(), to);
  });
  std::vector<float> x(15, 0.0F);
  for (std::size_t i = 10; i < 15; ++i) x[i] = static_cast<float>(i - 9);  // 1 2 3 4, 5 behind
  const std::vector<float> before = x;
  const cpu::HeadRows heads{.rows = 3, .s = 3, .heads = 1, .d = 4, .stride = 5};
  rotate(tables.table({}, 4, 3), heads, cpu::Turn::forth, x.data());
  EXPECT_NEAR(x[10], 1 * std::cos(2.0) - 3 * std::sin(2.0), 1e-6);
  EXPECT_NEAR(x[12], 3 * std::cos(2.0) + 1 * std::sin(2.0), 1e-6);
  EXPECT_NEAR(x[11], 2 * std::cos(0.02) - 4 * std::sin(0.02), 1e-6);
  EXPECT_NEAR(x[13], 4 * std::cos(0.02) + 2 * std::sin(0.02), 1e-6);
  EXPECT_EQ(x[14], 5.0F);
  rotate(tables.table({}, 4, 3), heads, cpu::Turn::back, x.data());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], before[i], 1e-6) << i;
}

}  // namespace
}  // namespace weir::rotary_test
