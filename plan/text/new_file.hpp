// A file written piece by piece that is there whole or not at all: what existed before is never
// lost or half-written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace weir {

class NewFile {
 public:
  // Creates missing folders. Throws InputError when it cannot be written, as all below.
  explicit NewFile(std::filesystem::path file);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  // What was not committed is gone, and the earlier file untouched.
  ~NewFile();

  void write(std::string_view bytes);
  // Durable, and in its place; once, and nothing is written afterwards.
  void commit();

 private:
  [[noreturn]] void fail(int reason) const;

  std::filesystem::path file_;
  std::filesystem::path beside_;  // empty: a device or a pipe, which nothing can be renamed over
  int descriptor_ = -1;
};

// Makes durable which files a folder holds. Throws InputError.
void sync_folder(const std::filesystem::path& folder);

}  // namespace weir
