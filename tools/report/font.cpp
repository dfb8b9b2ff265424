// The font's measures, and the texts that it can write.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/font.hpp"

#include <cstddef>

#include "plan/text/quote.hpp"

namespace weir {

const std::array<int, kGlyphs>& glyph_advances() {
  // hmtx of the file, from 2048 units an em.
  static constexpr std::array<int, kGlyphs> kAdvances{
      248, 258, 320, 616, 562, 732, 622, 175, 342, 348, 431, 567, 197, 276, 264, 413,  // ' ' to /
      562, 562, 562, 562, 562, 562, 562, 562, 562, 562, 242, 211, 508, 549, 523, 473,  // 0 to ?
      898, 652, 623, 651, 656, 568, 553, 681, 713, 272, 552, 627, 539, 873, 713, 688,  // @ to O
      631, 688, 616, 594, 597, 648, 637, 887, 627, 601, 599, 265, 411, 265, 418, 451,  // P to _
      309, 544, 562, 523, 564, 530, 348, 562, 551, 243, 239, 507, 243, 877, 552, 570,  // ` to o
      562, 568, 339, 516, 327, 551, 484, 751, 496, 473, 496, 338, 244, 338, 680};      // p to ~
  return kAdvances;
}

std::string in_ascii(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 && byte < 0xc0) continue;  // the first byte of a character stands for it
    out += byte >= 0xc0 ? '?' : byte < ' ' ? ' ' : c;
  }
  return out;
}

double text_width(std::string_view text, double size) {
  int sum = 0;
  for (const char c : in_ascii(text)) sum += glyph_advances()[static_cast<std::size_t>(c - ' ')];
  return sum * size / 1000;
}

double text_room(std::string_view text, double size) { return 1.2 * text_width(text, size); }

}  // namespace weir
