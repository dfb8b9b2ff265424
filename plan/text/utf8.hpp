// Text is UTF-8. Whatever else is in a file or an argument is refused where it enters, so that no
// writer behind it meets it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace weir {

// The bytes of the first character of a text, 1 to 4; 0 where it begins with none: with a byte that
// no character has there, an overlong form, a surrogate, a number above U+10FFFF, or its middle.
[[nodiscard]] std::size_t utf8_character(std::string_view text);

// The first character of a text that is not empty, and the last: its number and its bytes. A byte
// that is no character's has a number above all of theirs.
struct Utf8Character {
  char32_t number;
  std::size_t bytes;
};
[[nodiscard]] Utf8Character first_character(std::string_view text);
[[nodiscard]] Utf8Character last_character(std::string_view text);

// How many characters a text has; and the bytes of its first `count`, at most all.
[[nodiscard]] std::size_t utf8_length(std::string_view text);
[[nodiscard]] std::size_t utf8_bytes(std::string_view text, std::size_t count);

// How much of a text is UTF-8: all of it, or what stands before the first byte that is not.
[[nodiscard]] std::size_t utf8_prefix(std::string_view text);

}  // namespace weir
