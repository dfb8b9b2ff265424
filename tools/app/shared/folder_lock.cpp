// flock() on a folder, and who holds it by /proc/locks.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "plan/text/cells.hpp"
#include "plan/text/new_file.hpp"
#include "plan/text/words_of.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

// The line of a lock on this file, "3: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF"; empty: there is
// none.
std::vector<std::string> lock_on(const struct stat& status) {
  const std::string inode = fmt::format(":{}", status.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::vector<std::string> words = words_of(line);
    if (words.size() >= 6 && words[1] == "FLOCK" && words[5].ends_with(inode)) return words;
  }
  return {};
}

// "process 4711"; of another container's the system says no number.
std::string holder_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return "another process";
  const std::vector<std::string> words = lock_on(status);
  if (!words.empty() && whole_number<int>(words[4]).value_or(0) > 0) return "process " + words[4];
  return "another process";
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) : folder_(folder) {
  std::error_code error;
  made_ = std::filesystem::create_directories(folder, error);
  if (error) fail_to_write(folder, error.value());
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) fail_to_write(folder, errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  const std::string holder = holder_of(descriptor_);
  ::close(descriptor_);
  throw RunFailed(fmt::format("{} is being written by {}", folder.string(), holder));
}

FolderLock::~FolderLock() {
  if (made_) static_cast<void>(::rmdir(folder_.c_str()));  // where it is empty
  ::close(descriptor_);
}

bool is_locked(const std::filesystem::path& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 && !lock_on(status).empty();
}

}  // namespace weir::app
