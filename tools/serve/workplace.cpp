// Folders and names of what requests write, and whose turn it is.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/workplace.hpp"

#include <chrono>
#include <cstddef>

#include "plan/words/error.hpp"

namespace weir {

std::unique_lock<std::timed_mutex> turn(Workplace& workplace) {
  constexpr std::chrono::seconds kPatience(30);
  std::unique_lock lock(workplace.computing, kPatience);
  if (!lock.owns_lock()) throw Busy("another request computes: ask again when it is done");
  return lock;
}

std::filesystem::path new_job_folder(const Workplace& workplace) {
  constexpr int kMost = 100'000;
  for (int number = 1; number <= kMost; ++number) {
    auto folder = workplace.folder / std::to_string(number);
    // Made by whoever comes first: two requests never share one.
    if (std::filesystem::create_directory(folder)) return folder;
  }
  throw RunFailed(workplace.folder.string() + ": full: move its folders away");
}

std::string kept_name(std::string_view name) {
  constexpr std::size_t kMost = 80;
  std::string kept;
  for (const char c : name.substr(name.find_last_of("/\\") + 1)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    // Hidden files, and the folders "." and "..", begin with a dot.
    if (kept.size() < kMost && !(kept.empty() && c == '.')) kept += plain ? c : '_';
  }
  return kept.empty() ? "job" : kept;
}

}  // namespace weir
