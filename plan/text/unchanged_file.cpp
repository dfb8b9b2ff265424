// Reads at a place, and looks at the file's length and time of writing after each.
// SPDX-License-Identifier: Apache-2.0
#include "plan/text/unchanged_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

[[noreturn]] void cannot_read(const std::filesystem::path& file, const std::string& why) {
  throw InputError(file.string(), "", "cannot be read: " + why);
}

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

UnchangedFile::UnchangedFile(std::filesystem::path file) : file_(std::move(file)) {
  // Not waiting: a pipe that nobody writes into is refused as one that somebody does.
  const int descriptor = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) cannot_read(file_, reason(errno));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    cannot_read(file_, "expected a file");
  }
  descriptor_ = descriptor;
  size_ = static_cast<std::uint64_t>(status.st_size);
  written_s_ = status.st_mtim.tv_sec;
  written_ns_ = status.st_mtim.tv_nsec;
}

UnchangedFile::~UnchangedFile() { ::close(descriptor_); }

void UnchangedFile::require_unchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) cannot_read(file_, reason(errno));
  if (static_cast<std::uint64_t>(status.st_size) != size_ || status.st_mtim.tv_sec != written_s_ ||
      status.st_mtim.tv_nsec != written_ns_) {
    cannot_read(file_, fmt::format("it was changed meanwhile ({} bytes, {} as it was opened)",
                                   status.st_size, size_));
  }
}

void UnchangedFile::read(std::uint64_t at, std::span<std::byte> into) const {
  assert(at + into.size() <= size_ && "behind the file's end");
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot_read(file_, reason(errno));
    if (got == 0) break;  // it ends here now, which the next line tells
    into = into.subspan(static_cast<std::size_t>(got));
    at += static_cast<std::uint64_t>(got);
  }
  // Behind the bytes: what was written before they were read has moved the time.
  require_unchanged();
}

void UnchangedFile::each_piece(std::uint64_t begin, std::uint64_t end,
                               const std::function<void(std::span<const std::byte>)>& take) const {
  std::vector<std::byte> piece(std::min(kPiece, end - begin));
  while (begin < end) {
    const auto bytes = std::span(piece).first(std::min(kPiece, end - begin));
    read(begin, bytes);
    take(bytes);
    begin += bytes.size();
  }
}

}  // namespace weir
