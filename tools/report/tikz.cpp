// Shapes as TikZ's paths and nodes. A point of a drawing is TeX's bp, 72 to the inch; y runs down.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/tikz.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <variant>
#include <vector>

namespace weir {
namespace {

// TeX's own characters, and what stands for them. Others that are not ASCII are a question of the
// document's encoding: UTF-8 has been LaTeX's since 2018.
std::string tex_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\textbackslash{}";
        break;
      case '~':
        out += "\\textasciitilde{}";
        break;
      case '^':
        out += "\\textasciicircum{}";
        break;
      case '#':
      case '$':
      case '%':
      case '&':
      case '_':
      case '{':
      case '}':
        out += '\\';
        [[fallthrough]];
      default:
        out += c;
    }
  }
  return out;
}

class TikzShapes {
 public:
  std::string operator()(const Box& b) { return box(b.x, b.y, b.width, b.height, b.fill); }
  std::string operator()(const Bars& bars) {
    std::string text;
    for (const auto& [x, width] : bars.boxes) text += box(x, bars.y, width, bars.height, bars.fill);
    return text;
  }
  std::string operator()(const Line& l) {
    std::string text = fmt::format("\\draw[{},line width={:.2f}bp{}] ", named(l.colour), l.width,
                                   l.dashed ? ",dash pattern=on 4bp off 3bp" : "");
    for (std::size_t i = 0; i < l.points.size(); ++i)
      text += fmt::format("{}({:.2f},{:.2f})", i == 0 ? "" : " -- ", l.points[i].first,
                          l.points[i].second);
    return text + ";\n";
  }
  std::string operator()(const Dot& d) {
    return fmt::format("\\fill[{}] ({:.2f},{:.2f}) circle[radius={:.2f}bp];\n", named(d.colour),
                       d.x, d.y, d.radius);
  }
  std::string operator()(const Text& t) {
    const char* anchor = t.anchor == Anchor::start    ? "base west"
                         : t.anchor == Anchor::middle ? "base"
                                                      : "base east";
    return fmt::format(
        "\\node[anchor={},inner sep=0,text={},font=\\sffamily\\fontsize{{{:.1f}bp}}{{{:.1f}bp}}"
        "\\selectfont] at ({:.2f},{:.2f}) {{{}}};\n",
        anchor, named(t.colour), t.size, 1.2 * t.size, t.x, t.y, tex_text(t.text));
  }

  // In the order of their first use.
  [[nodiscard]] std::string definitions() const {
    std::string text;
    for (std::size_t i = 0; i < colours_.size(); ++i)
      text += fmt::format("\\definecolor{{weir{}}}{{RGB}}{{{},{},{}}}\n", i, colours_[i].red,
                          colours_[i].green, colours_[i].blue);
    return text;
  }

 private:
  std::string box(double x, double y, double width, double height, const Paint& fill) {
    return fmt::format("\\fill[{}] ({:.2f},{:.2f}) rectangle ++({:.2f},{:.2f});\n", named(fill), x,
                       y, width, height);
  }
  // Paper is light.
  std::string named(const Paint& paint) {
    const auto known = std::ranges::find(colours_, paint.light);
    const auto index = known - colours_.begin();
    if (known == colours_.end()) colours_.push_back(paint.light);
    return fmt::format("weir{}", index);
  }

  std::vector<Colour> colours_;
};

}  // namespace

std::string to_tikz(const Drawing& drawing) {
  TikzShapes shapes;
  std::string paths;
  for (const auto& shape : drawing.shapes) paths += std::visit(shapes, shape);
  return fmt::format(
      "% Drawn by weir; needs \\usepackage{{tikz}}.\n\\begin{{tikzpicture}}[x=1bp,y=-1bp]\n{}"
      "\\useasboundingbox (0,0) rectangle ({:.2f},{:.2f});\n{}\\end{{tikzpicture}}%\n",
      shapes.definitions(), drawing.width, drawing.height, paths);
}

}  // namespace weir
