// V-Min (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024): the block with
// the shortest life of a micro-batch, a third of 1F1B's memory, at about two thirds of its bubble
// where F, I and W are alike.
//
//   K = 4, one micro-batch, slots 0...15    rank 0  f0 .. .. .. .. .. .. f1 i1 .. .. .. .. .. .. i0
//                                           rank 1  .. f0 .. .. .. .. f1 .. .. i1 .. .. .. .. i0
//                                           rank 2  .. .. f0 .. .. f1 .. .. .. .. i1 .. .. i0
//                                           rank 3  .. .. .. f0 f1 .. .. .. .. .. .. i1 i0
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "plan/schedule/generators/building_block.hpp"

namespace weir {
namespace {

BuildingBlock v_min(std::int32_t k, std::int32_t d) {
  const std::int32_t shift = k % 3 == 0 ? 2 : 0;
  return {d, 2 * k - d - 1, 2 * k + shift + d, 4 * k + shift - d - 1};
}

}  // namespace

ScheduleOrReason make_v_min(const ScheduleRequest& request) {
  if (request.chunks != 2) return std::string("v-min has two stages a rank: v must be 2");
  return repeat_block("v-min", request, v_min);
}

}  // namespace weir
