// Explains a search's best plan, and the plan in use beside it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/sweep_reasons.hpp"

#include <nlohmann/json.hpp>

#include "sim/explain/changes.hpp"
#include "sim/explain/explain_json.hpp"
#include "sim/forecast.hpp"
#include "tools/app/compare/explain.hpp"

namespace weir::app {

SweepReasons reasons_for(const weir::SweepRequest& search, const weir::SweepResult& result,
                         const CostsSource& source, const Costs& costs, const Cluster& cluster) {
  const Ranked& best = result.plans.front();
  const ResolvedPlan winner = resolve(best.plan, search.folder);
  const Costs its = costs_of_changes(source, winner, cluster);
  const ForecastResult whole = forecast(winner, its, cluster);
  SweepReasons reasons{
      .step = whole.forecast.metrics.step_time,
      .critical_path = critical_path(winner.program, whole.trace),
      .what_if = what_if(winner, changes(winner, its, cluster), its, cluster, best.forecast),
      .rejected = rejected(search, result, costs, cluster)};
  if (!search.baseline) return reasons;
  const ResolvedPlan& present = *search.baseline;
  const Costs all = costs_of_changes(source, present, cluster, best.plan);
  reasons.towards = what_if(present, changes_towards(present, best.plan, all, cluster), all,
                            cluster, result.baseline->ranked.forecast);
  return reasons;
}

nlohmann::ordered_json to_json(const SweepReasons& reasons, const std::vector<Ranked>& front) {
  nlohmann::ordered_json json;
  json["critical_path"] = critical_path_json(reasons.critical_path, reasons.step);
  json["what_if"] = what_if_json(reasons.what_if);
  json["rejected"] = rejected_json(reasons.rejected);
  if (reasons.towards) json["towards_best"] = what_if_json(*reasons.towards);
  json["front"] = front_json(front);
  return json;
}

}  // namespace weir::app
