// A flag that the handler sets; the signal's second coming finds what there was for it before.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/stop_signals.hpp"

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <mutex>

#include "tools/app/shared/exit_code.hpp"
#include "tools/weir/command_line.hpp"
#include "tools/weir/heard_signal.hpp"

namespace weir {
namespace {

constexpr std::array kStopping{SIGINT, SIGTERM, SIGHUP};

// A handler has no argument of ours: what it reads can only be global. Its signals' former
// dispositions are there before it is.
std::array<struct sigaction, kStopping.size()> former{};

extern "C" void remember_stop(int signal) {
  hear_signal(signal);
  for (std::size_t i = 0; i < kStopping.size(); ++i) {
    if (kStopping[i] == signal) ::sigaction(signal, &former[i], nullptr);
  }
}

void listen() {
  for (std::size_t i = 0; i < kStopping.size(); ++i) {
    ::sigaction(kStopping[i], nullptr, &former[i]);
    // One that was ignored when we were started (nohup, a shell's &) stays so.
    if (former[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = &remember_stop;
    ::sigaction(kStopping[i], &action, nullptr);
  }
}

}  // namespace

void end_at_once(const std::string& line) {
  complain(line);
  std::_Exit(exit_code(EndKind::failed));
}

std::function<int()> stop_on_signals() {
  return [] {
    // Once, whoever asks first, and whichever copy of this: a second time would find itself.
    static std::once_flag listening;
    std::call_once(listening, listen);
    return heard_signal();
  };
}

}  // namespace weir
