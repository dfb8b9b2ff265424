// A forecast: everything Weir says beforehand about one plan (weir.forecast/1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/table/stage_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/program/blocking.hpp"
#include "sim/forecast/forecast_record.hpp"
#include "sim/jitter.hpp"
#include "traces/trace.hpp"

namespace weir {

// A search that compares many plans has no use for their memory over time and their names in a
// trace (ranking), and until it has found the best of them only for what it orders them by: step
// time and memory (order; no metrics, no bound, no interval, no trace).
enum class ForecastDetail : std::uint8_t { full, ranking, order };

struct SoftwareParts;  // sim/software_parts

struct ForecastOptions {
  ForecastDetail detail = ForecastDetail::full;
  TransferMode transfers = TransferMode::buffered;
  std::optional<JitterRequest>
      jitter;  // adds the distribution, where the costs know how durations scatter
  bool without_barrier =
      false;  // adds the time of a step that does not wait for the slowest rank's update
  // Of a search: a plan that does not surely fit this memory by its own stack is given no bounds of
  // other software, which could only make it fit less surely.
  std::optional<Bytes> only_if_within = {};
  // What other software keeps of the layers, for memory's bounds; none: the forecast asks.
  const SoftwareParts* software = nullptr;
};

struct ForecastResult {
  Forecast forecast;
  Trace trace;  // one predicted step; of full detail with memory counters
};

// Lowers the plan, prices it, gives it virtual time and accounts for every idle nanosecond.
// Precondition: the plan's program cannot deadlock (resolve() has checked it). Blocking transfers
// may deadlock where buffered ones do not: throws NoFeasiblePlan.
[[nodiscard]] ForecastResult forecast(const ResolvedPlan& resolved, const Costs& costs,
                                      const Cluster& cluster, const ForecastOptions& options = {});
// The same with costs that are matched with the plan's layers already.
[[nodiscard]] ForecastResult forecast(const ResolvedPlan& resolved, const LayerCosts& known,
                                      const Cluster& cluster, const ForecastOptions& options = {});

}  // namespace weir
