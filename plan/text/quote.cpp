// Quoting, a function a language.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/quote.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/text/utf8.hpp"

namespace weir {
namespace {

// Of three bytes, e2 80 a8 to e2 80 ae and e2 81 a6 to e2 81 a9: they end a line or turn what
// follows around, so that a name is read as another.
bool steers_lines(std::string_view character) {
  if (character.size() != 3 || !character.starts_with('\xe2')) return false;
  const auto second = static_cast<unsigned char>(character[1]);
  const auto third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && third >= 0xa8 && third <= 0xae) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

}  // namespace

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
    } else if (steers_lines(text.substr(0, length))) {
      const auto second = static_cast<unsigned char>(text[1]);
      const auto third = static_cast<unsigned char>(text[2]);
      shown += fmt::format("\\u{:04x}", 0x2000 | (second & 0x3f) << 6 | (third & 0x3f));
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

std::string printable_in_line(std::string_view text) {
  std::string line;
  for (const char c : printable(text)) {
    // Which is all that steers and still stands: a message has lines.
    if (c == '\n') {
      line += "\\x0a";
    } else {
      line += c;
    }
  }
  return line;
}

std::string in_one_line(std::string_view message) {
  const auto drawn = [](std::string_view line) {
    return line.starts_with("  ") || line.starts_with("rank ") ||
           line.find(" waits for ") != std::string_view::npos;
  };
  std::string told;
  for (bool first = true; first || !message.empty(); first = false) {
    const std::size_t end = std::min(message.find('\n'), message.size());
    const std::string_view line = message.substr(0, end);
    if (!first) told += drawn(line) ? "\n" : "\\x0a";
    told += line;
    // What ends in a new line quotes it too.
    if (end + 1 == message.size()) told += "\\x0a";
    message.remove_prefix(std::min(end + 1, message.size()));
  }
  return told;
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
