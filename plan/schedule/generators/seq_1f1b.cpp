// Seq1F1B (Sun et al., 2024): 1F1B over slices of sequences. Slices go forward in order and
// backward in reverse, since causal attention makes a slice's gradient depend on the later ones'.
// Of S slices a sequence the micro-batch index of an action is m * S + slice.
//
//   K = 2, S = 2, M = 1     rank 0  0F0 0F1 .. 0B1 0B0       rank 1  .. 1F0 1F1 1B1 1B0
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/generators/orders.hpp"

namespace weir {

ScheduleOrReason make_seq_1f1b(const ScheduleRequest& request) {
  const std::int32_t slices = request.slices;
  if (request.chunks != 1) return "seq1f1b: v must be 1; slices divide sequences";
  ScheduleShape shape = looped_shape(request.ranks, 1, request.microbatches);
  shape.segments = slices;
  Schedule schedule = empty_schedule("seq1f1b", shape);
  for (std::int32_t rank = 0; rank < request.ranks; ++rank) {
    warm_up_and_alternate(
        schedule.order[Rank{rank}], request.microbatches * slices,
        request.ranks - rank - 2 + slices,
        [rank](std::int32_t i) {
          return Action{Stage{rank}, ActionKind::F, Microbatch{i}};
        },
        [rank, slices](std::int32_t i) {
          return Action{Stage{rank}, ActionKind::B,
                        Microbatch{i / slices * slices + slices - 1 - i % slices}};
        });
  }
  return schedule;
}

}  // namespace weir
