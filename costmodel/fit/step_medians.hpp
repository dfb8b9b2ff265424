// One measured step as prices: what a run's own actions took, by rank and kind, and how late they
// began, without a model of layers or links behind it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/program.hpp"
#include "traces/trace.hpp"

namespace weir {

// Each computing action takes the median of its rank's and kind's durations in step `step`, and
// begins later than it could by the median of their gaps: from the end of the last thing it waited
// for (the action before, its message) to its start. Messages take no time of their own: their time
// is in the gap of who awaits them. The first action of a step has no gap.
//
// Precondition: `measured` is of `program`.
[[nodiscard]] OperationCosts price_by_step(const Program& program, const Trace& measured,
                                           std::int32_t step);

// Memory of a pipeline of equal stages: `fixed + in flight x per_microbatch`, by the outermost two
// ranks that hold neither embedding nor head (the second and the last but one). None where there
// are fewer than four ranks, or both have as many micro-batches in flight.
struct InFlightMemory {
  double fixed = 0, per_microbatch = 0;  // bytes
  [[nodiscard]] Bytes of(std::int32_t in_flight) const;
};
[[nodiscard]] std::optional<InFlightMemory> fit_in_flight(
    const std::vector<std::int32_t>& in_flight, const std::vector<Bytes>& memory);

}  // namespace weir
