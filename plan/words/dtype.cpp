// Names and widths of number formats.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/dtype.hpp"

#include <array>

namespace weir {
namespace {
constexpr std::array<std::string_view, 4> kNames{"fp32", "tf32", "bf16",
                                                 "fp16"};  // in the order of Dtype
}

std::string_view to_string(Dtype dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

std::optional<Dtype> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i]) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

}  // namespace weir
