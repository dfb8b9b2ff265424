// Element-wise maths that compilers vectorise: plain loops over floats, compiled once per
// instruction set and chosen at run time (never by -march=native, so binaries can be carried). Sums
// use a fixed number of lanes, so results depend neither on the vector width nor on who calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "plan/words/multiversion.hpp"

#define WEIR_INLINE inline __attribute__((always_inline))

namespace weir {

// e^x for x <= 88, relative error below 2e-7: x = n ln 2 + r, |r| <= ln 2 / 2, e^r by its Taylor
// polynomial of degree 6.
WEIR_INLINE float fast_exp(float x) {
  x = x < -87.0F ? -87.0F : x;
  constexpr float kRound =
      12582912.0F;  // 1.5 * 2^23: adding and taking it away rounds to an integer
  const float n = (x * 1.44269504088896341F + kRound) - kRound;
  const float r =
      (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts, so that n ln 2 is exact
  float p = 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  return p * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

// tanh x = 1 - 2 / (e^2x + 1), clamped where float's tanh is 1.
WEIR_INLINE float fast_tanh(float x) {
  const float c = x > 9.0F ? 9.0F : (x < -9.0F ? -9.0F : x);
  return 1.0F - 2.0F / (fast_exp(2.0F * c) + 1.0F);
}

inline constexpr int kLanes = 16;

// Sum over i in [0, n) of term(i), in 16 lanes of `Number` that are added pairwise at the end.
template <class Number = float, class Term>
WEIR_INLINE Number lane_sum(std::int64_t n, Term term) {
  Number lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += term(i + l);
  }
  for (int l = 0; i < n; ++i, ++l) lanes[l] += term(i);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  }
  return lanes[0];
}

}  // namespace weir
