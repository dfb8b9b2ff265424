// Writes a program's lanes as PyTorch's rows: messages stand beside the actions they serve.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/comms_csv.hpp"

#include <fmt/format.h>

#include <map>

namespace weir {

std::string to_comms_csv(const Program& program) {
  std::string text;
  for (const Rank rank : program.ranks()) {
    const Lane& lane = program.compute_lane(rank);
    std::map<Stage, OperationId> last_gradient;
    for (const OperationId id : lane.operations()) {
      const Action& action = program.op(id).action;
      if (action.kind == ActionKind::B || action.kind == ActionKind::W)
        last_gradient[action.stage] = id;
    }
    std::string row;
    const auto add = [&row](const Action& a) {
      row += fmt::format("{}{}", row.empty() ? "" : ",", to_string(a));
    };
    for (const auto& [stage, id] : last_gradient) add({stage, ActionKind::UNSHARD, Microbatch{-1}});
    for (const OperationId id : lane.operations()) {
      const Action& action = program.op(id).action;
      if (action.kind > ActionKind::W)
        continue;  // PyTorch has no word for R and steps the optimizer itself
      const OperationId receive = program.receive_before(id), send = program.send_after(id);
      if (receive != kNoOperation) add(program.op(receive).action);
      add(action);
      if (send != kNoOperation) add(program.op(send).action);
      if (last_gradient[action.stage] == id) {
        add({action.stage, ActionKind::REDUCE_GRAD, Microbatch{-1}});
        add({action.stage, ActionKind::RESHARD, Microbatch{-1}});
      }
    }
    text += row + "\n";
  }
  return text;
}

}  // namespace weir
