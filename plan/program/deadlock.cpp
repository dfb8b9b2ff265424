// Cycles of a program, and the one place that says who waits for whom.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/deadlock.hpp"

#include <fmt/format.h>

#include "plan/program/graph.hpp"

namespace weir {
namespace {

std::string name(const Program& program, OperationId id) {
  const Lane& lane = program.lane_of(id);
  const std::string action = to_string(program.op(id).action);
  switch (lane.kind) {
    case LaneKind::send:
      return fmt::format("{} on rank {}'s send lane to {}", action, lane.rank.value,
                         program.peer_rank(id).value);
    case LaneKind::receive:
      return fmt::format("{} on rank {}'s receive lane from {}", action, lane.rank.value,
                         program.peer_rank(id).value);
    case LaneKind::reduce:
      return fmt::format("{} on rank {}'s reduce lane", action, lane.rank.value);
    default:
      return fmt::format("{} on rank {}", action, lane.rank.value);
  }
}

std::string_view reason(DependencyKind kind) {
  switch (kind) {
    case DependencyKind::data:
      return "the data of";
    case DependencyKind::message:
      return "the message of";
    case DependencyKind::slot:
      return "the receive slot freed by";
    case DependencyKind::gradient:
      return "the gradient of";
    default:
      return "both ends of";
  }
}

}  // namespace

std::optional<std::vector<OperationId>> find_cycle(const Program& program) {
  if (program.order().size() == program.size()) return std::nullopt;
  return find_cycle(wait_graph(program));
}

std::optional<std::vector<OperationId>> shortest_cycle(const Program& program) {
  return shortest_cycle(wait_graph(program));
}

std::string describe_cycle(const Program& program, const std::vector<OperationId>& cycle) {
  std::string text;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const OperationId before = cycle[(i + 1) % cycle.size()];
    // Where no dependency says why, it is the order of the lane.
    std::string_view why = "its turn after";
    for (const Dependency& dependency : program.predecessors(cycle[i])) {
      if (dependency.before == before) why = reason(dependency.kind);
    }
    text += fmt::format("{}{} waits for {} {}", i == 0 ? "" : "\n", name(program, cycle[i]), why,
                        name(program, before));
  }
  return text;
}

std::string describe_deadlock(const Program& program) {
  return describe_cycle(program, shortest_cycle(program).value());
}

}  // namespace weir
