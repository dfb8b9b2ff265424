// Drawings into files, their data beside them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "tools/report/vector.hpp"

namespace weir {

// By the file's ending, .svg, .pdf or .tex (TikZ); throws UsageError for another. `csv`: the
// drawing's data, written beside it (data_file).
void save_drawing(const Drawing& drawing, const std::string& csv,
                  const std::filesystem::path& file);
// NAME.data.csv of NAME.svg: never the NAME.csv that the picture may be of.
[[nodiscard]] std::filesystem::path data_file(std::filesystem::path picture);

}  // namespace weir
