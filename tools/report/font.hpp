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
// The same with room for another font, for a page's pictures name fonts and do not bring them: in
// DejaVu Sans, which Debian's browsers take without those, labels are 1.14 to 1.17 times as wide
// (by both files' hmtx: figures 1.13, lower case 1.13 in the mean, space 1.28).
[[nodiscard]] double text_room(std::string_view text, double size);

}  // namespace weir
