// A text file, plain or gzip, as a stream of characters: read block by block, so that a trace of
// gigabytes takes the memory of one block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <streambuf>
#include <string>
#include <vector>

namespace weir {

// Reading throws InputError: not a file, above 1 GiB on disk, damaged or cut short, or a single
// value (since the last mark()) longer than 64 MiB, which no reader should hold.
class GzipFile : public std::streambuf {
 public:
  explicit GzipFile(const std::filesystem::path& file);
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;
  ~GzipFile() override;

  void mark() { marked_ = read_; }  // a value ended here (to the block)
  [[nodiscard]] const std::string& name() const { return name_; }

 protected:
  int_type underflow() override;

 private:
  struct Handle;  // zlib's
  std::string name_;
  std::unique_ptr<Handle> handle_;
  std::vector<char> block_;
  std::uint64_t read_ = 0, marked_ = 0;  // bytes of text
};

}  // namespace weir
