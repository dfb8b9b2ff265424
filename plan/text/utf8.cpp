// The well-formed byte sequences of the Unicode Standard, table 3-7.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/utf8.hpp"

#include <algorithm>

namespace weir {
namespace {

struct Lead {
  unsigned char low, high;  // of the first byte
  std::size_t length;
  unsigned char second_low, second_high;  // of the second; the others are 80..BF
};

constexpr Lead kLeads[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

bool within(char byte, unsigned char low, unsigned char high) {
  const auto value = static_cast<unsigned char>(byte);
  return value >= low && value <= high;
}

}  // namespace

std::size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  for (const Lead& lead : kLeads) {
    if (!within(text.front(), lead.low, lead.high)) continue;
    if (text.size() < lead.length) return 0;
    for (std::size_t i = 1; i < lead.length; ++i) {
      const bool second = i == 1;
      if (!within(text[i], second ? lead.second_low : 0x80, second ? lead.second_high : 0xbf))
        return 0;
    }
    return lead.length;
  }
  return 0;
}

Utf8Character first_character(std::string_view text) {
  constexpr char32_t kNone = 0x110000;  // above all that Unicode has
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::size_t bytes = utf8_character(text);
  if (bytes == 0) return {kNone + byte(0), 1};
  if (bytes == 1) return {byte(0), 1};
  // Of the first byte what its length leaves, of the others six bits each.
  char32_t number = byte(0) & ((1U << (7 - bytes)) - 1);
  for (std::size_t i = 1; i < bytes; ++i) number = (number << 6) | (byte(i) & 0x3f);
  return {number, bytes};
}

Utf8Character last_character(std::string_view text) {
  for (std::size_t bytes = std::min<std::size_t>(4, text.size()); bytes > 1; --bytes) {
    const std::string_view end = text.substr(text.size() - bytes);
    if (utf8_character(end) == bytes) return first_character(end);
  }
  return first_character(text.substr(text.size() - 1));
}

std::size_t utf8_length(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(first_character(text).bytes);
  return count;
}

std::size_t utf8_bytes(std::string_view text, std::size_t count) {
  std::string_view rest = text;
  for (; count > 0 && !rest.empty(); --count) rest.remove_prefix(first_character(rest).bytes);
  return text.size() - rest.size();
}

std::size_t utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (const std::size_t length = utf8_character(text.substr(at))) at += length;
  return at;
}

}  // namespace weir
