// Which messages belong to which action, and the loop over a rank's actions.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/interpreter.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
namespace {

MessageRoute::Skip skip_at(const Program& program, OperationId message) {
  const Lane& lane = program.lane_of(message);
  const Action& action = program.op(message).action;
  return {lane.edge.value, message - lane.first, std::abs(action.other - action.stage)};
}

}  // namespace

std::vector<MessageRoute> route_messages(const Program& program) {
  std::vector<MessageRoute> routes(program.size());
  for (const Lane& lane : program.lanes()) {
    for (const OperationId id : lane.operations()) {
      const Action& action = program.op(id).action;
      for (const Dependency& dependency : program.predecessors(id)) {
        if (dependency.kind != DependencyKind::data) continue;
        const Lane& from = program.lane_of(dependency.before);
        if (lane.kind == LaneKind::send && is_skip(action)) {
          // A skip's send hands out the tensor of the action before it: the route is that action's.
          routes[dependency.before.position()].send_skips.push_back(skip_at(program, id));
        } else if (lane.kind == LaneKind::send) {
          routes[dependency.before.position()].send_edge = lane.edge.value;
          routes[dependency.before.position()].send_index = id - lane.first;
        } else if (action.kind == ActionKind::R) {
          continue;  // waits for the gradient (fused placement) but does not take it
        } else if (is_skip(program.op(dependency.before).action)) {
          routes[id.position()].receive_skips.push_back(skip_at(program, dependency.before));
        } else if (from.kind == LaneKind::receive) {
          // Position within the lane is the message's number: an edge is a FIFO.
          routes[id.position()].receive_edge = from.edge.value;
          routes[id.position()].receive_index = dependency.before - from.first;
        } else {
          // Producer and consumer share the rank: the tensor stays, and no message is made.
          routes[id.position()].local_producer = dependency.before;
          routes[dependency.before.position()].feeds_local = true;
        }
      }
    }
  }
  for (MessageRoute& route : routes) {
    // Both ends count a stage's skips by distance, so the n-th tensor means the same to both.
    std::ranges::sort(route.receive_skips, {}, &MessageRoute::Skip::distance);
    std::ranges::sort(route.send_skips, {}, &MessageRoute::Skip::distance);
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
Messages act(StepContext& context, const Place& at, ActionHandler& handler, Messages incoming) {
  const auto named = [&](const char* what) {
    return RunFailed(place_of(context.program, at.rank, at.step, at.id) + ": " + what);
  };
  // Written before the work begins, so that a hang or crash leaves its action on record.
  context.activity.begin(at.rank, at.id, at.step, context.clock.start_ns[at.id.position()]);
  try {
    Messages outgoing = handler.act(at.id, context.program.op(at.id).action, std::move(incoming));
    handler.finish();
    context.activity.end(at.rank);
    return outgoing;
  } catch (const std::bad_alloc& none) {
    throw named((std::string("out of memory: ") + none.what()).c_str());
  } catch (const std::exception& error) {
    throw named(error.what());
  }
}

Messages receive(StepContext& context, const MessageRoute& route,
                 std::map<OperationId, Tensor>& kept) {
  Messages incoming;
  if (route.receive_edge >= 0) {
    incoming.main = context.transport.receive(route.receive_edge, route.receive_index);
  } else if (route.local_producer != kNoOperation) {
    incoming.main = kept.extract(route.local_producer).mapped();
  }
  for (const MessageRoute::Skip& skip : route.receive_skips)
    incoming.skips.push_back(context.transport.receive(skip.edge, skip.index));
  return incoming;
}

void free_slots(StepContext& context, const MessageRoute& route) {
  if (route.receive_edge >= 0) context.transport.consumed(route.receive_edge, route.receive_index);
  for (const MessageRoute::Skip& skip : route.receive_skips)
    context.transport.consumed(skip.edge, skip.index);
}

void send(StepContext& context, const MessageRoute& route, const Messages& outgoing) {
  if (route.send_edge >= 0)
    context.transport.send(route.send_edge, route.send_index, outgoing.main);
  for (std::size_t i = 0; i < route.send_skips.size(); ++i) {
    const MessageRoute::Skip& skip = route.send_skips[i];
    // Who only waits makes no tensors.
    context.transport.send(skip.edge, skip.index,
                           outgoing.skips.empty() ? Tensor{} : outgoing.skips[i]);
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
      Messages incoming = receive(context, m, kept);
      // The rank waits for others' gradients before its optimizer's start is noted: that wait is
      // idle time.
      if (action.kind == ActionKind::OPTIMIZER) context.gradients.await(id, step, context.clock);
      context.clock.start_ns[id.position()] = context.now();
      const Messages outgoing = act(context, {rank, step, id}, handler, std::move(incoming));
      context.clock.end_ns[id.position()] = context.now();
      // The gradients first, then the slot, then the message: who waits for any of them may go on.
      context.gradients.ended(id, step);
      free_slots(context, m);
      send(context, m, outgoing);
      if (m.feeds_local) kept[id] = outgoing.main;
    }
  }
  handler.end_step();
  // Read last: a device's events of rebuilding are complete only when the step has ended.
  handler.read_rebuilds(context.clock);
}

}  // namespace weir
