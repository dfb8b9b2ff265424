// Written beside the file it will be, then renamed over it: a reader sees the old file or the new.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/new_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>

#include "plan/words/error.hpp"

namespace weir {
namespace {

// EINVAL: a file system, or a device, that cannot.
bool synced(int descriptor) { return ::fsync(descriptor) == 0 || errno == EINVAL; }

}  // namespace

NewFile::NewFile(std::filesystem::path file) : file_(std::move(file)) {
  std::error_code error;
  if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path(), error);
  if (error) fail(error.value());
  const auto status = std::filesystem::status(file_, error);
  const bool stream =
      std::filesystem::is_character_file(status) || std::filesystem::is_fifo(status);
  if (stream) {
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    // A name that nobody can foresee, made for this writer and through no link.
    std::random_device random;
    beside_ = file_;
    beside_ += fmt::format(".{:08x}{:08x}.tmp", random(), random());
    constexpr int kNew = O_CREAT | O_EXCL | O_NOFOLLOW;
    descriptor_ = ::open(beside_.c_str(), O_WRONLY | O_CLOEXEC | kNew, 0666);
  }
  if (descriptor_ < 0) fail(errno);
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;  // committed
  ::close(descriptor_);
  std::error_code none;  // nobody is left to be told
  if (!beside_.empty()) std::filesystem::remove(beside_, none);
}

void NewFile::fail(int reason) const {
  throw InputError(file_.string(), "", fmt::format("cannot be written: {}", std::strerror(reason)));
}

void NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void NewFile::commit() {
  if (!synced(descriptor_)) fail(errno);
  if (!beside_.empty()) {
    std::error_code error;
    std::filesystem::rename(beside_, file_, error);
    if (error) fail(error.value());
  }
  ::close(descriptor_);
  descriptor_ = -1;
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = descriptor >= 0 && synced(descriptor);
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!done) {
    throw InputError(folder.string(), "",
                     fmt::format("cannot be made durable: {}", std::strerror(reason)));
  }
}

}  // namespace weir
