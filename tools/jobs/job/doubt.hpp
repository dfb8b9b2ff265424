// What a plan lacks of the job that it was read from, where that puts its forecast in doubt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plan/job/source_job.hpp"

namespace weir {

// The job's arguments of adapters and frozen weights, of a size that is not understood, and of
// re-materialisation that no plan has a word for, by the job's own names; none: nothing that is
// known of is missing.
[[nodiscard]] std::vector<std::string> doubts_of(const SourceJob& job);

// What the job says and the plan does not that makes memory less than forecast: re-materialisation,
// offload, formats narrower than the plan's, fused losses. A plan with any of them may fit where
// the forecast says that it does not.
[[nodiscard]] std::vector<std::string> leaner_than_planned(const SourceJob& job);

}  // namespace weir
