// Shapes as the operators of a PDF page, and the file around them (ISO 32000-1, 7.5 and 9.6).
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/pdf.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <stdexcept>
#include <vector>

#include "tools/report/font.hpp"

namespace weir {
namespace {

// PDF's y runs upward.
struct PdfShapes {
  double height;
  static std::string rgb(const Paint& paint) {
    const Colour& c = paint.light;
    return fmt::format("{:.3f} {:.3f} {:.3f}", c.red / 255.0, c.green / 255.0, c.blue / 255.0);
  }
  std::string operator()(const Box& b) const {
    return fmt::format("{} rg {:.2f} {:.2f} {:.2f} {:.2f} re f\n", rgb(b.fill), b.x,
                       height - b.y - b.height, b.width, b.height);
  }
  std::string operator()(const Bars& bars) const {
    if (bars.boxes.empty()) return "";
    std::string text = rgb(bars.fill) + " rg\n";
    for (const auto& [x, width] : bars.boxes)
      text += fmt::format("{:.2f} {:.2f} {:.2f} {:.2f} re\n", x, height - bars.y - bars.height,
                          width, bars.height);
    return text + "f\n";
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
    for (const char c : in_ascii(t.text)) {
      if (c == '(' || c == ')' || c == '\\') escaped += '\\';
      escaped += c;
    }
    const double width = text_width(t.text, t.size);
    const double shift = t.anchor == Anchor::start    ? 0
                         : t.anchor == Anchor::middle ? width / 2
                                                      : width;
    return fmt::format("{} rg BT /F1 {:.2f} Tf {:.2f} {:.2f} Td ({}) Tj ET\n", rgb(t.colour),
                       t.size, t.x - shift, height - t.y, escaped);
  }
};

std::string deflated(std::string_view text) {
  uLongf size = compressBound(text.size());
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                               reinterpret_cast<const Bytef*>(text.data()), text.size(), 9);
  if (result != Z_OK) throw std::bad_alloc();  // all else is made impossible by the bound
  out.resize(size);
  return out;
}

// `more`: further keys of its dictionary.
std::string stream(std::string_view text, const std::string& more = "") {
  const std::string data = deflated(text);
  return fmt::format("<< /Length {} /Filter /FlateDecode{} >>\nstream\n", data.size(), more) +
         data + "\nendstream";
}

}  // namespace

std::string to_pdf(const Drawing& drawing) {
  std::string content;
  for (const auto& shape : drawing.shapes) content += std::visit(PdfShapes{drawing.height}, shape);
  const auto font = font_file();
  const std::string_view font_text(reinterpret_cast<const char*>(font.data()), font.size());
  // The six letters say that the font is a part of one. The descriptor's numbers are of the file's
  // head, hhea and OS/2, in thousandths of an em; flag 32: its characters are those of Latin text.
  const std::vector<std::string> objects{
      "<< /Type /Catalog /Pages 2 0 R >>",
      "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
      fmt::format("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {:.2f} {:.2f}] /Contents 4 0 R "
                  "/Resources << /Font << /F1 5 0 R >> >> >>",
                  drawing.width, drawing.height),
      stream(content),
      fmt::format("<< /Type /Font /Subtype /TrueType /BaseFont /WEIRAA+Roboto-Regular "
                  "/FirstChar 32 /LastChar 126 /Widths [{}] /Encoding /WinAnsiEncoding "
                  "/FontDescriptor 6 0 R >>",
                  fmt::join(glyph_advances(), " ")),
      ("<< /Type /FontDescriptor /FontName /WEIRAA+Roboto-Regular /Flags 32 "
       "/FontBBox [-891 -271 2045 1056] /ItalicAngle 0 /Ascent 928 /Descent -244 /CapHeight 711 "
       "/StemV 88 /FontFile2 7 0 R >>"),
      stream(font_text, fmt::format(" /Length1 {}", font.size())),
  };
  std::string text = "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n";  // the second line says: binary
  // A reader finds objects by their bytes from the file's start, of ten digits each.
  std::string table = fmt::format("xref\n0 {}\n0000000000 65535 f \n", objects.size() + 1);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    table += fmt::format("{:010} 00000 n \n", text.size());
    text += fmt::format("{} 0 obj\n", i + 1) + objects[i] + "\nendobj\n";
  }
  return text + table +
         fmt::format("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{}\n%%EOF\n",
                     objects.size() + 1, text.size());
}

}  // namespace weir
