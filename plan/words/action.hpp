// One thing a rank does for one stage and one micro-batch, in PyTorch's pipelining words.
//
// "2F0" is stage 2, forward, micro-batch 0; "0SEND_F3" sends stage 0's output of micro-batch 3,
// "0SEND_F3:2" what of it goes past stage 1 directly to stage 2 (ours, plan/job/direct_skips);
// "1OPTIMIZER" has no micro-batch. The letters are those of docs/design.md 3: B is the full
// backward, I its input half, W its weight half, R the re-materialisation of a stage's forward
// (ours; PyTorch has no word for it).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/words/units.hpp"

namespace weir {

enum class ActionKind : std::uint8_t {
  F,            // forward
  B,            // full backward: I, then W; the gradient leaves at its end
  I,            // backward for the input
  W,            // backward for the weights
  R,            // re-materialise the stage's forward
  SEND_F,       // send a stage's output to the next stage
  RECV_F,       // receive a stage's input from the stage before
  SEND_B,       // send the gradient of a stage's input to the stage before
  RECV_B,       // receive the gradient of a stage's output from the next stage
  UNSHARD,      // PyTorch FSDP words, carried through files, without cost here
  RESHARD,      //
  REDUCE_GRAD,  // sum a stage's gradients over its copies (replicas, tied weights)
  OPTIMIZER,    // update a stage's parameters
  // Of a vocabulary divided over the ranks (ours; plan/schedule/shard_passes):
  BROADCAST,     // the last stage's output, to all shards
  ALL_REDUCE_F,  // what the shards' F made of a micro-batch
  ALL_REDUCE_B,  // what their backwards made
};

struct Action {
  Stage stage;
  ActionKind kind = ActionKind::F;
  Microbatch microbatch{-1};  // -1 for the kinds that have none
  Stage other{-1};            // of a skip's own message: the stage at its other end; else -1

  constexpr auto operator<=>(const Action&) const = default;
};

[[nodiscard]] constexpr bool has_microbatch(ActionKind kind) {
  return kind != ActionKind::UNSHARD && kind != ActionKind::RESHARD &&
         kind != ActionKind::REDUCE_GRAD && kind != ActionKind::OPTIMIZER;
}
[[nodiscard]] constexpr bool is_compute(ActionKind kind) {
  return kind <= ActionKind::R || kind == ActionKind::OPTIMIZER;
}
[[nodiscard]] constexpr bool is_backward(ActionKind kind) {
  return kind == ActionKind::B || kind == ActionKind::I;
}
[[nodiscard]] constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::SEND_F || kind == ActionKind::SEND_B;
}
[[nodiscard]] constexpr bool is_receive(ActionKind kind) {
  return kind == ActionKind::RECV_F || kind == ActionKind::RECV_B;
}
// Of a skip that goes directly: no neighbour's message.
[[nodiscard]] constexpr bool is_skip(const Action& action) { return action.other.value >= 0; }

[[nodiscard]] std::string_view to_string(ActionKind kind);
[[nodiscard]] std::string to_string(const Action& action);

// Full match of STAGE KIND [MICROBATCH [:OTHER]]; nullopt for anything else (numbers above 2^31-1,
// trailing text, a missing or superfluous micro-batch).
[[nodiscard]] std::optional<Action> parse_action(std::string_view text);

}  // namespace weir
