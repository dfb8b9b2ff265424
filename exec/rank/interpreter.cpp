// Which messages belong to which action, and the loop over a rank's actions.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/interpreter.hpp"

#include <map>
#include <utility>

namespace weir {
namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
}  // namespace

std::vector<MessageRoute> route_messages(const Program& program) {
  std::vector<MessageRoute> routes(program.operations.size());
  for (const Lane& lane : program.lanes) {
    for (OperationId id = lane.first; id < lane.last; ++id) {
      const Action& action = program.operations[at(id)].action;
      for (const Dependency& dependency : program.predecessors(id)) {
        if (dependency.kind != DependencyKind::data) continue;
        const Lane& from = program.lane_of(dependency.before);
        if (lane.kind == LaneKind::send) {
          routes[at(dependency.before)].send_edge = lane.edge;
          routes[at(dependency.before)].send_index = id - lane.first;
        } else if (action.kind == ActionKind::R) {
          continue;  // waits for the gradient (fused placement) but does not take it
        } else if (from.kind == LaneKind::receive) {
          routes[at(id)].receive_edge = from.edge;
          routes[at(id)].receive_index = dependency.before - from.first;
        } else {
          routes[at(id)].local_producer = dependency.before;
          routes[at(dependency.before)].feeds_local = true;
        }
      }
    }
  }
  return routes;
}

void interpret(StepContext& context, Rank rank, ActionHandler& handler, std::uint32_t step) {
  const Program& program = context.program;
  std::map<OperationId, Tensor> kept;  // values that stay on this rank
  for (const Lane& lane : program.lanes) {
    if (lane.rank != rank || lane.kind != LaneKind::compute) continue;
    for (OperationId id = lane.first; id < lane.last; ++id) {
      const Action& action = program.operations[at(id)].action;
      const MessageRoute& m = context.routes[at(id)];
      Tensor incoming;
      if (m.receive_edge >= 0) {
        incoming = context.transport.receive(m.receive_edge, m.receive_index);
      } else if (m.local_producer >= 0) {
        incoming = kept.extract(m.local_producer).mapped();
      }
      if (action.kind == ActionKind::OPTIMIZER) context.gradients.await(id, step, context.clock);
      context.clock.start_ns[at(id)] = context.now();
      const Tensor outgoing = handler.act(id, action, incoming);
      handler.finish();
      context.clock.end_ns[at(id)] = context.now();
      // The gradients first, then the slot, then the message: who waits for any of them may go on.
      context.gradients.ended(id, step);
      if (m.receive_edge >= 0) context.transport.consumed(m.receive_edge, m.receive_index);
      if (m.send_edge >= 0) context.transport.send(m.send_edge, m.send_index, outgoing);
      if (m.feeds_local) kept[id] = outgoing;
    }
  }
  handler.end_step();
}

}  // namespace weir
