// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/synthetic.hpp"

#include "costmodel/table/costs.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/options.hpp"

namespace weir {

std::vector<std::int64_t> synthetic_durations(const ResolvedPlan& loaded,
                                              const std::optional<std::filesystem::path>& costs) {
  const Cluster cluster = host_cluster();
  const Costs known = costs_or_builtin(costs, loaded.model, loaded.plan, cluster);
  return expand(loaded.program, cost_table(loaded, known, cluster).table).duration_ns;
}

}  // namespace weir
