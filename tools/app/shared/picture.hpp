// Pictures that a use case writes, with their data beside them, and what is asked of a timeline's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/app/shared/field.hpp"
#include "tools/report/picture_file.hpp"
#include "tools/report/timeline.hpp"

namespace weir::app {

// NAME.svg or NAME.pdf, and NAME.data.csv; neither over a file that is read.
void save_picture(const Drawing& drawing, const std::string& csv, const std::filesystem::path& file,
                  const Session& session);

struct PictureOptions {
  std::optional<std::filesystem::path> file;
  std::string width, palette = "standard";
  bool held = false;  // what ranks hold, too
};
// `what`: of the help of --svg, "Write WHAT as a picture".
[[nodiscard]] Fields fields(PictureOptions& options, const std::string& what);
// The field that draws what ranks hold under the timeline.
[[nodiscard]] Field held_field(PictureOptions& options);

// A --width without a unit is that of lines in the terminal; nullopt where it is none or a
// picture's. Throws UsageError for one that no line has.
[[nodiscard]] std::optional<std::size_t> characters(const std::string& width);

// Throws UsageError for what is asked of a picture where no file is.
void refuse_without_picture(const PictureOptions& options, const Session& session);

// Nothing where no file was asked for. Throws UsageError for a width or a palette that is none.
void save_timeline(const PictureOptions& options, const std::vector<TimelinePanel>& panels,
                   const Session& session);

}  // namespace weir::app
