// The command's exit codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/text/ending.hpp"

namespace weir {

// 0 done, 2 usage, 3 bad input, 4 no feasible plan, 5 missing component, 6 run failed, by what else
// ever.
[[nodiscard]] int exit_code(EndKind kind);

// Of what a signal ended before its end: 128 and its number, as shells have it. 129 SIGHUP, 130
// SIGINT, 143 SIGTERM.
[[nodiscard]] constexpr int exit_code_of_signal(int signal) { return 128 + signal; }

// A signal ended the work, whose result so far has been told.
struct StoppedBySignal {
  int signal = 0;
};

}  // namespace weir
