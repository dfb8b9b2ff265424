// A shell's patterns: * ? [a-z] [!a-z] [[:digit:]] and \ before a character that stands for itself
// (POSIX 2.14, fnmatch without flags). A pattern is a list of places, and all places that a text
// may have come to are carried along together, so that a match takes text times pattern and no
// more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/jobs/bounds/budget.hpp"

namespace weir {

class Glob {
 public:
  // The budget outlives the pattern.
  Glob(std::string_view pattern, Budget& budget);

  [[nodiscard]] bool matches(std::string_view text) const;
  enum class Length { shortest, longest };
  // How much of the text's beginning, or of its end, matches; nullopt: nothing does.
  [[nodiscard]] std::optional<std::size_t> prefix(std::string_view text, Length which) const;
  [[nodiscard]] std::optional<std::size_t> suffix(std::string_view text, Length which) const;
  // Whether what does not match at one place matches at no later one: a star is first.
  [[nodiscard]] bool is_anywhere() const { return !places_.empty() && places_.front().star; }

 private:
  struct Place {
    bool star = false;
    std::bitset<256> takes;
  };
  template <class Text>
  std::optional<std::size_t> run(const Text& text, Length which, bool reversed) const;

  std::vector<Place> places_;
  Budget& budget_;
};

}  // namespace weir
