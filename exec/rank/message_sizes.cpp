// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/message_sizes.hpp"

#include "plan/model/layer_tensors.hpp"

namespace weir {

std::vector<std::int64_t> message_bytes(const LoadedPlan& loaded, const Program& program) {
  const auto layers = static_cast<int>(loaded.model.layers.size());
  const auto output_of = [&](Stage stage) {
    const LayerRange range = layers_of_stage(loaded.plan, layers, stage);
    const Layer& last = loaded.model.layers[static_cast<std::size_t>(range.last) - 1];
    return aligned_bytes(
        layer_tensors(last, loaded.plan.seq_length, loaded.plan.dtype).output_bytes_per_sample *
        loaded.plan.micro_batch_size);
  };
  std::vector<std::int64_t> bytes(program.operations.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Action& action = program.operations[i].action;
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
