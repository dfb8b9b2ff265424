// From costs of stages to durations of operations.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/cost_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "plan/words/error.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

std::int64_t duration_of_skip(const Action& action, const CostTable& costs) {
  const bool forward = action.kind == ActionKind::SEND_F || action.kind == ActionKind::RECV_F;
  const bool by_maker = action.kind == ActionKind::SEND_F || action.kind == ActionKind::RECV_B;
  const SkipRoute route =
      by_maker ? SkipRoute{action.stage, action.other} : SkipRoute{action.other, action.stage};
  const auto skip = std::ranges::find(costs.skips, route, &SkipCost::route);
  assert(skip != costs.skips.end() && "every skip of the program has a cost");
  const MessageCost& message = forward ? skip->forward : skip->backward;
  return (is_send(action.kind) ? message.occupancy : message.latency).count();
}

std::int64_t duration_of(const Action& action, const CostTable& costs) {
  if (is_skip(action)) return duration_of_skip(action, costs);
  const auto stage = static_cast<std::size_t>(action.stage.value);
  const StageCost& cost = costs.stages[stage];
  switch (action.kind) {
    case ActionKind::BROADCAST:
    case ActionKind::ALL_REDUCE_F:
      return costs.forward_messages[stage].occupancy.count();
    case ActionKind::ALL_REDUCE_B:
      return costs.backward_messages[stage].occupancy.count();
    case ActionKind::SEND_F:
      // A message is two operations: its send takes the link, its receive lasts the latency.
      return costs.forward_messages[stage].occupancy.count();
    case ActionKind::SEND_B:
      return costs.backward_messages[stage].occupancy.count();
    // A receive is named after its own stage; the message is the neighbour's.
    case ActionKind::RECV_F:
      return costs.forward_messages[stage - 1].latency.count();
    case ActionKind::RECV_B:
      return costs.backward_messages[stage + 1].latency.count();
    case ActionKind::REDUCE_GRAD:
      return cost.reduce.count();
    default:
      return is_compute(action.kind) ? cost[action.kind].count() : 0;
  }
}

// Times are added in 63 bits of nanoseconds, 292 years: what one after the other would take must
// stay below, for then every sum of some of them does.
void require_time(const OperationCosts& costs) {
  constexpr double kMostNanoseconds = 9e18;
  double together = 0;
  for (const std::int64_t duration : costs.duration_ns) together += static_cast<double>(duration);
  for (const std::int64_t gap : costs.gap_ns) together += static_cast<double>(gap);
  if (together <= kMostNanoseconds) return;
  throw InputError("times", "",
                   fmt::format("all operations of a step together take {:.3g} s, at most {:.3g}",
                               together * 1e-9, kMostNanoseconds * 1e-9));
}

constexpr Names<Basis, 5> kBases{{{Basis::measured, "measured"},
                                  {Basis::calibrated, "calibrated"},
                                  {Basis::anchored, "anchored"},
                                  {Basis::builtin, "builtin"},
                                  {Basis::oversubscribed, "oversubscribed"}}};

}  // namespace

std::string to_string(Basis basis) { return std::string(name_of(kBases, basis)); }

std::optional<Basis> parse_basis(std::string_view text) { return named(kBases, text); }

bool stands_on_builtin(Basis basis) { return basis == Basis::builtin || basis == Basis::anchored; }

StageCost slowed(StageCost cost, double factor) {
  const auto times = [factor](Nanoseconds t) { return to_nanoseconds(to_seconds(t) * factor); };
  for (const ActionKind kind : kComputeKinds) cost[kind] = times(cost[kind]);
  cost.rebuild = times(cost.rebuild);
  return cost;
}

OperationCosts expand(const Program& program, const CostTable& costs) {
  OperationCosts expanded;
  const bool rebuilds = std::ranges::any_of(
      costs.stages, [](const StageCost& stage) { return stage.rebuild.count() > 0; });
  if (rebuilds) expanded.rebuild_ns.assign(program.size(), 0);
  expanded.duration_ns.reserve(program.size());
  for (const OperationId id : program.ids()) {
    const Action& action = program.op(id).action;
    expanded.duration_ns.push_back(duration_of(action, costs));
    if (!rebuilds || !is_backward(action.kind)) continue;
    const std::int64_t rebuild = costs.stages[action.stage.position()].rebuild.count();
    // This backward's activations were never dropped: it has nothing to rebuild.
    if (program.spared(action)) {
      expanded.duration_ns[id] -= rebuild;
    } else {
      expanded.rebuild_ns[id] = rebuild;
    }
  }
  if (costs.host_overhead.count() > 0) {
    expanded.gap_ns.assign(program.size(), 0);
    for (const Rank rank : program.ranks()) {
      for (const OperationId id : program.compute_lane(rank).operations())
        expanded.gap_ns[id] = costs.host_overhead.count();
    }
  }
  require_time(expanded);
  return expanded;
}

}  // namespace weir
