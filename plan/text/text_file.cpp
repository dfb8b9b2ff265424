// Whole files in and out: bounded when read, never half there when written.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::uintmax_t kLargestFile = std::uintmax_t{1} << 30;

// An open descriptor, closed on every way out.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& file)
      : descriptor_(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {}
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  // False, with errno set, when any byte did not reach the disk.
  [[nodiscard]] bool write(std::string_view bytes) const {
    if (descriptor_ < 0) return false;
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return ::fsync(descriptor_) == 0 || errno == EINVAL;  // EINVAL: a file system that cannot
  }

 private:
  int descriptor_;
};

}  // namespace

std::string read_text_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (error || !std::filesystem::exists(status))
    throw InputError(file.string(), "", "cannot be read: no such file");
  if (std::filesystem::is_directory(status))
    throw InputError(file.string(), "", "is a folder, expected a file");
  if (std::filesystem::is_regular_file(status) &&
      std::filesystem::file_size(file, error) > kLargestFile) {
    throw InputError(file.string(), "", "is larger than 1 GiB");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw InputError(file.string(), "", fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw InputError(file.string(), "", "cannot be read to its end");
  return text;
}

void write_file_atomically(const std::filesystem::path& file, std::string_view bytes) {
  const auto cannot = [&file](const char* why) {
    return InputError(file.string(), "", fmt::format("cannot be written: {}", why));
  };
  std::error_code error;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  if (error) throw cannot(error.message().c_str());
  const auto status = std::filesystem::status(file, error);
  // /dev/stdout, a pipe: nothing to rename over.
  if (std::filesystem::is_character_file(status) || std::filesystem::is_fifo(status)) {
    if (!OutputFile(file).write(bytes)) throw cannot(std::strerror(errno));
    return;
  }
  // Written beside, then renamed over: a reader sees the old file or the new one. The process's
  // number keeps two writers apart.
  std::filesystem::path beside = file;
  beside += fmt::format(".{}.tmp", ::getpid());
  if (!OutputFile(beside).write(bytes)) {
    const int reason = errno;
    std::filesystem::remove(beside, error);
    throw cannot(std::strerror(reason));
  }
  std::filesystem::rename(beside, file, error);
  if (error) {
    const std::string why = error.message();
    std::filesystem::remove(beside, error);
    throw cannot(why.c_str());
  }
}

}  // namespace weir
