// Heads and tails over the graph without the ranks' orders (docs/theory.md 3.2).
// SPDX-License-Identifier: Apache-2.0
#include "sim/bounds.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace weir {
namespace {

constexpr OperationId kNone = -1;
std::size_t index(OperationId id) { return static_cast<std::size_t>(id); }

// Heads and tails over the order-free dependencies: written ones except slots, and F before its own
// B, I and R's I.
class HeadsAndTails {
 public:
  HeadsAndTails(const Program& program, const OperationCosts& costs)
      : program_(program),
        costs_(costs),
        head_(program.operations.size(), 0),
        tail_(program.operations.size(), 0) {
    index_stages();
    sort();
    // Heads forwards: the longest way that ends where the operation starts.
    for (const OperationId id : sorted_) {
      for_predecessors(id, [&](OperationId before) {
        head_[index(id)] =
            std::max(head_[index(id)], head_[index(before)] + costs_.duration_ns[index(before)]);
      });
    }
    // Tails backwards: the longest way from where it ends.
    for (auto at = sorted_.rbegin(); at != sorted_.rend(); ++at) {
      for_predecessors(*at, [&](OperationId before) {
        tail_[index(before)] =
            std::max(tail_[index(before)], tail_[index(*at)] + costs_.duration_ns[index(*at)]);
      });
    }
  }

  [[nodiscard]] std::int64_t bound() const {
    std::int64_t best = 0;
    for (std::size_t i = 0; i < head_.size(); ++i)
      best = std::max(best, head_[i] + costs_.duration_ns[i] + tail_[i]);
    for (const Lane& lane : program_.lanes) {
      if (lane.kind == LaneKind::compute) best = std::max(best, of_rank(lane));
    }
    return best;
  }

 private:
  [[nodiscard]] std::int64_t of_rank(const Lane& lane) const {
    std::int64_t head = std::numeric_limits<std::int64_t>::max(), tail = head, all = 0,
                 gradient_path = 0;
    for (OperationId id = lane.first; id < lane.last; ++id) {
      const ActionKind kind = program_.operations[index(id)].action.kind;
      head = std::min(head, head_[index(id)]);
      all += costs_.duration_ns[index(id)];
      // These may come beside the tail of the last F, R, B or I: they count towards all work only.
      if (kind == ActionKind::W || kind == ActionKind::OPTIMIZER) continue;
      gradient_path += costs_.duration_ns[index(id)];
      tail = std::min(tail, tail_[index(id)]);
    }
    return lane.first == lane.last ? 0 : head + std::max(all, gradient_path + tail);
  }

  [[nodiscard]] std::size_t cell(const Action& action) const {
    return static_cast<std::size_t>(action.stage.value) *
               static_cast<std::size_t>(program_.shape.units()) +
           static_cast<std::size_t>(action.microbatch.value);
  }
  void index_stages() {
    const auto stages = static_cast<std::size_t>(program_.shape.total_stages());
    forward_.assign(stages * static_cast<std::size_t>(program_.shape.units()), kNone);
    last_gradient_.assign(stages, kNone);
    for (const Lane& lane : program_.lanes) {
      if (lane.kind != LaneKind::compute) continue;
      for (OperationId id = lane.first; id < lane.last; ++id) {
        const Action& action = program_.operations[index(id)].action;
        if (action.kind == ActionKind::F) forward_[cell(action)] = id;
        if (is_backward(action.kind))
          last_gradient_[static_cast<std::size_t>(action.stage.value)] = id;
      }
    }
  }

  template <class Visit>
  void for_predecessors(OperationId id, Visit visit) const {
    const Action& action = program_.operations[index(id)].action;
    for (const Dependency& dependency : program_.predecessors(id)) {
      if (dependency.kind != DependencyKind::slot) visit(dependency.before);
    }
    if (is_backward(action.kind)) visit(forward_[cell(action)]);
    if (action.kind == ActionKind::OPTIMIZER) {
      const OperationId last = last_gradient_[static_cast<std::size_t>(action.stage.value)];
      if (last != kNone) visit(last);
    }
  }

  // Predecessors first, depth first without recursion.
  void sort() {
    std::vector<bool> opened(head_.size(), false), done(head_.size(), false);
    std::vector<OperationId> path;
    for (OperationId root = 0; root < static_cast<OperationId>(head_.size()); ++root) {
      if (!done[index(root)]) path.push_back(root);
      while (!path.empty()) {
        const OperationId id = path.back();
        if (done[index(id)]) {
          path.pop_back();
        } else if (opened[index(id)]) {
          path.pop_back();
          done[index(id)] = true;
          sorted_.push_back(id);
        } else {
          opened[index(id)] = true;
          for_predecessors(id, [&](OperationId before) {
            if (!opened[index(before)]) path.push_back(before);
          });
        }
      }
    }
  }

  const Program& program_;
  const OperationCosts& costs_;
  std::vector<std::int64_t> head_, tail_;  // longest way before its start, after its end
  std::vector<OperationId> forward_, last_gradient_, sorted_;
};

}  // namespace

Nanoseconds step_lower_bound(const Program& program, const OperationCosts& costs) {
  return Nanoseconds(HeadsAndTails(program, costs).bound());
}

}  // namespace weir
