// A flag that the handler sets; the signal's second coming finds its first disposition.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/stop_signals.hpp"

#include <csignal>
#include <cstdlib>

#include "tools/app/exit_code.hpp"
#include "tools/weir/command_line.hpp"

namespace weir {
namespace {

// A handler has no argument of ours: what it sets can only be global.
volatile std::sig_atomic_t stop_asked = 0;

extern "C" void remember_stop(int signal) {
  stop_asked = 1;
  static_cast<void>(std::signal(signal, SIG_DFL));
}

}  // namespace

void end_at_once(const std::string& line) {
  note(line);
  std::_Exit(exit_code(EndKind::failed));
}

std::function<bool()> stop_on_signals() {
  return [listens = false]() mutable {
    if (!listens) {  // the first call is one thread's: from then on this is only read
      for (const int signal : {SIGINT, SIGTERM})
        static_cast<void>(std::signal(signal, remember_stop));
      listens = true;
    }
    return stop_asked != 0;
  };
}

}  // namespace weir
