// Prints them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/changes_text.hpp"

#include <fmt/core.h>

#include <cmath>

#include "plan/job/summary.hpp"
#include "tools/report/breakdown.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

Cell fit_cell(const Forecast& forecast) {
  const std::string word = fit_word(forecast);
  return forecast.fits() == Fits::maybe ? number(forecast.fits_probability(), word) : word;
}

void print_critical_path(Printout& out, const CriticalPath& path, Nanoseconds step) {
  out.say("\n");
  Table table{{left("the critical path, by action"), {"time"}, {"share"}, {"actions"}}, {}, {}};
  for (const auto& [kind, time, actions] : path.parts) {
    table.rows.push_back({fmt::format("{}", kind), to_seconds(time),
                          percent(to_seconds(time) / to_seconds(step)), actions});
  }
  out.show(table);
}

void print_what_if(Printout& out, const std::string& title, const std::vector<WhatIf>& rows,
                   const std::string& stack) {
  // Where the time was over before the first of them, who prints says so.
  if (rows.empty()) return;
  out.say("\n");
  Table table{{left(title), {"gain"}, {"step"}, {"peak memory"}, {"fits"}, left("note")}, {}, {}};
  for (const auto& [change, forecast, gain] : rows) {
    const std::string name = change.choice + ": " + change.to;
    const std::string beyond =
        change.beyond.empty() ? "" : fmt::format("not in {}: {}", stack, change.beyond);
    if (!forecast) {
      // What is not there need not be told why it could not be.
      if (beyond.empty()) table.rows.push_back({name, "-", "-", "-", "-", change.refused});
      continue;
    }
    table.rows.push_back({name, percent(gain, "{:+.1f}%"), forecast->step_time,
                          forecast->peak_memory(), fit_cell(*forecast), beyond});
  }
  out.show(table);
}

namespace {

void print_choices(Printout& out, const std::string& title, const std::vector<Rejected>& rows) {
  if (rows.empty()) return;
  out.say("\n");
  Table table{{left(title),
               {"times"},
               {"step"},
               {"peak memory"},
               {"fits"},
               left("the best such plan, or why there is none")},
              {},
              {}};
  for (const Rejected& one : rows) {
    const std::string name = one.choice + ": " + one.value;
    // Why no such plan is among the results matters as much as the plan.
    if (!one.best) {
      table.rows.push_back({name, "-", "-", "-", "-", one.reason});
      continue;
    }
    const Forecast& f = one.best->forecast;
    const std::string faster = std::isinf(one.gap) ? std::string(" (others were not come to)")
                               : one.gap > 0
                                   ? fmt::format(" (another may be {:.1f}% faster)", 100 * one.gap)
                                   : "";
    table.rows.push_back({name, number(one.ratio, fmt::format("{:.3f}", one.ratio)), f.step_time,
                          f.peak_memory(), fit_cell(f), summary(one.best->plan) + faster});
  }
  out.show(table);
}

}  // namespace

void print_rejected(Printout& out, const std::vector<Rejected>& rows) {
  print_choices(out, "instead of the best plan", rows);
}

void print_outside(Printout& out, const std::vector<Rejected>& rows, const std::string& stack) {
  if (rows.empty()) return;
  const double gain = 100 * (1 / rows.front().ratio - 1);
  out.say("\nnot in {}: {}; --any-schedule searches such plans\n", stack,
          gain > 0
              ? fmt::format("{:+.1f} % by {} {}", gain, rows.front().choice, rows.front().value)
              : std::string("nothing that is faster"));
  print_choices(out, "not in " + stack, rows);
}

void print_front(Printout& out, const std::vector<Ranked>& front) {
  out.say("\n");
  Table table{
      {left("what less memory costs"), {"times"}, {"step"}, {"peak memory"}, {"fits"}}, {}, {}};
  for (const Ranked& ranked : front) {
    const Forecast& f = ranked.forecast;
    const double times = f.step_time / front.front().forecast.step_time;
    table.rows.push_back({summary(ranked.plan), number(times, fmt::format("{:.3f}", times)),
                          f.step_time, f.peak_memory(), fit_cell(f)});
  }
  out.show(table);
}

}  // namespace weir
