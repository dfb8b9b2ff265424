// What a run learnt, as a picture.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/app/run.hpp"
#include "tools/report/chart.hpp"

namespace weir::app {

// The losses of its measured steps, and before them those of the run that it goes on from, as far
// as that one's folder has a run.json beside its checkpoints.
[[nodiscard]] Chart loss_chart(const RunResult& result);

}  // namespace weir::app
