// What happens to an einsum's output element by element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir::cpu {

inline void relu(std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = x[i] > 0 ? x[i] : 0.0F;
}
// Zero where `by` is not above zero.
inline void mask(const float* by, std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = by[i] > 0 ? x[i] : 0.0F;
}
inline void accumulate(const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

}  // namespace weir::cpu
