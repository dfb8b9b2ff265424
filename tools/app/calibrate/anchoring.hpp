// `calibrate --measured`: built-in costs anchored to measured steps of the user's own cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/fit/calibrate.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/session.hpp"

namespace weir::app {

// On the machine chosen, of `gpus` devices where they are given, with the stack that the plans'
// jobs name where nobody else does. `figures`: each "PLAN=FIGURE[,MEMORY]"
// (tools/app/compare/measured_figure). The costs have no layers: what is built in for a plan is
// found when they are used. Figures that contradict the others are noted with their residuals.
// Throws UsageError for what is no figure, InputError for a plan that is not there, that the
// cluster cannot hold, or that has no such rate.
[[nodiscard]] Calibration anchor_costs(const std::vector<std::string>& figures,
                                       MachineChoice choice, std::optional<int> gpus,
                                       const Session& session);

}  // namespace weir::app
