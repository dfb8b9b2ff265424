// A folder that one command at a time may write its results into.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace weir::app {

// The lock is of the folder itself (flock), so it leaves no file and ends with the process, however
// that ends. On file systems that lock no folders (NFS) there is none.
class FolderLock {
 public:
  // Makes the folder where it is missing. Throws RunFailed, naming the process, where another has
  // it; as fail_to_write() (plan/text/new_file) where it cannot be.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  std::filesystem::path folder_;
  bool made_ = false;  // goes again where nothing was written
  int descriptor_ = -1;
};

// Whether a command has it, by the system's list of locks: asking takes no lock, so that nobody who
// begins meanwhile is turned away.
[[nodiscard]] bool is_locked(const std::filesystem::path& folder);

}  // namespace weir::app
