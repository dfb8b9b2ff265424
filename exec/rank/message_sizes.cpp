// Bytes of each message, as its stage sends or receives it.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/message_sizes.hpp"

namespace weir {

std::vector<std::int64_t> message_bytes(const ResolvedPlan& loaded) {
  const Program& program = loaded.program;
  std::vector<std::int64_t> bytes(program.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Action& action = program.op(OperationId{i}).action;
    if (!is_send(action.kind) && !is_receive(action.kind)) continue;
    bytes[i] = aligned_bytes(loaded.stage(action.stage).message_bytes(action) *
                             loaded.plan.micro_batch_size);
  }
  return bytes;
}

}  // namespace weir
