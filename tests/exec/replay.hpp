// What a measured step really took, as costs: fed back into the simulator they must give its
// makespan again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

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
  const std::size_t count = program.size();
  const auto spans = measured.of_step(step);
  const std::int64_t origin = measured.steps[static_cast<std::size_t>(step)].start.count();
  OperationCosts costs;
  costs.duration_ns.resize(count);
  costs.gap_ns.assign(gaps == ReplayGaps::keep ? count : 0, 0);
  const auto end_of = [&](OperationId id) { return spans[id].end.count(); };
  for (const OperationId id : program.ids()) {
    assert(spans[id].operation == id);
    const Lane& lane = program.lane_of(id);
    const std::int64_t lane_free = id == lane.first ? origin : end_of(id - 1);
    if (lane.kind == LaneKind::receive) {
      // The engine adds the latency to the send's end and keeps arrivals in order.
      const std::int64_t sent = end_of(program.peer(id));
      costs.duration_ns[id] =
          std::max<std::int64_t>(spans[id].end.count() - std::max(sent, lane_free), 0);
      if (spans[id].end.count() > lane_free)
        costs.duration_ns[id] = std::max<std::int64_t>(spans[id].end.count() - sent, 0);
      continue;
    }
    costs.duration_ns[id] = spans[id].duration().count();
    if (gaps == ReplayGaps::drop) continue;
    std::int64_t ready = lane_free;
    for (const Dependency& dependency : program.predecessors(id))
      ready = std::max(ready, end_of(dependency.before));
    costs.gap_ns[id] = std::max<std::int64_t>(spans[id].start.count() - ready, 0);
  }
  return costs;
}

}  // namespace weir
