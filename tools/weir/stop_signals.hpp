// Ctrl-C, SIGTERM and SIGHUP as a question that work may ask, instead of its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace weir {

// The number of the first of these signals that came, else 0. Asked for the first time it begins to
// listen; until then they end the process as ever, and so does the second one of a kind.
[[nodiscard]] std::function<int()> stop_on_signals();

// Says the line and ends the process as a failed run, whatever its threads are at.
[[noreturn]] void end_at_once(const std::string& line);

}  // namespace weir
