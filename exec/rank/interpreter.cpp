// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/interpreter.hpp"

#include <map>
#include <utility>

namespace weir {
namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
}  // namespace

std::vector<Mail> address_mail(const Program& program) {
  std::vector<Mail> mail(program.operations.size());
  for (const Lane& lane : program.lanes) {
    for (OperationId id = lane.first; id < lane.last; ++id) {
      const Action& action = program.operations[at(id)].action;
      for (const Dependency& dependency : program.predecessors(id)) {
        if (dependency.kind != DependencyKind::data) continue;
        const Lane& from = program.lane_of(dependency.before);
        if (lane.kind == LaneKind::send) {
          mail[at(dependency.before)].send_edge = lane.edge;
          mail[at(dependency.before)].send_index = id - lane.first;
        } else if (action.kind == ActionKind::R) {
          continue;  // waits for the gradient (fused placement) but does not take it
        } else if (from.kind == LaneKind::receive) {
          mail[at(id)].receive_edge = from.edge;
          mail[at(id)].receive_index = dependency.before - from.first;
        } else {
          mail[at(id)].local_producer = dependency.before;
          mail[at(dependency.before)].feeds_local = true;
        }
      }
    }
  }
  return mail;
}

void interpret(StepContext& context, Rank rank, RankWork& work, std::uint32_t step) {
  const Program& program = context.program;
  std::map<OperationId, Tensor> kept;  // values that stay on this rank
  for (const Lane& lane : program.lanes) {
    if (lane.rank != rank || lane.kind != LaneKind::compute) continue;
    for (OperationId id = lane.first; id < lane.last; ++id) {
      const Action& action = program.operations[at(id)].action;
      const Mail& m = context.mail[at(id)];
      Tensor incoming;
      if (m.receive_edge >= 0) {
        incoming = context.transport.receive(m.receive_edge, m.receive_index);
      } else if (m.local_producer >= 0) {
        incoming = kept.extract(m.local_producer).mapped();
      }
      if (action.kind == ActionKind::OPTIMIZER) context.gradients.await(id, step, context.clock);
      context.clock.start_ns[at(id)] = context.now();
      const Tensor outgoing = work.act(id, action, incoming);
      work.finish();
      context.clock.end_ns[at(id)] = context.now();
      context.gradients.ended(id, step);
      if (m.receive_edge >= 0) context.transport.consumed(m.receive_edge, m.receive_index);
      if (m.send_edge >= 0) context.transport.send(m.send_edge, m.send_index, outgoing);
      if (m.feeds_local) kept[id] = outgoing;
    }
  }
  work.end_step();
}

}  // namespace weir
