// Asks the software that is compiled in.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/machine/unnamed_software.hpp"

#include "plan/job/assumed_stack.hpp"
#include "sim/forecast/unnamed_software.hpp"
#include "tools/jobs/job/doubt.hpp"
#include "tools/reproduce/known_software.hpp"

namespace weir::app {

std::vector<Stack> unnamed_software(Dtype dtype, Basis basis, const Cluster& cluster) {
  const bool known_device = cluster.device.kernels.has_value();
  if (basis != Basis::builtin || !known_device || !is_assumed(cluster.stack)) return {};
  return known_software(dtype);
}

void widen_for_unnamed(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster) {
  const std::vector<Stack> known = unnamed_software(resolved.plan.dtype, forecast.basis, cluster);
  if (known.empty()) return;
  const auto range = step_range(resolved, cluster, known);
  if (range) set_interval(forecast, *range, unnamed_interval());
}

void widen_for_job(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster) {
  if (forecast.memory.empty() || leaner_than_planned(resolved.plan.job).empty()) return;
  bound_by_state(forecast, resolved, cluster);
}

}  // namespace weir::app
