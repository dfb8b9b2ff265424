// A drawing as data: shapes in points, origin top left; written as SVG or as a one-page PDF. The
// same drawing gives the same bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace weir {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
};
inline constexpr Colour kInk{40, 40, 40};  // of text and axes

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  Colour fill;
  std::string tip;  // shown by viewers that show titles (SVG)
};
struct Line {
  std::vector<std::pair<double, double>> points;
  Colour colour;
  double width = 1;
  bool dashed = false;
};
struct Dot {
  double x = 0, y = 0, radius = 2;
  Colour colour;
  std::string tip;
};
enum class Anchor : std::uint8_t { start, middle, end };
struct Text {
  double x = 0, y = 0;  // baseline
  std::string text;     // ASCII
  double size = 8;
  Anchor anchor = Anchor::start;
  Colour colour;
};

struct Drawing {
  double width = 0, height = 0;  // points, 72 to the inch
  std::vector<std::variant<Box, Line, Dot, Text>> shapes;
};

[[nodiscard]] std::string to_svg(const Drawing& drawing);
[[nodiscard]] std::string to_pdf(const Drawing& drawing);

// By the file's ending, .svg or .pdf; throws UsageError for another. `csv`: the drawing's data,
// written beside it (data_file).
void save_drawing(const Drawing& drawing, const std::string& csv,
                  const std::filesystem::path& file);
// NAME.data.csv of NAME.svg: never the NAME.csv that the picture may be of.
[[nodiscard]] std::filesystem::path data_file(std::filesystem::path picture);

// Text as HTML and SVG want it.
[[nodiscard]] std::string escape(const std::string& text);

}  // namespace weir
