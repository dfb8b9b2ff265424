// The report of a search: which plan to use, what the present one costs beside it, how far the
// forecasts may be trusted, and what was measured where plans were run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/search/sweep.hpp"
#include "tools/report/breakdown.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/page.hpp"
#include "tools/report/pages/explained.hpp"

namespace weir {

struct SearchReport {
  std::string model;  // its file's name
  std::string machine;
  std::string costs_origin;
  std::string trust;                             // one sentence: what stands behind the forecasts
  const SweepResult* result;                     // at least one plan
  std::vector<std::string> names;                // of the plans, as far as they may be shown
  std::string baseline_name;                     // where the result has a baseline
  std::vector<ReportChange> changes;             // from it to the best plan
  std::vector<std::string> not_carried;          // by these changes, a line each
  std::vector<std::string> first_changes;        // the smallest first, a line each
  Trace best;                                    // the best plan's predicted step
  std::optional<Trace> present;                  // the present plan's, where it is another
  std::vector<StepExplained> explained;          // the best plan, and the present one; or none
  std::string run;                               // "3 plans were run ..."; empty: nothing was
  std::vector<std::optional<Seconds>> measured;  // steps of the result's plans, where they were run
  std::optional<Seconds> baseline_measured;
  const std::vector<Ranked>* front;  // of step time and peak memory
  Provenance provenance;
};

// Step time against the fullest device's memory: `plans`, through the front a line, and the present
// plan where there is one.
[[nodiscard]] Chart front_chart(const std::vector<Ranked>& plans, const std::vector<Ranked>& front,
                                const std::optional<Baseline>& baseline);

// What a notebook shows of a search: the first sentence, the ranking, and the chart of the front
// with the first `drawn` plans. Of the report's fields it takes the result, names and front.
[[nodiscard]] std::string search_cell(const SearchReport& report, std::size_t drawn);

// The ranking has five rows, and the baseline's where it is not among them.
[[nodiscard]] std::string search_html(const SearchReport& report);

}  // namespace weir
