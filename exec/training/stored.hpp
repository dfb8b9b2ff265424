// Numbers as a tensor of a dtype holds them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/words/dtype.hpp"

namespace weir {

// The upper half of a float, rounded to nearest, ties to even; a NaN stays one.
[[nodiscard]] std::uint16_t to_bf16(float value);

// fp32 and tf32: the floats themselves; bf16: rounded. Precondition: not fp16, which no backend
// computes in.
[[nodiscard]] std::vector<std::byte> stored(std::span<const float> values, Dtype dtype);

}  // namespace weir
