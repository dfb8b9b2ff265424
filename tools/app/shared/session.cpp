// The guard that keeps what a request reads from being written over, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/session.hpp"

#include <fmt/format.h>

#include "plan/words/error.hpp"

namespace weir::app {

void Session::refuse(std::initializer_list<const char*> fields, std::string_view why) const {
  for (const char* field : fields)
    if (given(field)) throw UsageError(fmt::format("--{} {}", field, why));
}

const std::filesystem::path& Session::output(const std::filesystem::path& file) const {
  for (const std::filesystem::path& read : reads_) {
    std::error_code none;  // where one of the two is not there they are not the same
    // Folders are read from and written into, file by file.
    if (!std::filesystem::equivalent(file, read, none) || std::filesystem::is_directory(file, none))
      continue;
    throw UsageError(
        fmt::format("{} is read by this command and would be written over", file.string()));
  }
  return file;
}

}  // namespace weir::app
