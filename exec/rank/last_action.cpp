// A mapped file of one line.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/last_action.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "plan/text/new_file.hpp"

namespace weir {
namespace {

constexpr std::size_t kLine = 128;  // with its end
constexpr const char* kActionsFolder = "last-actions";

}  // namespace

LastAction::LastAction(const std::filesystem::path& output, const Program& program, Rank rank,
                       int replica)
    : program_(program),
      who_(replica > 0 ? fmt::format("rank {} of replica {}", rank.value, replica)
                       : fmt::format("rank {}", rank.value)) {
  std::string name = who_;
  std::ranges::replace(name, ' ', '-');
  file_ = output / kActionsFolder / (name + ".txt");
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  if (error) fail_to_write(file_.parent_path(), error.value());
  const int descriptor = ::open(file_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) fail_to_write(file_, errno);
  // All of the line is there before it is mapped: a full disk is an error here, not a signal later.
  const std::string first = fmt::format("{:<{}}\n", who_ + ": at no action yet", kLine - 1);
  void* mapped = MAP_FAILED;
  if (::write(descriptor, first.data(), first.size()) == static_cast<ssize_t>(kLine))
    mapped = ::mmap(nullptr, kLine, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  const int reason = errno;
  ::close(descriptor);
  if (mapped == MAP_FAILED) fail_to_write(file_, reason);
  line_ = static_cast<char*>(mapped);
}

LastAction::~LastAction() { ::munmap(line_, kLine); }

void LastAction::begun(OperationId id, std::uint32_t step) noexcept { write(id, step, "begun"); }
void LastAction::ended(OperationId id, std::uint32_t step) noexcept { write(id, step, "ended"); }

void LastAction::write(OperationId id, std::uint32_t step, const char* what) noexcept {
  const std::string action = to_string(program_.op(id).action);
  const auto end =
      fmt::format_to_n(line_, kLine - 1, "{}, step {}, {}: {}", who_, step, action, what);
  std::fill(std::min(end.out, line_ + kLine - 1), line_ + kLine - 1, ' ');
}

void LastAction::remove() noexcept {
  std::error_code none;
  std::filesystem::remove(file_, none);
  std::filesystem::remove(file_.parent_path(), none);  // where it was the last
}

void LastAction::clear(const std::filesystem::path& output) noexcept {
  std::error_code none;
  std::filesystem::remove_all(output / kActionsFolder, none);
}

}  // namespace weir
