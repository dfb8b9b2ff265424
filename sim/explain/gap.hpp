// Why a measured step is not the forecast one: which causes could make up the difference alone, by
// what factor each would have to be off, and what to measure to tell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/table/cost_breakdown.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/forecast/forecast.hpp"

namespace weir {

// One thing that may take longer, or less long, than the forecast has it, everywhere alike.
struct SuspectedCause {
  std::string_view name;  // kernels, slow_rank, rematerialised, tensor, context, experts,
                          // replicas, messages, host or update
  // Times what the forecast has, with which the simulated step is the measured one; none: no
  // factor from 0 to 1024 does it.
  std::optional<double> factor;
  // A step off by this factor as a whole is within the forecast's interval; none: it has none.
  std::optional<bool> plausible;
  std::string measurement;            // what would tell
  Seconds reading{0};                 // what it would read by the forecast ...
  std::optional<Seconds> reading_if;  // ... and if this were the cause
};

struct Gap {
  Seconds measured{0};
  Seconds difference{0};                // measured - forecast
  std::optional<bool> within_interval;  // the measured step is; none: there is none
  std::vector<SuspectedCause> causes;   // the factor nearest to 1 first (by its log)
};

// Of the causes that the plan has at all. Each factor is found by simulating the step with the
// scaled costs.
[[nodiscard]] Gap explain_gap(const ResolvedPlan& resolved, const CostBreakdown& costs,
                              const Costs& known, const Cluster& cluster, const Forecast& forecast,
                              Seconds measured);

}  // namespace weir
