// What people read of `weir tune`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/tune.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "plan/job/summary.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

Cell error_after(const ReportRow& row) {
  if (!row.recalibrated) return "-";
  return percent((*row.recalibrated - row.measured) / row.measured, "{:+.1f}%");
}

Table table_of(const Report& report) {
  Table table{{left("plan"),
               {"predicted"},
               {"measured"},
               {"error"},
               {"recalib."},
               {"peak pred."},
               {"peak meas."},
               {"bubble p"},
               {"bubble m"}},
              {},
              {}};
  // Best measured first: the row to mark, where that is no luck.
  if (report.no_winner.empty()) table.best = 0;
  for (const ReportRow& row : report.rows) {
    table.rows.push_back({row.plan + (row.baseline ? " (baseline)" : ""), row.forecast.step_time,
                          row.measured, percent(row.error(), "{:+.1f}%"), error_after(row),
                          row.forecast.peak_memory(), row.measured_peak,
                          percent(row.forecast.metrics.bubble_fraction),
                          percent(row.measured_bubble)});
  }
  return table;
}

}  // namespace

void print(Printout& out, const app::TuneRequest& request, const app::TuneResult& result) {
  const Report& report = result.report;
  const Ranked& best = result.best;
  // The winner first, or why there is none.
  out.say("{}\n",
          result.winner.empty() ? "no winner: " + report.no_winner : "winner: " + result.winner);
  std::vector<std::string> names;
  for (const ReportRow& row : report.rows) names.push_back(row.plan);
  note("plans in short: " + legend_of_summaries(names));
  out.show(table_of(report));
  out.say("\nmedian error {:.1f} % as first predicted{}\n", report.error_before * 100,
          report.error_after
              ? fmt::format(", {:.1f} % after recalibration (each plan left out of its own fit)",
                            *report.error_after * 100)
              : "; no other plan was run to recalibrate it by");
  // What was run is told by its steps.
  const bool was_run =
      std::ranges::find(report.rows, summary(best.plan), &ReportRow::plan) != report.rows.end();
  if (!was_run) {
    out.say("to try next, by {} costs: {}, predicted {}\n",
            result.recalibrated ? "recalibrated" : "the profile's", summary(best.plan),
            format_duration(best.forecast.step_time));
  }
  out.say("{}\n", (request.output / "report.html").string());
}

}  // namespace weir
