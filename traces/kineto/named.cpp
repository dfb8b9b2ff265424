// Actions by the names that PyTorch's pipelining gives them: "PP:2F0", "PP:0SEND_F3",
// "PP:(0F7;7B3)OVERLAP_F_B"; ScheduleGPipe's "Forward 3" and "Backward 3" on CPUs.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/text/cells.hpp"
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

// ScheduleGPipe's "Forward 3" receives, computes and sends, and a rank has one stage.
std::vector<NamedAction> actions_of_gpipe(const RankProgram& rank, const StepEvents& step) {
  const Program& program = *rank.program;
  const Stage stage = rank.action(rank.actions.front()).stage;
  std::vector<NamedAction> found;
  for (const KinetoMark* mark : step.ranges) {
    const ActionKind kind = mark->kind == MarkKind::forward ? ActionKind::F : ActionKind::B;
    const Action action{stage, kind, Microbatch{whole_number<std::int32_t>(mark->name).value()}};
    const auto known = rank.operation_of.find(action);
    const bool in_plan = known != rank.operation_of.end();
    const auto put_message = [&](OperationId id) {
      if (id != kNoOperation) found.push_back({mark, rank.action(id), false});
    };
    if (in_plan) put_message(program.receive_before(known->second));
    found.push_back({mark, action, false});
    if (in_plan) put_message(program.send_after(known->second));
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
  // Each edge is a FIFO of its own (docs/design.md 5), so its order is compared apart.
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
  if (is_send(kind)) return kernel.kind == KernelKind::send_recv || kernel.kind == KernelKind::send;
  if (is_receive(kind))
    return kernel.kind == KernelKind::send_recv || kernel.kind == KernelKind::receive;
  if (kind == ActionKind::REDUCE_GRAD) return kernel.kind == KernelKind::collective;
  if (kernel.kind != KernelKind::compute) return false;
  // Of a pair the main thread launches the forward, and autograd's thread the backward.
  return !named.overlapped || (kind == ActionKind::F) == (kernel.thread == main_thread);
}

// Where the action's own work may begin. On a CPU the thread itself waits inside the range, until
// gloo's mark of what it receives ends; what ran before that only made room for it.
Nanoseconds begin_of(const RankProgram& rank, const StepEvents& step, StepPlaces& places,
                     const NamedAction& named, OperationId id) {
  const Nanoseconds begin = named.mark->start;
  if (!step.on_host || !is_compute(named.action.kind)) return begin;
  const OperationId receive = rank.program->receive_before(id);
  if (receive == kNoOperation) return begin;
  const Extent& received = places.at(rank, receive);
  return received.seen ? std::max(begin, received.end) : begin;
}

std::string_view what_runs(const StepEvents& step, const Action& action) {
  if (has_microbatch(action.kind) && !is_compute(action.kind))
    return step.on_host ? "message of gloo's was posted" : "SendRecv kernel was launched";
  return step.on_host ? "operator ran" : "GPU kernel was launched";
}

}  // namespace

void place_by_name(const RankProgram& rank, const StepEvents& step, StepPlaces& places) {
  const std::vector<NamedAction> found =
      step.on_host && step.actions.empty() ? actions_of_gpipe(rank, step) : named_actions(step);
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
    const Nanoseconds begin = begin_of(rank, step, places, named, known->second);
    auto kernel = std::ranges::lower_bound(step.kernels, begin, {}, &KinetoKernel::launched);
    for (; kernel != step.kernels.end() && kernel->launched <= named.mark->end; ++kernel) {
      if (!belongs(*kernel, named, step.main_thread)) continue;
      extent.add(*kernel);
      places.last_launch = std::max(places.last_launch, kernel->launched);
    }
    // A stage without weights of its own has an empty W, and the first, whose input has no
    // gradient, leaves all of its backward to W; anything else ran.
    const bool first_input = named.action.kind == ActionKind::I && named.action.stage == Stage{0};
    if (extent.seen || first_input || named.action.kind == ActionKind::W ||
        named.action.kind == ActionKind::REDUCE_GRAD)
      continue;
    throw InputError(step.file, step.where,
                     fmt::format("no {} within the range of {}", what_runs(step, named.action),
                                 word(named.action)));
  }
}

}  // namespace weir
