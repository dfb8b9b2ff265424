// Prints them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/changes_text.hpp"

#include <fmt/core.h>

#include "tools/weir/fit_text.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {

void print_critical_path(const CriticalPath& path, Nanoseconds step) {
  say("\n{:<34} {:>10} {:>7} {:>8}\n", "the critical path, by action", "time", "share", "actions");
  for (const auto& [kind, time, actions] : path.parts) {
    say("{:<34} {:>10} {:>6.1f}% {:>8}\n", kind, format_duration(to_seconds(time)),
        100 * (to_seconds(time) / to_seconds(step)), actions);
  }
}

void print_what_if(const std::string& title, const std::vector<WhatIf>& rows) {
  say("\n{:<58} {:>8} {:>10} {:>11} {:>6}\n", title, "gain", "step", "peak memory", "fits");
  for (const auto& [change, forecast, gain] : rows) {
    const std::string name = change.choice + ": " + change.to;
    if (!forecast) {
      say("{:<58} {}\n", name, change.refused);
      continue;
    }
    say("{:<58} {:>+7.1f}% {:>10} {:>11} {:>6}\n", name, 100 * gain,
        format_duration(forecast->step_time), format_bytes(forecast->peak_memory()),
        fit_word(*forecast));
  }
}

}  // namespace weir
