// Actions by the names that PyTorch's pipelining gives them: "PP:2F0", "PP:0SEND_F3",
// "PP:(0F7;7B3)OVERLAP_F_B".
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/words/error.hpp"
#include "traces/kineto/rank_steps.hpp"

namespace weir {
namespace {

struct NamedAction {
  const KinetoMark* mark = nullptr;
  Action action;
  bool overlapped =
      false;  // shares its mark with the other of a pair; told apart by the launching thread
};

bool in_schedule(ActionKind kind) {
  return kind != ActionKind::UNSHARD && kind != ActionKind::RESHARD;
}

// "(0F7;7B3)OVERLAP_F_B"
std::optional<std::pair<Action, Action>> parse_pair(std::string_view name) {
  constexpr std::string_view kEnd = ")OVERLAP_F_B";
  if (!name.starts_with('(') || !name.ends_with(kEnd)) return std::nullopt;
  name = name.substr(1, name.size() - 1 - kEnd.size());
  const auto middle = name.find(';');
  if (middle == name.npos) return std::nullopt;
  const auto first = parse_action(name.substr(0, middle)),
             second = parse_action(name.substr(middle + 1));
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

std::vector<NamedAction> named_actions(const StepEvents& step) {
  std::vector<NamedAction> found;
  for (std::size_t i = 0; i < step.actions.size(); ++i) {
    const KinetoMark* mark = step.actions[i];
    if (const auto action = parse_action(mark->name)) {
      if (in_schedule(action->kind)) found.push_back({mark, *action, false});
    } else if (const auto pair = parse_pair(mark->name)) {
      const bool names_inside = i + 1 < step.actions.size() &&
                                step.actions[i + 1]->end <= mark->end &&
                                parse_action(step.actions[i + 1]->name);
      if (names_inside) continue;  // the two are marked within: those marks count
      found.push_back({mark, pair->first, true});
      found.push_back({mark, pair->second, true});
    }
  }
  return found;
}

std::string word(const Action& action) { return to_string(action); }

// The order of the compute lane and of every edge must be the plan's.
void check_order(const RankProgram& rank, const StepEvents& step,
                 const std::vector<NamedAction>& found) {
  const auto compare = [&](const auto& in_trace, const std::vector<OperationId>& in_plan) {
    Orders orders;
    for (const NamedAction& named : found) {
      if (in_trace(named.action)) orders.trace.push_back(word(named.action));
    }
    for (const OperationId id : in_plan) orders.plan.push_back(word(rank.action(id)));
    const auto [trace, plan] = std::mismatch(orders.trace.begin(), orders.trace.end(),
                                             orders.plan.begin(), orders.plan.end());
    if (trace == orders.trace.end() && plan == orders.plan.end()) return;
    orders.trace_difference = orders.plan_difference =
        static_cast<std::size_t>(trace - orders.trace.begin());
    throw_orders(step, orders);
  };
  compare([](const Action& action) { return is_compute(action.kind); }, rank.actions);
  for (const Lane& lane : rank.program->lanes()) {
    if (lane.rank != rank.rank || (lane.kind != LaneKind::send && lane.kind != LaneKind::receive))
      continue;
    std::vector<OperationId> in_plan;
    for (const OperationId id : lane.operations()) in_plan.push_back(id);
    compare(
        [&](const Action& action) {
          const auto known = rank.operation_of.find(action);
          return known != rank.operation_of.end() && known->second >= lane.first &&
                 known->second < lane.last;
        },
        in_plan);
  }
}

bool belongs(const KinetoKernel& kernel, const NamedAction& named, std::int32_t main_thread) {
  const ActionKind kind = named.action.kind;
  if (is_send(kind) || is_receive(kind)) return kernel.kind == KernelKind::send_recv;
  if (kind == ActionKind::REDUCE_GRAD) return kernel.kind == KernelKind::collective;
  if (kernel.kind != KernelKind::compute) return false;
  return !named.overlapped || (kind == ActionKind::F) == (kernel.thread == main_thread);
}

}  // namespace

void place_by_name(const RankProgram& rank, const StepEvents& step, StepPlaces& places) {
  const std::vector<NamedAction> found = named_actions(step);
  check_order(rank, step, found);
  for (const NamedAction& named : found) {
    const auto known = rank.operation_of.find(named.action);
    if (known == rank.operation_of.end()) {
      if (named.action.kind == ActionKind::REDUCE_GRAD)
        continue;  // a stage without copies has nothing to sum
      throw InputError(step.file, step.where,
                       fmt::format("the plan has no {} on this rank", word(named.action)));
    }
    Extent& extent = places.at(rank, known->second);
    auto kernel =
        std::ranges::lower_bound(step.kernels, named.mark->start, {}, &KinetoKernel::launched);
    for (; kernel != step.kernels.end() && kernel->launched <= named.mark->end; ++kernel) {
      if (!belongs(*kernel, named, step.main_thread)) continue;
      extent.add(*kernel);
      places.last_launch = std::max(places.last_launch, kernel->launched);
    }
    // A stage without weights of its own has an empty W; anything else ran on the GPU.
    if (extent.seen || named.action.kind == ActionKind::W ||
        named.action.kind == ActionKind::REDUCE_GRAD)
      continue;
    throw InputError(
        step.file, step.where,
        fmt::format("no {} kernel was launched within PP:{}",
                    has_microbatch(named.action.kind) && !is_compute(named.action.kind) ? "SendRecv"
                                                                                        : "GPU",
                    word(named.action)));
  }
}

}  // namespace weir
