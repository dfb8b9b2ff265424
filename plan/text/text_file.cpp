// Whole files in and out: bounded when read, never half there when written.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <span>
#include <system_error>

#include "plan/text/bytes_file.hpp"
#include "plan/text/new_file.hpp"
#include "plan/text/utf8.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

std::atomic<bool> files_alone = false;

// A descriptor to read from, closed on every way out.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& file) {
    // A pipe that nobody writes into is opened at once, or waited for.
    const int how = O_RDONLY | O_CLOEXEC | (files_alone ? O_NONBLOCK : 0);
    do descriptor_ = ::open(file.c_str(), how);
    while (descriptor_ < 0 && errno == EINTR);
    refused_ = errno;
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] bool is_file() const {
    struct stat status {};
    return descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  }
  // The next bytes, fewer than there is room for; 0 at the end, -1 with errno set.
  [[nodiscard]] ssize_t read(std::span<char> room) const {
    if (descriptor_ < 0) {
      // Why it could not be opened: a descriptor that is none would say nothing of the file.
      errno = refused_;
      return -1;
    }
    for (;;) {
      const ssize_t count = ::read(descriptor_, room.data(), room.size());
      if (count >= 0 || errno != EINTR) return count;
    }
  }

 private:
  int descriptor_ = -1;
  int refused_ = 0;
};

}  // namespace

std::string read_bytes(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (error || !std::filesystem::exists(status))
    throw InputError(file.string(), "", "cannot be read: no such file");
  if (std::filesystem::is_directory(status))
    throw InputError(file.string(), "", "is a folder, expected a file");
  const auto too_large = [&file] { return InputError(file.string(), "", "is larger than 1 GiB"); };
  // A file's size is known beforehand, a pipe's or a device's when it ends, if it does.
  std::string text;
  if (std::filesystem::is_regular_file(status)) {
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    if (!error && size > kLargestFile) throw too_large();
    if (!error) text.reserve(size);
  }
  const InputFile in(file);
  if (files_alone && !in.is_file() && !std::filesystem::is_regular_file(status))
    throw InputError(file.string(), "", "expected a file");
  std::array<char, 1 << 16> part;
  for (;;) {
    const ssize_t count = in.read(part);
    if (count < 0)
      throw InputError(file.string(), "",
                       fmt::format("cannot be read: {}", std::generic_category().message(errno)));
    if (count == 0 && text.empty() && std::filesystem::is_fifo(status)) {
      throw InputError(file.string(), "",
                       "is a pipe without anything in it, or was read before: expected a file");
    }
    if (count == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
    if (text.size() > kLargestFile) throw too_large();
  }
}

void read_files_alone() { files_alone = true; }

std::string read_text_file(const std::filesystem::path& file) {
  std::string text = read_bytes(file);
  const std::size_t valid = utf8_prefix(text);
  if (valid == text.size()) return text;
  // gzip's first two bytes.
  if (text.starts_with("\x1f\x8b")) {
    throw InputError(file.string(), "",
                     "is compressed by gzip, expected text (PyTorch's profiles alone are read so, "
                     "where costs are calibrated)");
  }
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(valid), '\n');
  throw InputError(
      file.string(), fmt::format("line {}", line),
      fmt::format("is not UTF-8: byte 0x{:02x}", static_cast<unsigned char>(text[valid])));
}

void write_file_atomically(const std::filesystem::path& file, std::string_view bytes) {
  NewFile written(file);
  written.write(bytes);
  written.commit();
}

}  // namespace weir
