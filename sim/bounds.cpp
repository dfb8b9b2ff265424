// Heads and tails over the graph without the ranks' orders (docs/theory.md 3.2).
// SPDX-License-Identifier: Apache-2.0
#include "sim/bounds.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace weir {
namespace {

// Waits that no order of the lanes can avoid: written ones except slots, and F before its own B, I
// and R's I; a stage's last backward before its optimizer.
class OrderFree {
 public:
  explicit OrderFree(const Program& program)
      : program_(program),
        forward_(program.shape(), kNoOperation),
        last_gradient_(program.shape().total_stages(), kNoOperation) {
    for (const Rank rank : program.ranks()) {
      for (const OperationId id : program.compute_lane(rank).operations()) {
        const Action& action = program.op(id).action;
        // What stays of a stage is the last of its lane: a later one writes over an earlier.
        if (action.kind == ActionKind::F) forward_[action] = id;
        if (is_backward(action.kind)) last_gradient_[action.stage] = id;
      }
    }
  }

  // What an operation waits for; each stands before it in the program's order.
  template <class Take>
  void each_wait(OperationId id, Take take) const {
    const Action& action = program_.op(id).action;
    for (const Dependency& dependency : program_.predecessors(id)) {
      if (dependency.kind != DependencyKind::slot) take(dependency.before);
    }
    if (is_backward(action.kind)) take(forward_[action]);
    if (action.kind == ActionKind::OPTIMIZER && last_gradient_[action.stage] != kNoOperation)
      take(last_gradient_[action.stage]);
  }

 private:
  const Program& program_;
  Cells<OperationId> forward_;
  Indexed<Stage, OperationId> last_gradient_;
};

// The longest way to each operation's start and from its end to the end of all, as sums of the
// durations of the operations on it.
struct LongestPaths {
  PerOperation<std::int64_t> head_ns, tail_ns;
};

LongestPaths longest_paths(const Program& program, const PerOperation<std::int64_t>& duration_ns) {
  const OrderFree waits(program);
  LongestPaths paths{PerOperation<std::int64_t>(program.size()),
                     PerOperation<std::int64_t>(program.size())};
  auto& head = paths.head_ns;
  auto& tail = paths.tail_ns;
  const std::vector<OperationId>& order = program.order();
  // Heads grow from the first operation on, tails from the last one back.
  for (const OperationId id : order) {
    waits.each_wait(id, [&](OperationId before) {
      head[id] = std::max(head[id], head[before] + duration_ns[before]);
    });
  }
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    waits.each_wait(*at, [&, id = *at](OperationId before) {
      tail[before] = std::max(tail[before], tail[id] + duration_ns[id]);
    });
  }
  return paths;
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
  const LongestPaths paths = longest_paths(program, costs.duration_ns);
  std::int64_t best = 0;
  // The longest way through the graph goes through some operation.
  for (const OperationId id : program.ids())
    best = std::max(best, paths.head_ns[id] + costs.duration_ns[id] + paths.tail_ns[id]);
  for (const Rank rank : program.ranks())
    best = std::max(best, bound_of_rank(program, program.compute_lane(rank), costs, paths));
  return Nanoseconds(best);
}

}  // namespace weir
