// Written beside the file it will be, then renamed over it: a reader sees the old file or the new.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/new_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <system_error>

#include "plan/words/error.hpp"

namespace weir {
namespace {

// EINVAL: a file system, or a device, that cannot. A signal, which some file systems let come in
// between, changes nothing.
bool synced(int descriptor) {
  while (::fsync(descriptor) != 0) {
    if (errno != EINTR) return errno == EINVAL;
  }
  return true;
}

// How a file without a name is named, by linkat().
std::string open_file(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

// A file without a name is gone with this process, however that ends. -1 where the file system has
// none, or where it could not be named later.
int open_without_name(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor < 0 || ::access(open_file(descriptor).c_str(), F_OK) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

// Of a name that nobody can foresee and nobody has, made for this writer and through no link.
std::string random_ending(const char* kind) {
  std::random_device random;
  return fmt::format(".{:08x}{:08x}.{}", random(), random(), kind);
}

}  // namespace

NewFile::NewFile(std::filesystem::path file) : file_(std::move(file)) {
  if (!file_.has_filename()) fail(EISDIR);  // "folder/"
  std::error_code error;
  if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path(), error);
  if (error) fail(error.value());
  const auto status = std::filesystem::status(file_, error);
  const bool stream =
      std::filesystem::is_character_file(status) || std::filesystem::is_fifo(status);
  if (stream) {
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    beside_ = file_;
    beside_ += random_ending("tmp");
    descriptor_ = open_without_name(file_.has_parent_path() ? file_.parent_path() : ".");
    named_ = descriptor_ < 0;
    constexpr int kNew = O_CREAT | O_EXCL | O_NOFOLLOW;
    if (named_) descriptor_ = ::open(beside_.c_str(), O_WRONLY | O_CLOEXEC | kNew, 0666);
  }
  if (descriptor_ < 0) fail(errno);
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;  // committed
  ::close(descriptor_);
  std::error_code none;  // nobody is left to be told
  if (!beside_.empty() && named_) std::filesystem::remove(beside_, none);
}

void NewFile::fail(int reason) const { fail_to_write(file_, reason); }

void NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    // A signal came before anything was written.
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void NewFile::write_again(std::uint64_t at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(errno);
    at += static_cast<std::uint64_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void NewFile::make_durable() const {
  if (!synced(descriptor_)) fail(errno);
}

void NewFile::take_name() {
  if (named_ || beside_.empty()) return;
  if (::linkat(AT_FDCWD, open_file(descriptor_).c_str(), AT_FDCWD, beside_.c_str(),
               AT_SYMLINK_FOLLOW) != 0)
    fail(errno);
  named_ = true;
}

void NewFile::take_place() {
  if (!beside_.empty()) {
    std::error_code error;
    std::filesystem::rename(beside_, file_, error);
    if (error) fail(error.value());
  }
  ::close(descriptor_);
  descriptor_ = -1;
}

void NewFile::commit() {
  // Durable before it has its name: a crash leaves the old file or the new one.
  make_durable();
  take_name();
  take_place();
}

void NewFiles::add(const std::filesystem::path& file, std::string_view bytes) {
  files_.push_back(std::make_unique<NewFile>(file));
  files_.back()->write(bytes);
}

void NewFiles::commit() {
  if (files_.empty()) return;
  // Nothing has its place before all of them are durable.
  for (const auto& file : files_) file->make_durable();
  for (const auto& file : files_) file->take_name();
  // While some are old and some new, the one that says they belong together stands beside its
  // place, where it also stays if the new one cannot take that.
  const NewFile& last = *files_.back();
  std::filesystem::path before = last.file_;
  before += random_ending("before");
  std::error_code none;  // it may be the first
  if (files_.size() > 1 && !last.is_stream()) std::filesystem::rename(last.file_, before, none);
  bool all_old = true;
  try {
    for (const auto& file : files_) {
      file->take_place();
      all_old = false;
    }
  } catch (...) {
    if (all_old) std::filesystem::rename(before, last.file_, none);
    throw;
  }
  std::filesystem::remove(before, none);
  files_.clear();
}

void fail_to_write(const std::filesystem::path& file, int reason) {
  const std::string why = "cannot be written: " + std::generic_category().message(reason);
  // A full disk, a quota, a limit of the file's size, a disk or its server that fails.
  for (const int room : {ENOSPC, EDQUOT, EFBIG, EIO, ESTALE}) {
    if (reason == room) throw RunFailed(file.string() + ": " + why);
  }
  throw InputError(file.string(), "", why);
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = descriptor >= 0 && synced(descriptor);
  const int reason = errno;
  // close() may set errno anew.
  if (descriptor >= 0) ::close(descriptor);
  if (!done) fail_to_write(folder, reason);
}

}  // namespace weir
