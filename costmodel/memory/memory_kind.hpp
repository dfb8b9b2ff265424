// What memory is held for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
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
// In the order of their declaration.
inline constexpr std::array kMemoryKinds{MemoryKind::weights,         MemoryKind::gradients,
                                         MemoryKind::optimizer_state, MemoryKind::activations,
                                         MemoryKind::rematerialised,  MemoryKind::workspace,
                                         MemoryKind::receive_slots,   MemoryKind::overhead};
[[nodiscard]] std::string_view to_string(MemoryKind kind);  // "weights", "optimizer_state", ...

// One value for each kind.
template <class T>
struct PerMemoryKind {
  std::array<T, kMemoryKinds.size()> values{};  // in the order of kMemoryKinds

  [[nodiscard]] constexpr T& operator[](MemoryKind kind) { return values[position(kind)]; }
  [[nodiscard]] constexpr const T& operator[](MemoryKind kind) const {
    return values[position(kind)];
  }
  constexpr PerMemoryKind& operator+=(const PerMemoryKind& other) {
    for (const MemoryKind kind : kMemoryKinds) (*this)[kind] += other[kind];
    return *this;
  }
  bool operator==(const PerMemoryKind&) const = default;

 private:
  static constexpr std::size_t position(MemoryKind kind) { return static_cast<std::size_t>(kind); }
};

}  // namespace weir
