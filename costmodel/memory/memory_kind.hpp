// What memory is held for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir {

enum class MemoryKind : std::uint8_t {
  weights,
  gradients,
  optimizer_state,
  activations,
  rematerialised,
  workspace,
  receive_slots,
  overhead,  // of the process: its device context and libraries
};
inline constexpr std::size_t kMemoryKinds = 8;
[[nodiscard]] std::string_view to_string(MemoryKind kind);  // "weights", "optimizer_state", ...

}  // namespace weir
