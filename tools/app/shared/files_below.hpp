// What lies below a folder, as far as a person's folder of results goes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace weir::app {

struct FilesBelow {
  std::vector<std::filesystem::path> found;  // by name
  bool all = true;                           // false: there is more than is looked at
};

// Regular files four folders deep at most, of the first 20,000 files and folders that are met.
// Links are not followed: they may lead out, or round. Neither folders whose names begin with a
// point are entered, nor those of the name `passed_over`, nor what may not be read.
[[nodiscard]] FilesBelow files_below(
    const std::filesystem::path& folder, std::string_view passed_over,
    const std::function<bool(const std::filesystem::path&)>& wanted);

}  // namespace weir::app
