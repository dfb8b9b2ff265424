// Prints them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/changes_text.hpp"

#include <fmt/core.h>

#include "plan/job/summary.hpp"
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

void print_rejected(const std::vector<Rejected>& rows) {
  say("\n{:<34} {:>7} {:>10} {:>11}  {}\n", "instead of the best plan", "times", "step",
      "peak memory", "the best such plan, or why there is none");
  for (const Rejected& one : rows) {
    const std::string name = one.choice + ": " + one.value;
    if (!one.best) {
      say("{:<34} {:>7} {:>10} {:>11}  {}\n", name, "-", "-", "-", one.reason);
      continue;
    }
    const Forecast& f = one.best->forecast;
    say("{:<34} {:>7.3f} {:>10} {:>11}  {}{}\n", name, one.ratio, format_duration(f.step_time),
        format_bytes(f.peak_memory()), summary(one.best->plan),
        one.gap > 0 ? fmt::format(" (another may be {:.1f}% faster)", 100 * one.gap)
                    : std::string());
  }
}

void print_front(const std::vector<Ranked>& front) {
  say("\n{:<34} {:>7} {:>10} {:>11}\n", "what less memory costs", "times", "step", "peak memory");
  for (const Ranked& ranked : front) {
    const Forecast& f = ranked.forecast;
    say("{:<34} {:>7.3f} {:>10} {:>11}\n", summary(ranked.plan),
        f.step_time / front.front().forecast.step_time, format_duration(f.step_time),
        format_bytes(f.peak_memory()));
  }
}

}  // namespace weir
