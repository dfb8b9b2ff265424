// What a run learnt, as a picture.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "exec/run/run_result.hpp"
#include "tools/report/chart.hpp"

namespace weir::app {

// Of the steps directly before its first, the last one last, as far as the folder of the run that
// it goes on from has them: OUT/run.json where the checkpoint is OUT/checkpoints/step-N. None where
// it goes on from nothing, or that file is not there or another's: it is no reason to end a run.
[[nodiscard]] std::vector<double> losses_before(const weir::RunResult& run);

// The losses of its steps under this name, and before them those of the runs before it.
[[nodiscard]] Chart loss_chart(const weir::RunResult& run, const std::vector<double>& before,
                               const std::string& name);

}  // namespace weir::app
