// Number formats of tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir {

enum class Dtype : std::uint8_t {
  fp32,
  tf32,
  bf16,
  fp16
};  // tf32: stored as fp32, multiplied in tf32

[[nodiscard]] constexpr std::int64_t bytes_per_element(Dtype dtype) {
  return dtype == Dtype::fp32 || dtype == Dtype::tf32 ? 4 : 2;
}
[[nodiscard]] std::string_view to_string(Dtype dtype);
[[nodiscard]] std::optional<Dtype> parse_dtype(std::string_view text);

}  // namespace weir
