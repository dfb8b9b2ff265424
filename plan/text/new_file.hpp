// A file written piece by piece that is there whole or not at all: what existed before is never
// lost or half-written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace weir {

class NewFile {
 public:
  // Creates missing folders. Throws as fail_to_write() where it cannot be written, as all below.
  explicit NewFile(std::filesystem::path file);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  // What was not committed is gone, and the earlier file untouched.
  ~NewFile();

  void write(std::string_view bytes);
  // Over what was written there. Precondition: no stream.
  void write_again(std::uint64_t at, std::string_view bytes);
  // A device or a pipe, which takes what comes and keeps no place.
  [[nodiscard]] bool is_stream() const { return beside_.empty(); }
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
// where the last of them is there, all are, and of the same result. Where one cannot take its place
// the last one's earlier file is as it was, or "FILE.(digits).before" if others are new already.
class NewFiles {
 public:
  // Each throws as NewFile does; nothing that was there before is touched then.
  void add(const std::filesystem::path& file, std::string_view bytes);
  void commit();

 private:
  std::vector<std::unique_ptr<NewFile>> files_;
};

// What cannot be written, by the system's reason (errno): RunFailed where there is no room for it,
// which is nobody's mistake in what was asked, else InputError.
[[noreturn]] void fail_to_write(const std::filesystem::path& file, int reason);

// Makes durable which files a folder holds. Throws as fail_to_write().
void sync_folder(const std::filesystem::path& folder);

}  // namespace weir
