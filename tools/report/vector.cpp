// Drawings as SVG and as PDF.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/vector.hpp"

#include <fmt/format.h>

#include "plan/text/quote.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

std::string css(Colour c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

struct Svg {
  std::string operator()(const Box& b) const {
    const std::string tip = b.tip.empty() ? "" : fmt::format("<title>{}</title>", escape(b.tip));
    return fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
        "fill=\"{}\">{}</rect>\n",
        b.x, b.y, b.width, b.height, css(b.fill), tip);
  }
  std::string operator()(const Line& l) const {
    std::string points;
    for (const auto& [x, y] : l.points) points += fmt::format("{:.2f},{:.2f} ", x, y);
    return fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.2f}\"{}/>\n", points,
        css(l.colour), l.width, l.dashed ? " stroke-dasharray=\"4 3\"" : "");
  }
  std::string operator()(const Dot& d) const {
    const std::string tip = d.tip.empty() ? "" : fmt::format("<title>{}</title>", escape(d.tip));
    return fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:.2f}\" fill=\"{}\">{}</circle>\n",
                       d.x, d.y, d.radius, css(d.colour), tip);
  }
  std::string operator()(const Text& t) const {
    static constexpr Names<Anchor, 3> kAnchors{
        {{Anchor::start, "start"}, {Anchor::middle, "middle"}, {Anchor::end, "end"}}};
    return fmt::format(
        "<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{:.2f}\" text-anchor=\"{}\" "
        "fill=\"{}\">{}</text>\n",
        t.x, t.y, t.size, name_of(kAnchors, t.anchor), css(t.colour), escape(t.text));
  }
};

// PDF's y runs upward; Helvetica's mean advance is about half its size, which is all that anchoring
// needs here.
struct Pdf {
  double height;
  static std::string rgb(Colour c) {
    return fmt::format("{:.3f} {:.3f} {:.3f}", c.red / 255.0, c.green / 255.0, c.blue / 255.0);
  }
  std::string operator()(const Box& b) const {
    return fmt::format("{} rg {:.2f} {:.2f} {:.2f} {:.2f} re f\n", rgb(b.fill), b.x,
                       height - b.y - b.height, b.width, b.height);
  }
  std::string operator()(const Line& l) const {
    std::string text =
        fmt::format("{} RG {:.2f} w {} d\n", rgb(l.colour), l.width, l.dashed ? "[4 3] 0" : "[] 0");
    for (std::size_t i = 0; i < l.points.size(); ++i) {
      text += fmt::format("{:.2f} {:.2f} {} ", l.points[i].first, height - l.points[i].second,
                          i == 0 ? "m" : "l");
    }
    return text + "S\n";
  }
  std::string operator()(const Dot& d) const {
    return (*this)(Box{d.x - d.radius, d.y - d.radius, 2 * d.radius, 2 * d.radius, d.colour, ""});
  }
  std::string operator()(const Text& t) const {
    std::string escaped;
    for (const char c : printable(t.text)) {
      if (c == '(' || c == ')' || c == '\\') escaped += '\\';
      escaped += c;
    }
    const double advance = 0.5 * t.size * static_cast<double>(t.text.size());
    const double shift = t.anchor == Anchor::start    ? 0
                         : t.anchor == Anchor::middle ? advance / 2
                                                      : advance;
    return fmt::format("{} rg BT /F1 {:.2f} Tf {:.2f} {:.2f} Td ({}) Tj ET\n", rgb(t.colour),
                       t.size, t.x - shift, height - t.y, escaped);
  }
};

}  // namespace

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
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.2f} {1:.2f}\" "
      "width=\"{0:.2f}pt\" "
      "height=\"{1:.2f}pt\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n",
      drawing.width, drawing.height);
  for (const auto& shape : drawing.shapes) text += std::visit(Svg{}, shape);
  return text + "</svg>\n";
}

std::string to_pdf(const Drawing& drawing) {
  std::string content;
  for (const auto& shape : drawing.shapes) content += std::visit(Pdf{drawing.height}, shape);
  const std::string objects[] = {
      "<< /Type /Catalog /Pages 2 0 R >>",
      "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
      fmt::format("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {:.2f} {:.2f}] /Contents 4 0 R "
                  "/Resources << /Font << /F1 5 0 R >> >> >>",
                  drawing.width, drawing.height),
      fmt::format("<< /Length {} >>\nstream\n{}endstream", content.size(), content),
      "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
  };
  std::string text = "%PDF-1.4\n";
  std::string table = "xref\n0 6\n0000000000 65535 f \n";
  for (std::size_t i = 0; i < std::size(objects); ++i) {
    table += fmt::format("{:010} 00000 n \n", text.size());
    text += fmt::format("{} 0 obj\n{}\nendobj\n", i + 1, objects[i]);
  }
  return text + table +
         fmt::format("trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{}\n%%EOF\n", text.size());
}

void save_drawing(const Drawing& drawing, const std::string& csv,
                  const std::filesystem::path& file) {
  if (file.extension() != ".svg" && file.extension() != ".pdf") {
    throw UsageError(fmt::format("{}: a picture's file ends in .svg or .pdf", file.string()));
  }
  write_file_atomically(file, file.extension() == ".svg" ? to_svg(drawing) : to_pdf(drawing));
  write_file_atomically(data_file(file), csv);
}

std::filesystem::path data_file(std::filesystem::path picture) {
  return picture.replace_extension(".data.csv");
}

}  // namespace weir
