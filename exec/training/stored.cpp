// fp32 values as they are stored: rounded to bf16, or as they are.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/stored.hpp"

#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace weir {

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value))
    return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // quiet: rounding might overflow it
  const std::uint32_t half =
      0x7FFFU + ((bits >> 16) & 1U);  // a tie goes up only from an odd upper half
  return static_cast<std::uint16_t>((bits + half) >> 16);
}

std::vector<std::byte> stored(std::span<const float> values, Dtype dtype) {
  assert(dtype != Dtype::fp16 && "no backend computes in fp16");
  if (dtype != Dtype::bf16) {
    const auto raw = std::as_bytes(values);
    return {raw.begin(), raw.end()};
  }
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(bytes_per_element(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t rounded = to_bf16(values[i]);
    std::memcpy(&bytes[2 * i], &rounded, 2);
  }
  return bytes;
}

}  // namespace weir
