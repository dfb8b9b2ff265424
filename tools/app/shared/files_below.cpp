// One walk over a folder, bounded in depth and in number.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/files_below.hpp"

#include <algorithm>
#include <string>
#include <system_error>

namespace weir::app {

FilesBelow files_below(const std::filesystem::path& folder, std::string_view passed_over,
                       const std::function<bool(const std::filesystem::path&)>& wanted) {
  constexpr int kDeepest = 4;
  constexpr int kMostSeen = 20'000;
  FilesBelow files;
  std::error_code none;  // what cannot be looked at is passed over
  std::filesystem::recursive_directory_iterator at(
      folder, std::filesystem::directory_options::skip_permission_denied, none);
  int seen = 0;
  for (; at != std::filesystem::recursive_directory_iterator() && !none; at.increment(none)) {
    const std::string name = at->path().filename().string();
    std::error_code gone;  // since it was listed
    const bool regular = std::filesystem::is_regular_file(at->symlink_status(gone));
    if (regular && wanted(at->path())) files.found.push_back(at->path());
    const bool passed = name.starts_with(".") || name == passed_over || at.depth() >= kDeepest;
    if (passed) at.disable_recursion_pending();
    if (++seen < kMostSeen) continue;
    files.all = false;
    break;
  }
  std::ranges::sort(files.found);
  return files;
}

}  // namespace weir::app
