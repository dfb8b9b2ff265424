// One clock for all ranks' files, from messages: both ends of a message end together or, over gloo,
// none ends before it began.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kineto/clocks.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>

namespace weir {
namespace {

std::int64_t median(std::vector<std::int64_t> values) {
  assert(!values.empty());
  std::ranges::sort(values);
  const std::int64_t low = values[(values.size() - 1) / 2], high = values[values.size() / 2];
  return low + (high - low) / 2;
}

const Extent& extent_of(const Program& program, const std::vector<RankSteps>& ranks,
                        std::size_t step, OperationId id) {
  const RankSteps& rank = ranks[program.rank_of(id).position()];
  return rank.steps[step][static_cast<std::size_t>(id - rank.first)];
}

// Visits the two ends of every message: edge, send, receive.
template <class Visit>
void for_each_message(const Program& program, Visit visit) {
  for (const Edge& edge : program.edges()) {
    for (const OperationId send : program.lane(edge.send_lane).operations())
      visit(edge, send, program.peer(send));
  }
}

// Differences of ends by pair of ranks, the lower first: end on the lower minus end on the higher.
using Differences = std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int64_t>>;

std::vector<Nanoseconds> offsets_along(const Differences& differences, std::size_t ranks) {
  std::vector<Nanoseconds> offset(ranks, Nanoseconds(0));
  std::vector<bool> known(ranks, false);
  std::vector<std::int32_t> reached{0};
  known[0] = true;
  // Breadth first from rank 0, whose clock stays: few links between a rank and it, little error.
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const std::int32_t here = reached[next];
    for (const auto& [pair, values] : differences) {
      if (pair.first != here && pair.second != here) continue;
      const std::int32_t there = pair.first == here ? pair.second : pair.first;
      if (known[static_cast<std::size_t>(there)]) continue;
      const std::int64_t here_minus_there = pair.first == here ? median(values) : -median(values);
      offset[static_cast<std::size_t>(there)] =
          offset[static_cast<std::size_t>(here)] + Nanoseconds(here_minus_there);
      known[static_cast<std::size_t>(there)] = true;
      reached.push_back(there);
    }
  }
  return offset;
}

// How far the higher rank's clock must be moved against the lower's.
struct Bounds {
  std::int64_t low = INT64_MIN, high = INT64_MAX;
  [[nodiscard]] std::int64_t nearest_to_zero() const {
    // Clocks that drift within a step may leave no room: the middle then.
    if (low > high) return low + (high - low) / 2;
    return std::clamp(std::int64_t{0}, low, high);
  }
};

Alignment align_by_order(const Program& program, const std::vector<RankSteps>& ranks) {
  Alignment result;
  for (std::size_t step = 0; step < ranks.front().steps.size(); ++step) {
    const auto on_clock = [&](Rank rank, Nanoseconds time) {
      return ranks[rank.position()].base_ns + time.count();
    };
    std::map<std::pair<std::int32_t, std::int32_t>, Bounds> bounds;
    for_each_message(program, [&](const Edge& edge, OperationId send, OperationId receive) {
      const auto sent = on_clock(edge.from, extent_of(program, ranks, step, send).start);
      const auto there = on_clock(edge.to, extent_of(program, ranks, step, receive).end);
      // No message is there before it was sent. That bounds the shift from below or above, by its
      // direction.
      Bounds& pair = bounds[std::minmax(edge.from.value, edge.to.value)];
      if (edge.from < edge.to) {
        pair.low = std::max(pair.low, sent - there);
      } else {
        pair.high = std::min(pair.high, there - sent);
      }
    });
    Differences differences;
    for (const auto& [pair, bound] : bounds) differences[pair] = {bound.nearest_to_zero()};
    result.offset.push_back(offsets_along(differences, ranks.size()));
  }
  return result;
}

}  // namespace

Alignment align_clocks(const Program& program, const std::vector<RankSteps>& ranks) {
  if (ranks.front().on_host) return align_by_order(program, ranks);
  Alignment result;
  std::vector<std::int64_t> errors;
  for (std::size_t step = 0; step < ranks.front().steps.size(); ++step) {
    const auto end_of = [&](Rank rank, OperationId id) {
      return ranks[rank.position()].base_ns + extent_of(program, ranks, step, id).end.count();
    };
    Differences differences;
    for_each_message(program, [&](const Edge& edge, OperationId send, OperationId receive) {
      const std::int64_t difference = end_of(edge.from, send) - end_of(edge.to, receive);
      // The lower rank first, so that messages both ways count together.
      const bool ascending = edge.from < edge.to;
      differences[std::minmax(edge.from.value, edge.to.value)].push_back(ascending ? difference
                                                                                   : -difference);
    });
    result.offset.push_back(offsets_along(differences, ranks.size()));
    const auto& offset = result.offset.back();
    for (const auto& [pair, values] : differences) {
      const Nanoseconds apart = offset[static_cast<std::size_t>(pair.first)] -
                                offset[static_cast<std::size_t>(pair.second)];
      for (const std::int64_t value : values) errors.push_back(std::abs(value + apart.count()));
    }
  }
  if (!errors.empty()) result.error = Nanoseconds(median(std::move(errors)));
  return result;
}

Trace trace_of_ranks(const Program& program, const std::vector<RankSteps>& ranks,
                     const Alignment& alignment) {
  Trace trace;
  trace.origin = TraceOrigin::measured;
  trace.ranks = program.shape().ranks;
  for (std::size_t step = 0; step < alignment.offset.size(); ++step) {
    const std::size_t first = trace.spans.size();
    for (const OperationId id : program.ids()) {
      const Lane& lane = program.lane_of(id);
      const std::size_t rank = lane.rank.position();
      const Extent& extent = extent_of(program, ranks, step, id);
      const Nanoseconds shift = Nanoseconds(ranks[rank].base_ns) + alignment.offset[step][rank];
      Span span{id,        program.op(id).action, lane.rank,
                lane.kind, program.peer_rank(id), static_cast<std::int32_t>(step)};
      span.start = extent.start + shift;
      span.end = extent.end + shift;
      trace.spans.push_back(span);
    }
    // A message moves once both ends are posted: what lies before is waiting, not transfer. Clamped
    // to the end, as clocks that were aligned by a median may still disagree.
    for_each_message(program, [&](const Edge&, OperationId send, OperationId receive) {
      Span& out = trace.spans[first + send.position()];
      Span& in = trace.spans[first + receive.position()];
      // gloo's mark ends when somebody has waited for it: the earlier of both ends is nearer the
      // truth.
      if (ranks.front().on_host) out.end = in.end = std::min(out.end, in.end);
      const Nanoseconds begin = std::max(out.start, in.start);
      out.start = std::min(begin, out.end);
      in.start = std::min(begin, in.end);
    });
    StepWindow window{Nanoseconds::max(), Nanoseconds::min()};
    for (std::size_t i = first; i < trace.spans.size(); ++i) {
      window.start = std::min(window.start, trace.spans[i].start);
      window.end = std::max(window.end, trace.spans[i].end);
    }
    // The barrier after a step ends where the next one starts.
    if (!trace.steps.empty())
      trace.steps.back().end = std::max(trace.steps.back().end, window.start);
    trace.steps.push_back(window);
  }
  const Nanoseconds origin = trace.steps.front().start;
  for (StepWindow& window : trace.steps) window = {window.start - origin, window.end - origin};
  for (Span& span : trace.spans) {
    span.start -= origin;
    span.end -= origin;
  }
  return trace;
}

}  // namespace weir
