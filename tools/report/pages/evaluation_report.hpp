// The report of `weir evaluate`: how far forecasts were off here, where they are weakest, and
// whether the interval kept its promise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/fit/intervals.hpp"
#include "costmodel/table/costs.hpp"
#include "tools/report/accuracy.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/idle_shares.hpp"
#include "tools/report/page.hpp"

namespace weir {

struct EvaluationReport {
  std::string model, machine;
  std::string disturbed;  // what took from the measurements, in words; empty: nothing that is known
  std::uint64_t seed = 1;
  int fitted = 0;                  // plans
  std::string predictions_sha256;  // of the file written before any of them was run
  std::vector<Outcome> outcomes;   // the held-out plans
  Accuracy accuracy;
  std::optional<IntervalModel> interval;
  CoverageBand band;
  std::optional<Pace> pace;  // where plans fitted
  IdleShares idle;
  std::string sharing;  // of GPUs; empty where ranks are cores
  Provenance provenance;
};

// Forecast against measured, with y = x and each plan's interval.
[[nodiscard]] Chart scatter_chart(const std::vector<Outcome>& outcomes);

// "60 plans on ..., seed 1: median error ...", one line; and the coverage in another where there is
// an interval.
[[nodiscard]] std::string accuracy_text(const EvaluationReport& report);

[[nodiscard]] std::string evaluation_html(const EvaluationReport& report);

}  // namespace weir
