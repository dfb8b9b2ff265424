// A step's time as a distribution: every operation's duration drawn anew from what was measured,
// the program timed for each draw. The mean of the times is above the time of the means, for the
// makespan is convex in the durations (docs/theory.md 3.3): a forecast from medians alone is too
// early by that much.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "costmodel/table/costs.hpp"
#include "plan/program/program.hpp"
#include "plan/words/units.hpp"
#include "sim/engine/contention.hpp"

namespace weir {

struct StepDistribution {
  int samples = 0;
  Seconds mean{0}, low{0}, median{0}, high{0};  // low and high: 5th and 95th percentile
  // Half of the log of the 95th over the 5th percentile of the median of five such steps: by how
  // much a run's step time, which is such a median, may miss its own, as a log ratio. That median
  // lies below x as often as three of five steps do, so these are the 18.9th and 81.1st percentile
  // of a step (0.05 and 0.95 = I_q(3, 3), the law of the third of five uniform numbers).
  double spread_of_median = 0;
  bool operator==(const StepDistribution&) const = default;
};

struct JitterRequest {
  int samples = 200;
  std::uint64_t seed = 1;
};

// Durations of compute operations times factors drawn independently from `jitter` (kinds it does
// not know stay as they are). Sample i depends on the seed and i alone, not on the number of
// threads. Precondition: samples >= 1; the program does not deadlock.
[[nodiscard]] StepDistribution step_distribution(const Program& program,
                                                 const OperationCosts& costs,
                                                 const Contention& contention, const Jitter& jitter,
                                                 const JitterRequest& request);

}  // namespace weir
