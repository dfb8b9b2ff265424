// Which messages belong to which action, and the loop over a rank's actions.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/interpreter.hpp"

#include <map>
#include <new>
#include <string>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
std::vector<MessageRoute> route_messages(const Program& program) {
  std::vector<MessageRoute> routes(program.size());
  for (const Lane& lane : program.lanes()) {
    for (const OperationId id : lane.operations()) {
      const Action& action = program.op(id).action;
      for (const Dependency& dependency : program.predecessors(id)) {
        if (dependency.kind != DependencyKind::data) continue;
        const Lane& from = program.lane_of(dependency.before);
        if (lane.kind == LaneKind::send) {
          routes[dependency.before.position()].send_edge = lane.edge.value;
          routes[dependency.before.position()].send_index = id - lane.first;
        } else if (action.kind == ActionKind::R) {
          continue;  // waits for the gradient (fused placement) but does not take it
        } else if (from.kind == LaneKind::receive) {
          routes[id.position()].receive_edge = from.edge.value;
          routes[id.position()].receive_index = dependency.before - from.first;
        } else {
          routes[id.position()].local_producer = dependency.before;
          routes[dependency.before.position()].feeds_local = true;
        }
      }
    }
  }
  return routes;
}

namespace {

struct Place {
  Rank rank;
  std::uint32_t step;
  OperationId id;
};

// The action from its launch to its end. What goes wrong in it is told with its name: nobody
// further up knows which one it was.
Tensor act(StepContext& context, const Place& at, ActionHandler& handler, Tensor incoming) {
  const auto named = [&](const char* what) {
    return RunFailed(place_of(context.program, at.rank, at.step, at.id) + ": " + what);
  };
  context.activity.begin(at.rank, at.id, at.step, context.clock.start_ns[at.id.position()]);
  try {
    const Tensor outgoing = handler.act(at.id, context.program.op(at.id).action, incoming);
    handler.finish();
    context.activity.end(at.rank);
    return outgoing;
  } catch (const std::bad_alloc& none) {
    throw named((std::string("out of memory: ") + none.what()).c_str());
  } catch (const std::exception& error) {
    throw named(error.what());
  }
}

}  // namespace

void interpret(StepContext& context, Rank rank, ActionHandler& handler, std::uint32_t step) {
  const Program& program = context.program;
  std::map<OperationId, Tensor> kept;  // values that stay on this rank
  for (const Lane& lane : program.lanes()) {
    if (lane.rank != rank || lane.kind != LaneKind::compute) continue;
    for (const OperationId id : lane.operations()) {
      const Action& action = program.op(id).action;
      const MessageRoute& m = context.routes[id.position()];
      Tensor incoming;
      if (m.receive_edge >= 0) {
        incoming = context.transport.receive(m.receive_edge, m.receive_index);
      } else if (m.local_producer != kNoOperation) {
        incoming = kept.extract(m.local_producer).mapped();
      }
      if (action.kind == ActionKind::OPTIMIZER) context.gradients.await(id, step, context.clock);
      context.clock.start_ns[id.position()] = context.now();
      const Tensor outgoing = act(context, {rank, step, id}, handler, incoming);
      context.clock.end_ns[id.position()] = context.now();
      // The gradients first, then the slot, then the message: who waits for any of them may go on.
      context.gradients.ended(id, step);
      if (m.receive_edge >= 0) context.transport.consumed(m.receive_edge, m.receive_index);
      if (m.send_edge >= 0) context.transport.send(m.send_edge, m.send_index, outgoing);
      if (m.feeds_local) kept[id] = outgoing;
    }
  }
  handler.end_step();
  handler.read_rebuilds(context.clock);
}

}  // namespace weir
