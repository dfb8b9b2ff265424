// Finds the run that is most like a plan.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/anchor.hpp"

#include <algorithm>

namespace weir {

PlanDistance nearest(const std::vector<AnchorRun>& runs, const LayoutWords& plan) {
  PlanDistance least = PlanDistance::other_job;
  for (const AnchorRun& run : runs) least = std::min(least, distance(run.words, plan));
  return least;
}

}  // namespace weir
