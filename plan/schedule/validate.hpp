// The one judge of schedules. A failure is an expected "no": it comes back with the reason and the
// picture.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "plan/schedule/schedule.hpp"

namespace weir {

struct ScheduleFault {
  Rank rank;
  std::int32_t position =
      0;                // in the rank's order; may be one past its end when something is missing
  std::string reason;   // "1B0 before 1F0"
  std::string picture;  // rank x step grid with the culprit marked
};

struct ValidationOptions {
  bool allow_reordered =
      false;  // accept B (or W) out of ascending micro-batch order within a stage
};

// Each (stage, micro-batch) has exactly one F and either one B or one I and one W, on the rank of
// its stage; F before I or B before W; B (or W) ascend within a stage and replica; and the compute
// orders together admit an execution (no cycle with unlimited buffers).
[[nodiscard]] std::optional<ScheduleFault> validate(const Schedule& schedule,
                                                    const ValidationOptions& options = {});

}  // namespace weir
