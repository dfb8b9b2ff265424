// How much of the time a device's neighbours work beside it (docs/theory.md 8.6).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "costmodel/table/costs.hpp"
#include "plan/job/plan.hpp"

namespace weir {

// The share of a device's passes in which another device works too, of pairs of devices the mean,
// in 0..1: those that hold the same stage always do; those of two stages while both have a
// micro-batch.
[[nodiscard]] double busy_share(const Plan& plan);

// The share in which the costs' factors `alone` hold: none work beside it. A GPU is divided among
// the K of its costs, and the factors are of one that has all of it: K = 1.
[[nodiscard]] double quiet_share(const Plan& plan, const Costs& costs);

}  // namespace weir
