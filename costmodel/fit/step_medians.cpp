// Medians of a measured step by rank and kind of action.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/step_medians.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "traces/stats.hpp"

namespace weir {
namespace {

struct Observed {
  std::vector<double> durations_ns, gaps_ns;
};

// When everything that an operation waits for has ended; none for one that waits for nothing.
std::optional<Nanoseconds> ready_at(const Program& program,
                                    const IndexedView<OperationId, const Span>& spans,
                                    OperationId id) {
  std::optional<Nanoseconds> ready;
  const auto wait = [&](OperationId before) {
    ready = std::max(ready.value_or(Nanoseconds::min()), spans[before].end);
  };
  if (const OperationId before = program.previous(id); before != kNoOperation) wait(before);
  for (const Dependency& dependency : program.predecessors(id)) wait(dependency.before);
  return ready;
}

}  // namespace

OperationCosts price_by_step(const Program& program, const Trace& measured, std::int32_t step) {
  const auto spans = measured.of_step(step);
  std::map<std::pair<Rank, ActionKind>, Observed> observed;
  for (const Rank rank : program.ranks()) {
    for (const OperationId id : program.compute_lane(rank).operations()) {
      Observed& here = observed[{rank, program.op(id).action.kind}];
      here.durations_ns.push_back(static_cast<double>(spans[id].duration().count()));
      if (const auto ready = ready_at(program, spans, id))
        here.gaps_ns.push_back(static_cast<double>((spans[id].start - *ready).count()));
    }
  }
  OperationCosts costs;
  costs.duration_ns.assign(program.size(), 0);
  costs.gap_ns.assign(program.size(), 0);
  for (const Rank rank : program.ranks()) {
    for (const OperationId id : program.compute_lane(rank).operations()) {
      const Observed& here = observed.at({rank, program.op(id).action.kind});
      // Of a rank's actions of one kind the median: one outlier must not move its stage.
      costs.duration_ns[id] = std::llround(median(here.durations_ns));
      const bool waits = program.previous(id) != kNoOperation || !program.predecessors(id).empty();
      // Clocks that disagree by some microseconds may show a start before its input.
      if (waits) costs.gap_ns[id] = std::max<std::int64_t>(0, std::llround(median(here.gaps_ns)));
    }
  }
  return costs;
}

Bytes InFlightMemory::of(std::int32_t in_flight) const {
  return Bytes(std::llround(fixed + per_microbatch * in_flight));
}

std::optional<InFlightMemory> fit_in_flight(const std::vector<std::int32_t>& in_flight,
                                            const std::vector<Bytes>& memory) {
  if (in_flight.size() < 4) return std::nullopt;
  const std::size_t a = 1, b = in_flight.size() - 2;
  if (in_flight[a] == in_flight[b]) return std::nullopt;
  const double per_microbatch =
      static_cast<double>((memory[a] - memory[b]).count()) / (in_flight[a] - in_flight[b]);
  const double fixed = static_cast<double>(memory[a].count()) - per_microbatch * in_flight[a];
  return InFlightMemory{fixed, per_microbatch};
}

}  // namespace weir
