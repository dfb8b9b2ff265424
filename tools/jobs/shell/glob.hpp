// A shell's patterns: * ? [a-z] [!a-z] [[:digit:]] and \ before a character that stands for itself
// (POSIX 2.14, fnmatch without flags). A pattern is a list of places, and all places that a text
// may have come to are carried along together, so that a match takes text times pattern and no
// more. Characters are those of UTF-8, as in bash's usual locales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/jobs/bounds/budget.hpp"

namespace weir {

class Glob {
 public:
  // The budget outlives the pattern.
  Glob(std::string_view pattern, Budget& budget);

  [[nodiscard]] bool matches(std::string_view text) const;
  enum class Length { shortest, longest };
  // How many bytes of the text's beginning, or of its end, match; nullopt: nothing does.
  [[nodiscard]] std::optional<std::size_t> prefix(std::string_view text, Length which) const;
  [[nodiscard]] std::optional<std::size_t> suffix(std::string_view text, Length which) const;
  // Whether what does not match at one place matches at no later one: a star is first.
  [[nodiscard]] bool is_anywhere() const { return !places_.empty() && places_.front().star; }

 private:
  // What one place takes: of ASCII a set, of other characters those named, or all but those.
  struct Characters {
    std::bitset<128> ascii;
    // First and last, ascending and apart once they are sorted: a bracket may name thousands, and
    // each character of a text is looked up.
    std::vector<std::pair<char32_t, char32_t>> named;
    bool others = false;
    [[nodiscard]] bool has(char32_t character) const;
    void add(char32_t first, char32_t last);
    void sort();
  };
  struct Place {
    bool star = false;
    Characters takes;
  };
  // "[...]" at the beginning of the pattern, and behind it; nullopt where the bracket is none.
  static std::optional<std::pair<Characters, std::size_t>> bracket(std::string_view pattern);
  template <class Text>
  std::optional<std::size_t> run(const Text& text, Length which, bool reversed) const;

  std::vector<Place> places_;
  Budget& budget_;
};

}  // namespace weir
