// One rank's order where two flows of micro-batches meet, forwards and backwards overlapped in
// pairs: what DualPipe and DualPipeV have in common (DeepSeek-V3 technical report, 2024, section
// 3.2.1).
//
//   step  what rank r of R does            (F, B of phase p; z: I now, its W later)
//   1     2(R-r-1) x F0                    5     (R-r-1) x [B1, F1&B0]
//   2     (r+1) x [F0, F1]                 6     (r+1) x [B1, B0], the second half of them z
//   3     (R-r-1) x [z1, W, F1]            7     (R-r-1) x [W, z0]
//   4     (M-2R+r+1) x [F0&B1, F1&B0]      8     (r+1) x W
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace weir {

// Where a phase's i-th micro-batch is.
struct FlowPhase {
  Stage stage;
  std::int32_t first_microbatch = 0;
};

struct DualFlow {
  FlowPhase zero, one;
  std::int32_t rank = 0, ranks = 1;  // r of R
  std::int32_t microbatches = 1;     // M of each phase
};

// Fills a rank's order and marks the pairs it overlaps. Precondition: M >= 2R.
void fill_dual_flow(const DualFlow& flow, std::vector<Action>& order,
                    std::vector<std::int32_t>& overlapped);

}  // namespace weir
