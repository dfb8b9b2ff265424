// Shapes as SVG: neighbours that look alike share a group, and say only where they are.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/svg.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "plan/text/quote.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

// Hundredths of a point, written short: "12.5", ".07", "-3".
std::string hundredths(std::int64_t value) {
  const std::string sign = value < 0 ? "-" : "";
  const std::int64_t size = std::abs(value), rest = size % 100;
  const std::string whole = size >= 100 || rest == 0 ? std::to_string(size / 100) : "";
  if (rest == 0) return size == 0 ? "0" : sign + whole;
  return sign + whole +
         (rest % 10 == 0 ? fmt::format(".{}", rest / 10) : fmt::format(".{:02}", rest));
}
std::int64_t in_hundredths(double value) { return std::llround(value * 100); }
std::string number(double value) { return hundredths(in_hundredths(value)); }

std::string titled(const char* element, const std::string& attributes, const std::string& tip) {
  if (tip.empty()) return fmt::format("<{}{}/>\n", element, attributes);
  return fmt::format("<{0}{1}><title>{2}</title></{0}>\n", element, attributes, escape(tip));
}

// A shape's group, as its opening tag, and what it is within it.
struct SvgShape {
  std::string group, element;
};

class SvgShapes {
 public:
  SvgShape operator()(const Box& b) {
    return {group(filled(b.fill)),
            titled("rect",
                   fmt::format(" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(b.x),
                               number(b.y), number(b.width), number(b.height)),
                   b.tip)};
  }
  // A broken line as thick as the boxes are high. Each place is told from the one before, in whole
  // hundredths, so that nothing adds up.
  SvgShape operator()(const Bars& bars) {
    std::string path;
    std::int64_t at = 0;
    for (const auto& [x, width] : bars.boxes) {
      const std::int64_t start = in_hundredths(x), end = in_hundredths(x + width);
      // A box that the one before has covered draws nothing.
      if (end <= std::max(at, start)) continue;
      if (path.empty()) {
        path = fmt::format("M{} {}", number(x), number(bars.y + bars.height / 2));
        at = start;
      }
      if (start > at) path += fmt::format("m{} 0", hundredths(start - at));
      path += "h" + hundredths(end - std::max(at, start));
      at = end;
    }
    return {group(stroked(bars.fill)),
            fmt::format("<path stroke-width=\"{}\" d=\"{}\"/>\n", number(bars.height), path)};
  }
  SvgShape operator()(const Line& l) {
    std::string points;
    for (const auto& [x, y] : l.points) points += fmt::format("{},{} ", number(x), number(y));
    return {group(stroked(l.colour)),
            fmt::format("<polyline points=\"{}\" stroke-width=\"{}\"{}/>\n", points,
                        number(l.width), l.dashed ? " stroke-dasharray=\"4 3\"" : "")};
  }
  SvgShape operator()(const Dot& d) {
    return {group(filled(d.colour)), titled("circle",
                                            fmt::format(" cx=\"{}\" cy=\"{}\" r=\"{}\"",
                                                        number(d.x), number(d.y), number(d.radius)),
                                            d.tip)};
  }
  SvgShape operator()(const Text& t) {
    static constexpr Names<Anchor, 3> kAnchors{
        {{Anchor::start, "start"}, {Anchor::middle, "middle"}, {Anchor::end, "end"}}};
    const std::string look = fmt::format(" font-size=\"{}\" text-anchor=\"{}\"", number(t.size),
                                         name_of(kAnchors, t.anchor));
    return {group(filled(t.colour) + look), fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n",
                                                        number(t.x), number(t.y), escape(t.text))};
  }

  // What a dark page changes of the groups so far. A class is called by its colours: drawings on
  // one page that share it mean the same by it.
  [[nodiscard]] std::string style() const {
    std::string rules;
    for (const auto& [name, rule] : dark_) rules += fmt::format(".{}{{{}}}", name, rule);
    return fmt::format("<style>@media(prefers-color-scheme:dark){{{}}}</style>\n", rules);
  }

 private:
  static std::string group(const std::string& attributes) {
    return fmt::format("<g{}>\n", attributes);
  }
  std::string filled(const Paint& paint) { return painted("fill", paint); }
  std::string stroked(const Paint& paint) { return " fill=\"none\"" + painted("stroke", paint); }
  std::string painted(const char* what, const Paint& paint) {
    const std::string light = css(paint.light), dark = css(paint.dark);
    const std::string name = what + light.substr(1) + dark.substr(1);
    dark_[name] = fmt::format("{}:{}", what, dark);
    return fmt::format(" class=\"{}\" {}=\"{}\"", name, what, light);
  }

  std::map<std::string, std::string> dark_;
};

}  // namespace

std::string css(const Colour& c) {
  return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue);
}

std::string escape(const std::string& text) {
  std::string out;
  // Control characters are no characters of XML, escaped or not.
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string to_svg(const Drawing& drawing) {
  SvgShapes shapes;
  std::string body, group;
  const auto add = [&](const SvgShape& shape) {
    // A group ends where the look changes, so that neighbours share its attributes.
    if (shape.group != group) {
      if (!group.empty()) body += "</g>\n";
      body += shape.group;
      group = shape.group;
    }
    body += shape.element;
  };
  // A page of its own: a viewer's background may be dark.
  add(shapes(Box{0, 0, drawing.width, drawing.height, kPage, ""}));
  for (const auto& shape : drawing.shapes) add(std::visit(shapes, shape));
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
             "width=\"{0}pt\" height=\"{1}pt\" "
             "font-family=\"Roboto, Helvetica, Arial, sans-serif\">\n",
             number(drawing.width), number(drawing.height)) +
         shapes.style() + body + "</g>\n</svg>\n";
}

}  // namespace weir
