// Heads and tails over the graph without the ranks' orders (docs/theory.md 3.2).
// SPDX-License-Identifier: Apache-2.0
#include "sim/bounds.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "plan/program/graph.hpp"

namespace weir {
namespace {

// Waits that no order of the lanes can avoid: written ones except slots, and F before its own B, I
// and R's I; a stage's last backward before its optimizer.
WaitGraph order_free(const Program& program) {
  Cells<OperationId> forward(program.shape(), kNoOperation);
  Indexed<Stage, OperationId> last_gradient(program.shape().total_stages(), kNoOperation);
  for (const Rank rank : program.ranks()) {
    for (const OperationId id : program.compute_lane(rank).operations()) {
      const Action& action = program.op(id).action;
      // What stays of a stage is the last of its lane: a later one writes over an earlier.
      if (action.kind == ActionKind::F) forward[action] = id;
      if (is_backward(action.kind)) last_gradient[action.stage] = id;
    }
  }
  WaitGraph graph{program.size(), {}};
  for (const OperationId id : program.ids()) {
    const Action& action = program.op(id).action;
    for (const Dependency& dependency : program.predecessors(id)) {
      if (dependency.kind != DependencyKind::slot) graph.waits.push_back({id, dependency.before});
    }
    if (is_backward(action.kind)) graph.waits.push_back({id, forward[action]});
    if (action.kind == ActionKind::OPTIMIZER && last_gradient[action.stage] != kNoOperation)
      graph.waits.push_back({id, last_gradient[action.stage]});
  }
  return graph;
}

std::int64_t bound_of_rank(const Program& program, const Lane& lane, const OperationCosts& costs,
                           const LongestPaths& paths) {
  std::int64_t head = std::numeric_limits<std::int64_t>::max(), tail = head, all = 0,
               gradient_path = 0;
  for (const OperationId id : lane.operations()) {
    const ActionKind kind = program.op(id).action.kind;
    head = std::min(head, paths.head_ns[id]);
    all += costs.duration_ns[id];
    // These may come beside the tail of the last F, R, B or I: they count towards all work only.
    if (kind == ActionKind::W || kind == ActionKind::OPTIMIZER) continue;
    gradient_path += costs.duration_ns[id];
    tail = std::min(tail, paths.tail_ns[id]);
  }
  // An empty lane bounds nothing, and its head is still the largest number. All work follows the
  // head; or all but W and the update does, and then the tail.
  return lane.first == lane.last ? 0 : head + std::max(all, gradient_path + tail);
}

}  // namespace

Nanoseconds step_lower_bound(const Program& program, const OperationCosts& costs) {
  const LongestPaths paths = longest_paths(order_free(program), costs.duration_ns);
  std::int64_t best = 0;
  // The longest way through the graph goes through some operation.
  for (const OperationId id : program.ids())
    best = std::max(best, paths.head_ns[id] + costs.duration_ns[id] + paths.tail_ns[id]);
  for (const Rank rank : program.ranks())
    best = std::max(best, bound_of_rank(program, program.compute_lane(rank), costs, paths));
  return Nanoseconds(best);
}

}  // namespace weir
