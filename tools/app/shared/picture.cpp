// Timelines as files, of the width and in the colours asked for.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

constexpr std::size_t kFewestCharacters = 20, kMostCharacters = 4'000;
constexpr double kNarrowest = 100, kWidest = 14'400;  // points; a PDF's page is no wider

double points(const std::string& text) {
  // Terminal characters, or nothing: the picture's own width.
  if (text.empty() || whole_number<std::size_t>(text)) return TimelineOptions{}.width;
  const double scale = text.ends_with("in")   ? 72
                       : text.ends_with("cm") ? 72 / 2.54
                       : text.ends_with("pt") ? 1
                                              : 0;
  double number = 0;
  // The unit is the last two letters, if there are as many.
  const char* unit = text.data() + std::max<std::size_t>(text.size(), 2) - 2;
  const auto [end, error] = std::from_chars(text.data(), unit, number);
  if (scale == 0 || error != std::errc() || end != unit || !(number > 0))
    throw UsageError(
        fmt::format("--width {}: expected a length, as 3.3in, 8cm or 240pt, or a "
                    "terminal's characters, as 100",
                    text));
  const double width = number * scale;
  if (width < kNarrowest || width > kWidest)
    throw UsageError(fmt::format("--width {}: expected {} to {} pt", text, kNarrowest, kWidest));
  return width;
}

Palette palette_of(const std::string& text) {
  if (text == "standard") return Palette::standard;
  if (text == "colour-blind" || text == "colorblind") return Palette::colour_blind;
  if (text == "grey" || text == "gray") return Palette::grey;
  throw UsageError(fmt::format("--palette {}: expected standard, colour-blind or grey", text));
}

}  // namespace

std::optional<std::size_t> characters(const std::string& width) {
  const auto number = whole_number<std::size_t>(width);
  if (number && (*number < kFewestCharacters || *number > kMostCharacters)) {
    throw UsageError(fmt::format("--width {}: expected {} to {} characters", width,
                                 kFewestCharacters, kMostCharacters));
  }
  if (!number) static_cast<void>(points(width));  // refused here too, where no picture is written
  return number;
}

void save_picture(const Drawing& drawing, const std::string& csv, const std::filesystem::path& file,
                  const Session& session) {
  static_cast<void>(session.output(data_file(file)));
  save_drawing(drawing, csv, session.output(file));
}

Fields fields(PictureOptions& options, const std::string& what) {
  return {
      {"--svg,--pdf,--tikz",
       &options.file,
       fmt::format("Write {} as a picture (.svg, .pdf, or .tex for TikZ), its data beside it as "
                   "NAME.data.csv",
                   what),
       {.writes = Writes::file, .with_it = &data_file}},
      {"--width", &options.width,
       "Width of the picture, as 3.3in; a number alone, as 100: characters of a line in the "
       "terminal"},
      {"--palette", &options.palette,
       "Of the picture: standard, colour-blind or grey; an SVG has colours of its own where "
       "pages are dark"}};
}

Field held_field(PictureOptions& options) {
  return {"--memory", &options.held,
          "Under the timeline of the picture, what ranks hold over time: bytes, or, where no model "
          "is known, micro-batches in flight"};
}

void refuse_without_picture(const PictureOptions& options, const Session& session) {
  if (options.file) return;
  constexpr const char* kPicture =
      "goes with a picture: --svg NAME.svg, --pdf NAME.pdf or --tikz NAME.tex";
  session.refuse({"palette", "memory", "no-title"}, kPicture);
  // A number alone is of lines in the terminal.
  if (!characters(options.width)) session.refuse({"width"}, kPicture);
}

void save_timeline(const PictureOptions& options, const std::vector<TimelinePanel>& panels,
                   const Session& session) {
  if (!options.file) return;
  const TimelineOptions drawing{points(options.width), palette_of(options.palette), options.held};
  save_picture(draw_timeline(panels, drawing), timeline_csv(panels, options.held), *options.file,
               session);
}

}  // namespace weir::app
