// Durations for the synthetic backend: the forecast's, so that what is waited is what was
// predicted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/words/units.hpp"
#include "tools/app/shared/source.hpp"

namespace weir::app {

struct SyntheticStep {
  std::vector<std::int64_t> duration_ns;  // of each operation
  Seconds time{0};                        // of the step that they make
};
[[nodiscard]] SyntheticStep synthetic_step(const ResolvedPlan& loaded, const CostsSource& costs);

}  // namespace weir::app
