// Explains a search's best plan, and the plan in use beside it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/sweep_reasons.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "plan/job/plan_json.hpp"
#include "sim/explain/changes.hpp"
#include "sim/explain/explain_json.hpp"
#include "sim/explain/outside.hpp"
#include "sim/forecast.hpp"
#include "tools/app/shared/explained_step.hpp"
#include "tools/app/sweep/edits.hpp"

namespace weir::app {

SweepReasons reasons_for(const Searched& searched, const CostsSource& source, const Costs& costs,
                         const Cluster& cluster) {
  const auto& [asked, search, result] = searched;
  const Ranked& best = result.plans.front();
  const ResolvedPlan winner = resolve(best.plan, search.folder);
  // Changes may split layers otherwise, so costs of those splits are made too.
  Costs its = costs_of_changes(source, winner, cluster);
  const ForecastResult whole = forecast(winner, its, cluster);
  std::vector<Change> all_its = all_changes(source, winner, cluster, its);
  SweepReasons reasons{.step = whole.forecast.metrics.step_time,
                       .critical_path = critical_path(winner.program, whole.trace),
                       .what_if = what_if(winner, std::move(all_its), its, cluster, best.forecast),
                       .rejected = rejected(search, result, costs, cluster),
                       .outside = outside(asked, best, costs, cluster)};
  mark_beyond(reasons.what_if, best.plan, search.software);
  // Without a plan in use there is nothing to come from.
  if (!search.baseline) return reasons;
  const ResolvedPlan& present = *search.baseline;
  // From the plan in use towards the best, one choice at a time.
  const Costs all = costs_of_changes(source, present, cluster, best.plan);
  reasons.towards = what_if(present, changes_towards(present, best.plan, all, cluster), all,
                            cluster, result.baseline->ranked.forecast);
  mark_beyond(*reasons.towards, present.plan, search.software);
  return reasons;
}

std::vector<FirstChange> first_changes_for(const Searched& searched, const CostsSource& source,
                                           const Cluster& cluster) {
  const auto& [asked, search, result] = searched;
  if (!search.baseline || !result.baseline || result.plans.empty()) return {};
  const ResolvedPlan& present = *search.baseline;
  const Ranked& best = result.plans.front();
  return first_changes(
      {present, result.baseline->ranked.forecast, best, cluster, search.software,
       [&](const ResolvedPlan& plan) { return costs_of_changes(source, plan, cluster, best.plan); },
       [&](const ResolvedPlan& to) { return count_of(edits_between(present.plan, to)); }});
}

nlohmann::ordered_json to_json(const std::vector<FirstChange>& changes) {
  auto rows = nlohmann::ordered_json::array();
  for (const FirstChange& change : changes) {
    const ArgumentCount& count = change.arguments;
    rows.push_back({{"what", change.what},
                    {"ratio_to_baseline", change.ratio},
                    {"step_time_s", change.forecast.step_time.count()},
                    {"peak_memory_bytes", change.forecast.peak_memory().count()},
                    {"removed", count.removed},
                    {"changed", count.changed},
                    {"added", count.added},
                    {"of_job", count.of_job},
                    {"searched", change.searched},
                    {"plan", plan_json(change.plan)}});
  }
  return rows;
}

nlohmann::ordered_json to_json(const SweepReasons& reasons, const std::vector<Ranked>& front) {
  nlohmann::ordered_json json;
  json["critical_path"] = critical_path_json(reasons.critical_path, reasons.step);
  json["what_if"] = what_if_json(reasons.what_if);
  json["rejected"] = rejected_json(reasons.rejected);
  json["outside_stack"] = rejected_json(reasons.outside);
  if (reasons.towards) json["towards_best"] = what_if_json(*reasons.towards);
  json["front"] = front_json(front);
  return json;
}

}  // namespace weir::app
