// Files of many gigabytes, read piece by piece as they are needed, while other programs may write
// into them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace weir {

// Read, not mapped: of a mapped file that another program cuts off, the pages behind its new end
// end the process (SIGBUS).
class UnchangedFile {
 public:
  // Throws InputError for what is no file or cannot be read.
  explicit UnchangedFile(std::filesystem::path file);
  UnchangedFile(const UnchangedFile&) = delete;
  UnchangedFile& operator=(const UnchangedFile&) = delete;
  ~UnchangedFile();

  [[nodiscard]] std::uint64_t size() const { return size_; }
  // The bytes that begin at `at`. Throws InputError where they cannot be read, and where the file
  // has another length or was written into since it was opened: what was read before and what is
  // read now would be of two files. Precondition: they lie within the size.
  void read(std::uint64_t at, std::span<std::byte> into) const;
  // All bytes of [begin, end) in order, some at a time; as `read`.
  void each_piece(std::uint64_t begin, std::uint64_t end,
                  const std::function<void(std::span<const std::byte>)>& take) const;

 private:
  void require_unchanged() const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::int64_t written_s_ = 0, written_ns_ = 0;  // when it was last written, as it was opened
};

}  // namespace weir
