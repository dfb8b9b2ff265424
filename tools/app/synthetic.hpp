// Durations for the synthetic backend: the forecast's, so that what is waited is what was
// predicted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tools/app/source.hpp"

namespace weir::app {

[[nodiscard]] std::vector<std::int64_t> synthetic_durations(const ResolvedPlan& loaded,
                                                            const CostsSource& costs);

}  // namespace weir::app
