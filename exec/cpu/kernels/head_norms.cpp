// The norms of single heads, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/head_norms.hpp"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/vector_math.hpp"

namespace weir::cpu {

WEIR_MULTIVERSION void norm_heads(const HeadRows& z, const float* gain, float epsilon,
                                  const KeptHeads& kept, float* x) {
  for (std::int64_t row = 0; row < z.rows; ++row) {
    for (std::int64_t head = 0; head < z.heads; ++head) {
      float* values = x + row * z.stride + head * z.d;
      float* raw = kept.raw + row * kept.raw_stride + head * z.d;
      std::copy(values, values + z.d, raw);
      const float square = lane_sum(z.d, [raw](std::int64_t i) { return raw[i] * raw[i]; }) /
                           static_cast<float>(z.d);
      const float inverse = 1.0F / std::sqrt(square + epsilon);
      for (std::int64_t i = 0; i < z.d; ++i) values[i] = raw[i] * inverse * gain[i];
      kept.statistics[row * kept.statistics_stride + head] = inverse;
    }
  }
}

// As rms_norm_gradient (exec/cpu/kernels/kernels), head by head.
WEIR_MULTIVERSION void norm_heads_gradient(const HeadRows& z, const float* gain,
                                           const KeptHeads& kept, float* dx, float* gain_gradient) {
  std::fill(gain_gradient, gain_gradient + z.d, 0.0F);
  for (std::int64_t row = 0; row < z.rows; ++row) {
    for (std::int64_t head = 0; head < z.heads; ++head) {
      float* d = dx + row * z.stride + head * z.d;
      const float* raw = kept.raw + row * kept.raw_stride + head * z.d;
      const float inverse = kept.statistics[row * kept.statistics_stride + head];
      // mean(g z), before d is overwritten.
      const float dot =
          lane_sum(z.d, [=](std::int64_t i) { return d[i] * gain[i] * raw[i] * inverse; }) /
          static_cast<float>(z.d);
      for (std::int64_t i = 0; i < z.d; ++i) {
        const float normed = raw[i] * inverse;
        // The gain's gradient takes dy, which the next line replaces by dx.
        gain_gradient[i] += d[i] * normed;
        d[i] = (d[i] * gain[i] - normed * dot) * inverse;
      }
    }
  }
}

}  // namespace weir::cpu
