// One handler for the signals that ask a process to end.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/signals.hpp"

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <tuple>
#include <utility>

#include "exec/processes/started_by.hpp"
#include "tools/app/shared/exit_code.hpp"

namespace weir {
namespace {

using namespace std::string_view_literals;

constexpr std::array<std::pair<int, std::string_view>, 4> kAsked{{
    {SIGINT, "weir: stopped by SIGINT\n"sv},
    {SIGTERM, "weir: stopped by SIGTERM\n"sv},
    {SIGHUP, "weir: stopped by SIGHUP\n"sv},
    {SIGXCPU, "weir: stopped: its processor time is used up\n"sv},
}};

// Only what may be called within a signal: no destructor runs and nothing is flushed, for the
// signal may have come in the middle of either.
extern "C" void end_with_a_line(int signal) {
  for (const auto& [known, line] : kAsked) {
    if (known != signal) continue;
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }
  // A limit is no wish: what ran into it has failed.
  ::_exit(signal == SIGXCPU ? exit_code(EndKind::failed) : exit_code_of_signal(signal));
}

// oneDNN writes the code of its kernels to address 0 where it gets no memory for it; who asks
// before (exec/cpu/kernels/library_memory.hpp) can be overtaken by another thread. So a write there
// is want of memory where even now there is none, and any other a fault, which comes again when we
// return.
extern "C" void end_by_address(int signal, siginfo_t* fault, void* /*context*/) {
  constexpr std::uintptr_t kNearZero = 1 << 16;
  constexpr std::size_t kCode = std::size_t{32} << 20;
  const bool near_zero = reinterpret_cast<std::uintptr_t>(fault->si_addr) < kNearZero;
  void* const room =
      near_zero ? ::mmap(nullptr, kCode, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                : nullptr;
  if (room == MAP_FAILED) end_without_memory();
  static_cast<void>(::signal(signal, SIG_DFL));
}

}  // namespace

void end_without_memory() noexcept {
  constexpr std::string_view kLine = "weir: out of memory or threads\n";
  // Whether or not somebody reads it.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  ::_exit(exit_code(EndKind::failed));
}

void take_signals() {
  std::set_terminate(&end_without_memory);
  // A launcher ends the others by SIGTERM where one of them has failed, and that one has said why.
  const bool of_several =
      // Nothing here sets the environment.
      // NOLINTNEXTLINE(concurrency-mt-unsafe)
      started_by([](const char* name) { return std::getenv(name); }).has_value();
  for (const auto& [signal, line] : kAsked) {
    if (of_several && signal == SIGTERM) continue;
    struct sigaction action {};
    // One that was ignored when we were started (nohup) stays so.
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = &end_with_a_line;
    ::sigaction(signal, &action, nullptr);
  }
  struct sigaction address {};
  // A sanitizer's own tells more.
  if (::sigaction(SIGSEGV, nullptr, &address) == 0 && address.sa_handler == SIG_DFL) {
    address.sa_flags = SA_SIGINFO;
    address.sa_sigaction = &end_by_address;
    ::sigaction(SIGSEGV, &address, nullptr);
  }
  // The C library looks for what unwinds C frames when an exception first passes one (oneDNN's and
  // OpenMP's are), and aborts where that finds no memory: it is found now.
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  std::ignore = ::signal(SIGPIPE, SIG_IGN);  // a write says EPIPE
  std::ignore = ::signal(SIGXFSZ, SIG_IGN);  // a write says EFBIG
}

}  // namespace weir
