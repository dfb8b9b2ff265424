// The loop that turns heads.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/rotary.hpp"

#include "exec/cpu/kernels/vector_math.hpp"

namespace weir::cpu {
namespace {

WEIR_MULTIVERSION void rotate_rows(const float* table, const HeadRows& z, float sign, float* x) {
  const std::int64_t half = z.d / 2;
  for (std::int64_t row = 0; row < z.rows; ++row) {
    const float* cosine = table + row % z.s * z.d;
    const float* sine = cosine + half;
    for (std::int64_t head = 0; head < z.heads; ++head) {
      float* a = x + row * z.stride + head * z.d;
      float* b = a + half;
#pragma GCC ivdep
      // The halves of a head do not overlap, which the compiler cannot know.
      for (std::int64_t i = 0; i < half; ++i) {
        const float first = a[i], second = b[i], turn = sign * sine[i];
        a[i] = first * cosine[i] - second * turn;
        b[i] = second * cosine[i] + first * turn;
      }
    }
  }
}

}  // namespace

void rotate(const float* table, const HeadRows& heads, Turn turn, float* x) {
  rotate_rows(table, heads, turn == Turn::forth ? 1.0F : -1.0F, x);
}

}  // namespace weir::cpu
