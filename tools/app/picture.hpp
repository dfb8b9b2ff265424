// Pictures that a use case writes, with their data beside them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "tools/app/session.hpp"
#include "tools/report/timeline.hpp"
#include "tools/report/vector.hpp"

namespace weir::app {

// NAME.svg or NAME.pdf, and NAME.data.csv; neither over a file that is read.
inline void save_picture(const Drawing& drawing, const std::string& csv,
                         const std::filesystem::path& file, const Session& session) {
  static_cast<void>(session.output(data_file(file)));
  save_drawing(drawing, csv, session.output(file));
}

}  // namespace weir::app
