// What a run learnt, as a picture.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "exec/run/run_result.hpp"
#include "tools/report/chart.hpp"

namespace weir::app {

// The losses of its steps under this name, and before them those of the run that it goes on from,
// as far as that one's folder has a run.json beside its checkpoints.
[[nodiscard]] Chart loss_chart(const weir::RunResult& run, const std::string& name);

}  // namespace weir::app
