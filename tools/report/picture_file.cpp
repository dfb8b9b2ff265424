// Drawings into files.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/picture_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/report/pdf.hpp"
#include "tools/report/svg.hpp"
#include "tools/report/tikz.hpp"

namespace weir {

void save_drawing(const Drawing& drawing, const std::string& csv,
                  const std::filesystem::path& file) {
  using Writer = std::string (*)(const Drawing&);
  constexpr std::array<std::pair<const char*, Writer>, 3> kWriters{
      {{".svg", &to_svg}, {".pdf", &to_pdf}, {".tex", &to_tikz}}};
  const auto writer = std::ranges::find_if(
      kWriters, [&file](const auto& one) { return file.extension() == one.first; });
  if (writer == kWriters.end()) {
    throw UsageError(
        fmt::format("{}: a picture's file ends in .svg, .pdf or .tex (TikZ)", file.string()));
  }
  write_file_atomically(file, writer->second(drawing));
  write_file_atomically(data_file(file), csv);
}

std::filesystem::path data_file(std::filesystem::path picture) {
  return picture.replace_extension(".data.csv");
}

}  // namespace weir
