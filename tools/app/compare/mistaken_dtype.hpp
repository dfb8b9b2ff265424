// Whether a measured step is what the plan would take in 32-bit numbers: a job that was meant to
// run in 16 bits and by mistake does not is many times slower, and no cause in the forecast's parts
// explains it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/words/dtype.hpp"
#include "tools/app/shared/source.hpp"

namespace weir::app {

struct MistakenDtype {
  Dtype dtype = Dtype::fp32;  // or tf32
  Seconds step_time{0};       // of the same plan in it
};

// Of a plan in 16 bits by built-in costs, whose device has another rate in fp32: that of fp32 and
// tf32 in which the plan's forecast is nearer to `measured`, where it is within a quarter of it and
// at most half as far from it as the plan's own `forecast`, by the logarithm. nullopt: neither is.
[[nodiscard]] std::optional<MistakenDtype> mistaken_dtype(const ResolvedPlan& loaded,
                                                          const Cluster& cluster, Seconds forecast,
                                                          Seconds measured);

}  // namespace weir::app
