// Forecasts the plan in 32 bits, and compares.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare/mistaken_dtype.hpp"

#include <cmath>
#include <utility>

#include "costmodel/layers/kernel_rates.hpp"
#include "sim/forecast/forecast.hpp"

namespace weir::app {
namespace {

Seconds step_in(Dtype dtype, const ResolvedPlan& loaded, const Cluster& cluster) {
  Plan plan = loaded.plan;
  plan.dtype = dtype;
  const ResolvedPlan other = derive(std::move(plan), loaded.model, loaded.schedule);
  const Costs costs = load(CostsSource(), other.model, other.plan, cluster);
  return weir::forecast(other, costs, cluster, {.detail = ForecastDetail::order})
      .forecast.step_time;
}

double apart(Seconds a, Seconds b) { return std::abs(std::log(a / b)); }

}  // namespace

std::optional<MistakenDtype> mistaken_dtype(const ResolvedPlan& loaded, const Cluster& cluster,
                                            Seconds forecast, Seconds measured) {
  const Dtype own = loaded.plan.dtype;
  if (own != Dtype::bf16 && own != Dtype::fp16) return std::nullopt;
  std::optional<MistakenDtype> nearest;
  for (const Dtype dtype : {Dtype::fp32, Dtype::tf32}) {
    // A device that multiplies no faster in 16 bits tells nothing.
    if (peak_rate(cluster.device, dtype).count() >= peak_rate(cluster.device, own).count())
      continue;
    const MistakenDtype other{dtype, step_in(dtype, loaded, cluster)};
    if (!nearest || apart(measured, other.step_time) < apart(measured, nearest->step_time))
      nearest = other;
  }
  if (!nearest) return std::nullopt;
  const double far = apart(measured, nearest->step_time);
  // Named only where it explains the figure: near it, and at most half as far off as the plan's own
  // precision.
  const bool named = far <= std::log(1.25) && far <= apart(measured, forecast) / 2;
  return named ? nearest : std::nullopt;
}

}  // namespace weir::app
