// The font of pictures: Roboto Regular (Google, 2011, Apache-2.0; github.com/googlefonts/roboto) of
// Debian's fonts-roboto-unhinted, its printable ASCII alone, made by
//   python3 -m fontTools.subset Roboto-Regular.ttf --unicodes=U+20-7E --no-hinting
//     --layout-features= --name-IDs=0,1,2,4,6,13 --notdef-outline --no-glyph-names
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace weir {

// The TrueType file, as it is put into a PDF.
[[nodiscard]] std::span<const unsigned char> font_file();

// Of ' ' to '~', in thousandths of the size.
inline constexpr int kGlyphs = 95;
[[nodiscard]] const std::array<int, kGlyphs>& glyph_advances();

// The text in the characters that the font has: '?' for each other one.
[[nodiscard]] std::string in_ascii(std::string_view text);

// The width of that text, in the unit of `size`.
[[nodiscard]] double text_width(std::string_view text, double size);

}  // namespace weir
