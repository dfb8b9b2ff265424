// A shell command in a process group of its own, read through a pipe until it ends or its limits
// do.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/program_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <tuple>

#include "plan/words/error.hpp"

namespace weir::app {
namespace {

using Clock = std::chrono::steady_clock;

// A pipe, closed end by end.
struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) ends = {-1, -1};
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_reading();
    close_writing();
  }
  void close_reading() { close(ends[0]); }
  void close_writing() { close(ends[1]); }
  static void close(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
  std::array<int, 2> ends{};
};

// The shell command, and a guard beside it that leads their process group. However we end, the
// system closes our end of a pipe that the guard listens to, and the guard ends the group: the
// command and all that it has started.
class Child {
 public:
  explicit Child(const std::string& command) {
    if (output_.ends[0] < 0 || lifeline_.ends[0] < 0) fail(command);
    guard_ = ::fork();
    if (guard_ == 0) run_guard(command);
    if (guard_ < 0) fail(command);
    output_.close_writing();
    lifeline_.close_reading();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    lifeline_.close_writing();
    if (guard_ > 0) static_cast<void>(wait());
  }

  [[nodiscard]] int output() const { return output_.ends[0]; }

  // Once: the command's status as waitpid() has it.
  [[nodiscard]] int wait() {
    int status = 0;
    while (::waitpid(guard_, &status, 0) < 0 && errno == EINTR) {
    }
    guard_ = -1;
    return status;
  }

 private:
  [[noreturn]] static void fail(const std::string& command) {
    throw InputError(
        command, "",
        fmt::format("could not be started: {}", std::generic_category().message(errno)));
  }

  // From here on only what may be called between fork and exec.
  [[noreturn]] void run_guard(const std::string& command) {
    // A group of its own: all that the command starts can be ended with it.
    ::setpgid(0, 0);
    std::ignore = ::signal(SIGPIPE, SIG_DFL);
    for (const int asked : {SIGINT, SIGTERM, SIGHUP}) std::ignore = ::signal(asked, SIG_DFL);
    // Only the parent keeps the other end: when it dies, the lifeline breaks.
    ::close(lifeline_.ends[1]);
    const pid_t shell = ::fork();
    if (shell == 0) {
      ::dup2(output_.ends[1], STDOUT_FILENO);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(output_.ends[1]);
    while (shell > 0) {
      int status = 0;
      if (::waitpid(shell, &status, WNOHANG) == shell)
        ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
      pollfd ours{lifeline_.ends[0], POLLIN, 0};
      constexpr int kLookMs = 5;
      // Broken: nobody reads any more, so the whole group goes.
      if (::poll(&ours, 1, kLookMs) > 0) ::kill(0, SIGKILL);
    }
    ::_exit(126);
  }

  Pipe output_, lifeline_;
  pid_t guard_ = -1;
};

// The guard gives the command's status on, 128 and more for a signal, as a shell does.
std::string ending(int status) {
  return fmt::format("ended with status {}", WIFEXITED(status) ? WEXITSTATUS(status) : status);
}

}  // namespace

std::string output_of(const std::string& command, const ProgramLimits& limits) {
  Child child(command);
  const Clock::time_point end = Clock::now() + limits.time;
  std::string text;
  std::array<char, 1 << 16> part;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0)
      throw InputError(command, "",
                       fmt::format("takes longer than {} s", limits.time.count() / 1e3));
    pollfd ready{child.output(), POLLIN, 0};
    // At most a second at a time: poll counts in int.
    const auto waited = std::min<std::int64_t>(left.count(), 1000);
    if (::poll(&ready, 1, static_cast<int>(waited)) <= 0) continue;
    const ssize_t count = ::read(child.output(), part.data(), part.size());
    // A signal is no end of output.
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
    if (text.size() > limits.bytes)
      throw InputError(command, "", fmt::format("prints more than {} bytes", limits.bytes));
  }
  // Read to the end first: a full pipe would keep the child from ending.
  const int status = child.wait();
  if (status != 0) throw InputError(command, "", ending(status));
  return text;
}

}  // namespace weir::app
