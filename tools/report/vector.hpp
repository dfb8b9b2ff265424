// A drawing as data: shapes in points, origin top left; written as SVG (svg.hpp) or as a one-page
// PDF (pdf.hpp). The same drawing gives the same bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace weir {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const Colour&) const = default;
};
// What a shape has on a light page, and on a dark one. Paper is light.
struct Paint {
  Colour light, dark;
  bool operator==(const Paint&) const = default;
};
inline constexpr Paint kInk{{40, 40, 40}, {226, 228, 232}};       // of text and axes
inline constexpr Paint kPage{{255, 255, 255}, {24, 26, 30}};      // behind all
inline constexpr Paint kGrid{{225, 225, 225}, {62, 66, 72}};      // of lines to read values by
inline constexpr Paint kMuted{{150, 150, 150}, {140, 144, 150}};  // of what is only compared with
inline constexpr Paint kBlue{{86, 141, 208}, {92, 152, 224}};
inline constexpr Paint kRed{{200, 90, 60}, {232, 120, 88}};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  Paint fill;
  std::string tip;  // shown by viewers that show titles (SVG)
};
// Many boxes in one row, too many to have each a shape: where each begins and how wide it is,
// ascending.
struct Bars {
  double y = 0, height = 0;
  std::vector<std::pair<double, double>> boxes;
  Paint fill;
};
struct Line {
  std::vector<std::pair<double, double>> points;
  Paint colour;
  double width = 1;
  bool dashed = false;
};
struct Dot {
  double x = 0, y = 0, radius = 2;
  Paint colour;
  std::string tip;
};
enum class Anchor : std::uint8_t { start, middle, end };
struct Text {
  double x = 0, y = 0;  // baseline
  std::string text;     // in a PDF '?' stands for what is not ASCII
  double size = 8;
  Anchor anchor = Anchor::start;
  Paint colour;
};

struct Drawing {
  double width = 0, height = 0;  // points, 72 to the inch
  std::vector<std::variant<Box, Bars, Line, Dot, Text>> shapes;
};

}  // namespace weir
