// Drawings into files.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/picture_file.hpp"

#include <fmt/format.h>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/report/pdf.hpp"
#include "tools/report/svg.hpp"

namespace weir {

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
