// Enumerators and their words in files and outputs, as a table of pairs: looked up by the one or by
// the other, never by an enumerator's number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace weir {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

// Precondition: `value` is in the table.
template <class Enum, std::size_t N>
[[nodiscard]] constexpr std::string_view name_of(const Names<Enum, N>& names, Enum value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return {};
}

// nullopt for a word that is not in the table.
template <class Enum, std::size_t N>
[[nodiscard]] constexpr std::optional<Enum> named(const Names<Enum, N>& names,
                                                  std::string_view word) {
  for (const auto& [value, name] : names) {
    if (name == word) return value;
  }
  return std::nullopt;
}

}  // namespace weir
