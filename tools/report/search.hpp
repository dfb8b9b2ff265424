// The report of a search in which nothing was run: which plan to use, what the present one costs
// beside it, and how far the forecasts may be trusted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/search/sweep.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/page.hpp"

namespace weir {

// What the best plan does otherwise than the present one: an argument of its job, or a key of its
// plan; empty where one side has none.
struct ReportChange {
  std::string name, before, after;
};

struct SearchReport {
  std::string title;
  std::string machine;
  std::string costs_origin;
  std::string trust;                       // one sentence: what stands behind the forecasts
  const SweepResult* result;               // at least one plan
  std::vector<std::string> names;          // of the plans, as far as they may be shown
  std::string baseline_name;               // where the result has a baseline
  std::vector<ReportChange> changes;       // from it to the best plan
  std::vector<std::string> first_changes;  // the smallest first, a line each
  Trace best;                              // the best plan's predicted step
  const std::vector<Ranked>* front;        // of step time and peak memory
  Provenance provenance;
};

// Step time against the fullest device's memory: `plans`, through the front a line, and the present
// plan where there is one.
[[nodiscard]] Chart front_chart(const std::vector<Ranked>& plans, const std::vector<Ranked>& front,
                                const std::optional<Baseline>& baseline);

// The ranking has five rows, and the baseline's where it is not among them.
[[nodiscard]] std::string search_html(const SearchReport& report);

}  // namespace weir
