// RMS norms of each head's query or key (Qwen3), between the product that makes them and their turn
// to positions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/rotary.hpp"

namespace weir::cpu {

// What the norm keeps of its heads for the backward: row r's heads at raw + r * raw_stride, 1 / rms
// of each at statistics + r * statistics_stride.
struct KeptHeads {
  float* raw = nullptr;
  float* statistics = nullptr;
  std::int64_t raw_stride = 0, statistics_stride = 0;
};

// x = x / rms(x) * gain in place, what was there kept.
void norm_heads(const HeadRows& heads, const float* gain, float epsilon, const KeptHeads& kept,
                float* x);
// In place of dy, dx; and, overwritten, the gradient of the gain, summed over rows and heads.
void norm_heads_gradient(const HeadRows& heads, const float* gain, const KeptHeads& kept, float* dx,
                         float* gain_gradient);

}  // namespace weir::cpu
