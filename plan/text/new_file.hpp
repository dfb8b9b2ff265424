// A file written piece by piece that is there whole or not at all: what existed before is never
// lost or half-written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

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
  friend class NewFiles;

  // The three parts of commit(): what is written is durable; it has a name; that name is the
  // file's.
  void make_durable() const;
  void take_name();
  void take_place();
  [[noreturn]] void fail(int reason) const;

  std::filesystem::path file_;
  std::filesystem::path beside_;  // empty: a device or a pipe, which nothing can be renamed over
  int descriptor_ = -1;
  bool named_ = true;  // false: the file system's own, without a name until it is whole
};

// The files of one result. None takes its place before all of them are written and durable; and
// where the last of them is there, all are, and of the same result.
class NewFiles {
 public:
  // Each throws InputError, as NewFile does; nothing that was there before is touched then.
  void add(const std::filesystem::path& file, std::string_view bytes);
  void commit();

 private:
  std::vector<std::unique_ptr<NewFile>> files_;
};

// Makes durable which files a folder holds. Throws InputError.
void sync_folder(const std::filesystem::path& folder);

}  // namespace weir
