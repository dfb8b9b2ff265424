// Bytes of each message, from the layer before its edge.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/message_sizes.hpp"

namespace weir {

std::vector<std::int64_t> message_bytes(const ResolvedPlan& loaded) {
  const auto output_of = [&](Stage stage) {
    const LayerPart& last = loaded.part->layer(loaded.stage(stage).layers.last - 1);
    return aligned_bytes(last.tensors.output_bytes_per_sample * loaded.plan.micro_batch_size);
  };
  const Program& program = loaded.program;
  std::vector<std::int64_t> bytes(program.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Action& action = program.op(OperationId{i}).action;
    switch (action.kind) {
      case ActionKind::SEND_F:  // of this stage's output
      case ActionKind::RECV_B:  // of its gradient
        bytes[i] = output_of(action.stage);
        break;
      case ActionKind::RECV_F:
      case ActionKind::SEND_B:
        bytes[i] = output_of(Stage{action.stage.value - 1});
        break;
      default:
        break;
    }
  }
  return bytes;
}

}  // namespace weir
