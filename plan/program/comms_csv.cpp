// Writes a program's lanes as PyTorch's rows: messages stand beside the actions they serve.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/comms_csv.hpp"

#include <fmt/format.h>

#include <map>
#include <vector>

namespace weir {

std::string to_comms_csv(const Program& program) {
  std::vector<OperationId> send_of(program.operations.size(), -1);
  for (const Lane& lane : program.lanes) {
    if (lane.kind != LaneKind::send) continue;
    for (OperationId id = lane.first; id < lane.last; ++id)
      send_of[static_cast<std::size_t>(program.predecessors(id).front().before)] = id;
  }
  const auto action = [&](OperationId id) {
    return program.operations[static_cast<std::size_t>(id)].action;
  };
  std::string text;
  for (const Lane& lane : program.lanes) {
    if (lane.kind != LaneKind::compute) continue;
    std::map<Stage, OperationId> last_gradient;
    for (OperationId id = lane.first; id < lane.last; ++id) {
      if (action(id).kind == ActionKind::B || action(id).kind == ActionKind::W)
        last_gradient[action(id).stage] = id;
    }
    std::string row;
    const auto add = [&row](const Action& a) {
      row += fmt::format("{}{}", row.empty() ? "" : ",", to_string(a));
    };
    for (const auto& [stage, id] : last_gradient) add({stage, ActionKind::UNSHARD, Microbatch{-1}});
    for (OperationId id = lane.first; id < lane.last; ++id) {
      if (action(id).kind > ActionKind::W)
        continue;  // PyTorch has no word for R and steps the optimizer itself
      for (const Dependency& d : program.predecessors(id)) {
        if (is_receive(action(d.before).kind)) add(action(d.before));
      }
      add(action(id));
      if (send_of[static_cast<std::size_t>(id)] >= 0)
        add(action(send_of[static_cast<std::size_t>(id)]));
      if (last_gradient[action(id).stage] == id) {
        add({action(id).stage, ActionKind::REDUCE_GRAD, Microbatch{-1}});
        add({action(id).stage, ActionKind::RESHARD, Microbatch{-1}});
      }
    }
    text += row + "\n";
  }
  return text;
}

}  // namespace weir
