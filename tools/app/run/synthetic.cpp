// How long each operation of a plan is waited for.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/synthetic.hpp"

#include "costmodel/table/plan_costs.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/machine/host.hpp"

namespace weir::app {

SyntheticStep synthetic_step(const ResolvedPlan& loaded, const CostsSource& costs) {
  const Cluster cluster = host_cluster();
  const Costs known = load(costs, loaded.model, loaded.plan, cluster);
  return {expand(loaded.program, cost_table(loaded, known, cluster).table).duration_ns.values(),
          forecast(loaded, known, cluster).forecast.step_time};
}

}  // namespace weir::app
