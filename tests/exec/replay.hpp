// What a measured step really took, as costs: fed back into the simulator they must give its
// makespan again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/program.hpp"
#include "traces/trace.hpp"

namespace weir {

enum class ReplayGaps : std::uint8_t {
  keep,  // an operation's gap is its measured start minus when everything it awaited was there
  drop,
};

// Durations (and gaps) of step `step`. Precondition: the trace is of this program.
inline OperationCosts replay_costs(const Program& program, const Trace& measured, std::int32_t step,
                                   ReplayGaps gaps) {
  const std::size_t count = program.operations.size();
  const std::span<const Span> spans(&measured.spans[static_cast<std::size_t>(step) * count], count);
  const std::int64_t origin = measured.steps[static_cast<std::size_t>(step)].start.count();
  OperationCosts costs;
  costs.duration_ns.resize(count);
  costs.gap_ns.assign(gaps == ReplayGaps::keep ? count : 0, 0);
  const auto end_of = [&](OperationId id) {
    return spans[static_cast<std::size_t>(id)].end.count();
  };
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<OperationId>(i);
    assert(spans[i].operation == id);
    const Lane& lane = program.lane_of(id);
    const std::int64_t lane_free = id == lane.first ? origin : end_of(id - 1);
    if (lane.kind == LaneKind::receive) {
      // The engine adds the latency to the send's end and keeps arrivals in order.
      const std::int64_t sent = end_of(program.predecessors(id).front().before);
      costs.duration_ns[i] =
          std::max<std::int64_t>(spans[i].end.count() - std::max(sent, lane_free), 0);
      if (spans[i].end.count() > lane_free)
        costs.duration_ns[i] = std::max<std::int64_t>(spans[i].end.count() - sent, 0);
      continue;
    }
    costs.duration_ns[i] = spans[i].duration().count();
    if (gaps == ReplayGaps::drop) continue;
    std::int64_t ready = lane_free;
    for (const Dependency& dependency : program.predecessors(id))
      ready = std::max(ready, end_of(dependency.before));
    costs.gap_ns[i] = std::max<std::int64_t>(spans[i].start.count() - ready, 0);
  }
  return costs;
}

}  // namespace weir
