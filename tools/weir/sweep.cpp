// What people read of `weir sweep`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/fit_text.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {
namespace {

void print_rows(const app::SweepReply& reply) {
  const SweepResult& result = reply.result;
  say("{} candidates, {} feasible, {:.2f} s\n", result.candidates, result.feasible, result.seconds);
  for (const std::string& reason : result.refused) note("left out: " + reason);
  say("{:<44} {:>10} {:>10} {:>8} {:>8} {:>11} {:>6} {:>6} {:>6}\n", "plan", "predicted",
      "measured", "bubble p", "bubble m", "peak memory", "fits", "gap", "pareto");
  for (const app::SweepRow& row : reply.rows) {
    const auto& [plan, f, gap, pareto] = reply.ranked(row);
    say("{:<44} {:>10} {:>10} {:>7.1f}% {:>8} {:>11} {:>6} {:>5.1f}% {:>6}{}\n", summary(plan),
        format_duration(f.step_time), row.measured ? format_duration(*row.measured) : "-",
        f.metrics.bubble_fraction * 100,
        row.bubble ? fmt::format("{:.1f}%", *row.bubble * 100) : "-", format_bytes(f.peak_memory()),
        fit_word(f), gap * 100, pareto ? "yes" : "", row.baseline ? " (baseline)" : "");
  }
}

void print_baseline(const app::SweepReply& reply) {
  const SweepResult& result = reply.result;
  const Baseline& baseline = *result.baseline;
  const Forecast& f = baseline.ranked.forecast;
  const std::string place =
      baseline.place ? fmt::format("place {} among {} plans", *baseline.place, result.feasible)
                     : fmt::format("does not fit: {} of {}", format_bytes(f.peak_memory()),
                                   format_bytes(*f.memory_limit));
  say("baseline {}: {}; its step takes {:.3f} times the best plan's, on {} devices where that has "
      "{}\n",
      reply.baseline_name, place, baseline.ratio, f.devices, result.plans.front().forecast.devices);
}

}  // namespace

void print(const app::SweepRequest& request, const app::SweepReply& reply) {
  if (const auto remark = app::remark_on(request.stack, reply.cluster.stack.name)) note(*remark);
  print_rows(reply);
  if (reply.result.baseline) print_baseline(reply);
  if (reply.costs.basis == Basis::builtin) say("{}\n", trust(reply));
  if (request.report) say("{}\n", request.report->string());
  if (reply.picture) say("{}\n", reply.picture->string());
}

}  // namespace weir
