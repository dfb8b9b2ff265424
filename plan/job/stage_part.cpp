// A message of a stage: what goes to the neighbour is the row without what goes past it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/stage_part.hpp"

namespace weir {

std::int64_t StagePart::message_bytes(const Action& message) const {
  const bool behind = message.kind == ActionKind::SEND_F || message.kind == ActionKind::RECV_B;
  std::int64_t rest = behind ? output_bytes : input_bytes;
  for (const StageSkip& skip : behind ? skips_out : skips_in) {
    if (skip.other == message.other) return skip.bytes;
    rest -= skip.bytes;
  }
  return rest;
}

}  // namespace weir
