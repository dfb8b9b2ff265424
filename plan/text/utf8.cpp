// The well-formed byte sequences of the Unicode Standard, table 3-7.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/utf8.hpp"

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

std::size_t utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (const std::size_t length = utf8_character(text.substr(at))) at += length;
  return at;
}

}  // namespace weir
