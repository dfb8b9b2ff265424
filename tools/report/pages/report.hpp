// report.html: one file, no network. The first screen says which plan to use, how sure that is, and
// where the numbers come from; below it stand timelines, idle time by cause, memory, accuracy and
// method.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/program/program.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/report/breakdown.hpp"
#include "tools/report/page.hpp"
#include "tools/report/pages/explained.hpp"
#include "traces/compare.hpp"
#include "traces/trace.hpp"

namespace weir {

// A plan that was forecast and run.
struct ReportRow {
  std::string plan;  // its summary
  bool baseline = false;
  Forecast forecast;  // before anything was run
  // Forecast by costs fitted to the other plans' runs; none where it was the only plan.
  std::optional<Seconds> recalibrated;
  Seconds measured{0};     // median step
  Bytes measured_peak{0};  // fullest rank
  double measured_bubble = 0;
  Comparison comparison;
  Trace predicted, run;

  [[nodiscard]] double error() const;  // (first forecast - measured) / measured
  // The same of the recalibrated forecast, "+1.2" and the unit; "-" where there is none.
  [[nodiscard]] std::string error_after(std::string_view unit) const;
};

struct Report {
  std::string model;
  std::string machine;
  std::string costs_origin;
  std::vector<ReportRow> rows;  // best measured first; the baseline may be anywhere
  std::string disturbed;  // what took from the measurements, in words; empty: nothing that is known
  std::string no_winner;  // why the first row cannot be told from others; empty: it can
  std::string baseline = "one rank alone";  // what the baseline is
  std::vector<ReportChange> changes;        // from it to the first row
  std::vector<StepExplained> explained;     // the first row, and the baseline; or none
  int candidates = 0;
  int feasible = 0;
  double error_before = 0;  // median |predicted - measured| / measured over the rows
  // The same, each row left out of its own fit; none where there is one row alone.
  std::optional<double> error_after;
  Provenance provenance;
};

[[nodiscard]] std::string report_html(const Report& report);

}  // namespace weir
