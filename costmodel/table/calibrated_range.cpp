// The range of plans that were run, and whether a plan lies outside of it.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/calibrated_range.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weir {

CalibratedRange widened(CalibratedRange range, const Plan& plan) {
  const bool first = range.pp_high == 0;
  range.pp_low = first ? plan.pp : std::min(range.pp_low, plan.pp);
  range.pp_high = std::max(range.pp_high, plan.pp);
  range.microbatches_low =
      first ? plan.microbatches : std::min(range.microbatches_low, plan.microbatches);
  range.microbatches_high = std::max(range.microbatches_high, plan.microbatches);
  const auto place =
      std::lower_bound(range.schedules.begin(), range.schedules.end(), plan.schedule);
  if (place == range.schedules.end() || *place != plan.schedule)
    range.schedules.insert(place, plan.schedule);
  return range;
}

std::optional<std::string> outside(const CalibratedRange& range, const Plan& plan) {
  const auto missing = [](const char* letter, int value, int low, int high) {
    return fmt::format(
        "{0} = {1} was never run here, only {2} to {3}; a run with {0} = {1} would tell most",
        letter, value, low, high);
  };
  if (plan.pp < range.pp_low || plan.pp > range.pp_high)
    return missing("K", plan.pp, range.pp_low, range.pp_high);
  if (plan.microbatches < range.microbatches_low || plan.microbatches > range.microbatches_high)
    return missing("M", plan.microbatches, range.microbatches_low, range.microbatches_high);
  if (plan.pp > 1 &&
      !std::binary_search(range.schedules.begin(), range.schedules.end(), plan.schedule))
    return fmt::format("schedule {0} was never run here; a run of {0} would tell most",
                       plan.schedule);
  return std::nullopt;
}

}  // namespace weir
