// V-Half (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024): half of 1F1B's
// memory at about half of its bubble; the first pass runs down at half speed.
//
//   K = 3, one micro-batch, slots 0...16
//     rank 0  f0 .. .. .. .. .. .. f1 i1 .. .. .. .. .. .. .. i0
//     rank 1  .. .. f0 .. .. .. f1 .. .. .. i1 .. .. .. .. i0
//     rank 2  .. .. .. .. f0 f1 .. .. .. .. .. .. i1 .. i0
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "plan/schedule/generators/building_block.hpp"

namespace weir {
namespace {

BuildingBlock v_half(std::int32_t k, std::int32_t d) {
  const std::int32_t shift = k % 2 == 0 ? 3 : 0;
  return {2 * d, 3 * k - d - 2, 3 * k + shift + 2 * d - 1, 6 * k + shift - d - 2};
}

}  // namespace

ScheduleOrReason make_v_half(const ScheduleRequest& request) {
  if (request.chunks != 2) return std::string("v-half has two stages a rank: v must be 2");
  return repeat_block("v-half", request, v_half);
}

}  // namespace weir
