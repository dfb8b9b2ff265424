// The configurations that calibration runs covered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/job/plan.hpp"

namespace weir {

// What the runs behind a calibration covered; beyond it there is no interval. Micro-batch sizes are
// covered layer by layer (LayerCost::by_batch).
struct CalibratedRange {
  int pp_low = 0, pp_high = 0;  // K; 0: nothing was run
  int microbatches_low = 0, microbatches_high = 0;
  std::vector<std::string> schedules;  // names, sorted

  bool operator==(const CalibratedRange&) const = default;
};
[[nodiscard]] CalibratedRange widened(CalibratedRange range, const Plan& plan);
// Why a plan lies outside ("K = 4 was never run, only 1 to 2"), with the one run that would narrow
// it; nullopt: inside.
[[nodiscard]] std::optional<std::string> outside(const CalibratedRange& range, const Plan& plan);

}  // namespace weir
