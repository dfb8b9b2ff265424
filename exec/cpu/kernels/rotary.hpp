// Rotary positions on one core: the turn of heads by a table (exec/training/rotary_tables).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir::cpu {

// Neighbouring heads of d numbers in each row of x; row r stands at position r % s.
struct HeadRows {
  std::int64_t rows = 0, s = 0, heads = 0, d = 0;
  std::int64_t stride = 0;  // numbers from a row to the next
};

// The way back is the gradient's: a turn is orthogonal.
enum class Turn : std::uint8_t { forth, back };
void rotate(const float* table, const HeadRows& heads, Turn turn, float* x);

}  // namespace weir::cpu
