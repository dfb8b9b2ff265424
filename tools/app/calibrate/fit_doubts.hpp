// What is learnt from runs, doubted where it is far from what was known before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "costmodel/fit/calibrate.hpp"
#include "tools/app/shared/session.hpp"

namespace weir::app {

inline constexpr std::string_view kOtherModel =
    "is this trace of the plan's model, sizes and number format?";
inline constexpr std::string_view kOtherWork =
    "was the profile, or a run, made while other work ran?";

// Notes the first kind of pass whose fitted time is far from what the costs had forecast, with the
// question why.
void doubt_far_fits(const std::vector<FitQuality>& quality, std::string_view question,
                    const Session& session);

// Notes a measured step that took far more or less than its forecast, where a whole job's costs
// are to be learnt from it; `figure` as the user wrote it.
void doubt_far_figure(std::string_view figure, double measured_over_forecast,
                      const Session& session);

}  // namespace weir::app
