// A schedule as a block of fixed offsets that repeats (Qi et al., Pipeline Parallelism with
// Controllable Memory, NeurIPS 2024, section 3): what V-Half and V-Min have in common. Two chunks a
// rank, the second pass runs back up, so first and last stage share rank 0, and memory is even over
// the ranks.
//
//   stages on ranks, K = 3      rank 0   0     5
//                               rank 1     1 4
//                               rank 2     2 3
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/schedule/generators/generators.hpp"

namespace weir {

// Unit slots of a micro-batch's F and I on rank d of K: chunk 0 is stage d, chunk 1 stage 2K-1-d.
struct BuildingBlock {
  std::int32_t f0, f1, i1, i0;
};

// The block repeated every six slots; between its actions as many W as there are free slots.
[[nodiscard]] Schedule repeat_block(const char* name, const ScheduleRequest& request,
                                    BuildingBlock (*block)(std::int32_t k, std::int32_t d));

}  // namespace weir
