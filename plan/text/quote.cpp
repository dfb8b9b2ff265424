// Quoting, a function a language.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/quote.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/text/utf8.hpp"

namespace weir {

std::string shell_quoted(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    // A quote cannot stand within quotes: they end, it stands escaped, they begin again.
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string csv_quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_character(text);
    const auto first = static_cast<unsigned char>(text.front());
    // The second half of the controls, U+0080 to U+009F, is c2 80 to c2 9f.
    const bool upper = length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0 || (first < 0x20 && first != '\n') || first == 0x7f) {
      shown += fmt::format("\\x{:02x}", first);
    } else if (upper) {
      shown += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[1]));
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kLongest = 1000, kHead = 700, kTail = 250;
  const std::size_t line = std::min(text.find('\n'), text.size());
  if (line <= kLongest) return std::string(text);
  // Neither part begins or ends within a character: bytes 10xxxxxx continue one.
  const auto continues = [&text](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  std::size_t head = kHead, tail = line - kTail;
  while (head > 0 && continues(head)) --head;
  while (tail < line && continues(tail)) ++tail;
  return fmt::format("{} [{} bytes left out] {}", text.substr(0, head), tail - head,
                     text.substr(tail));
}

}  // namespace weir
