// Times of a program's operations without a run: one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/program/program.hpp"
#include "traces/trace.hpp"

namespace weir {

// By operation. Of one rank all that lives at once does: messages, which overlap, it has none.
inline std::vector<Span> spans_in_order(const Program& program) {
  std::vector<Span> spans;
  for (const OperationId id : program.ids()) {
    const Nanoseconds at(2 * static_cast<std::int64_t>(id.position()));
    const Rank rank = program.rank_of(id);
    spans.push_back({.operation = id,
                     .action = program.op(id).action,
                     .rank = rank,
                     .lane = program.lane_of(id).kind,
                     .peer = rank,
                     .start = at,
                     .end = at + Nanoseconds(1)});
  }
  return spans;
}

}  // namespace weir
