// Explains a search's best plan, and the plan in use beside it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/sweep_reasons.hpp"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "plan/job/plan_json.hpp"
#include "sim/explain/changes.hpp"
#include "sim/explain/explain_json.hpp"
#include "sim/explain/outside.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/shared/explained_step.hpp"
#include "tools/app/sweep/edits.hpp"

namespace weir::app {

namespace {

using Part = TimeBound::Part;

// Whether a part of the work is to end: its time is over, or a signal came.
std::function<bool()> ending(const Searched& searched, Part part) {
  return [&searched, part] {
    const auto& stop = searched.search.stop;
    return searched.time.over(part) || (stop && stop());
  };
}

// A plan that is changed, as what_if() takes it.
struct Changed {
  const ResolvedPlan& plan;
  const Forecast& base;
  const Costs& costs;
  const char* name;
};

// What the changes would bring, as far as the part's time goes; marked and in order.
std::vector<WhatIf> brought(const Searched& searched, Part part, const Changed& to,
                            std::vector<Change> all, const Cluster& cluster) {
  const std::size_t count = all.size();
  std::vector<WhatIf> rows =
      what_if(to.plan, std::move(all), to.costs, cluster, to.base, ending(searched, part));
  if (rows.size() < count) {
    searched.not_looked_at.push_back(
        fmt::format("{} of {} changes of {}", count - rows.size(), count, to.name));
  }
  mark_beyond(rows, to.plan.plan, searched.search.software);
  return rows;
}

std::vector<Rejected> outside_the_stack(const Searched& searched, const Costs& costs,
                                        const Cluster& cluster) {
  const auto& within = searched.search.within;
  if (within && *within == StackAbilities{}) return {};
  if (searched.time.over(Part::outside)) {
    searched.not_looked_at.emplace_back("what lies outside the stack");
    return {};
  }
  weir::SweepRequest asked = searched.asked;
  asked.budget = searched.time.left(Part::outside);
  OutsideRows found = outside(asked, searched.result.plans.front(), costs, cluster);
  if (found.cut) {
    searched.not_looked_at.emplace_back(found.rows.empty() ? "what lies outside the stack"
                                                           : "some of what lies outside the stack");
  }
  return std::move(found.rows);
}

}  // namespace

SweepReasons reasons_for(const Searched& searched, const CostsSource& source, const Costs& costs,
                         const Cluster& cluster) {
  const auto& search = searched.search;
  const weir::SweepResult& result = searched.result;
  const Ranked& best = result.plans.front();
  const ResolvedPlan winner = resolve(best.plan, search.folder);
  // Changes may split layers otherwise, so costs of those splits are made too.
  Costs its = costs_of_changes(source, winner, cluster);
  const ForecastResult whole = forecast(winner, its, cluster);
  std::vector<Change> all_its = all_changes(source, winner, cluster, its);
  SweepReasons reasons{.step = whole.forecast.metrics.step_time,
                       .critical_path = critical_path(winner.program, whole.trace)};
  // In the order in which the time is shared out (time_bound).
  reasons.what_if = brought(searched, Part::what_if, {winner, best.forecast, its, "the best plan"},
                            std::move(all_its), cluster);
  reasons.rejected = rejected(search, result, costs, cluster, ending(searched, Part::rejected));
  if (search.baseline) {
    // From the plan in use towards the best, one choice at a time.
    const ResolvedPlan& present = *search.baseline;
    const Costs all = costs_of_changes(source, present, cluster, best.plan);
    reasons.towards = brought(searched, Part::towards,
                              {present, result.baseline->ranked.forecast, all, "the baseline"},
                              changes_towards(present, best.plan, all, cluster), cluster);
  }
  reasons.outside = outside_the_stack(searched, costs, cluster);
  return reasons;
}

std::vector<FirstChange> first_changes_for(const Searched& searched, const CostsSource& source,
                                           const Cluster& cluster) {
  const auto& search = searched.search;
  const weir::SweepResult& result = searched.result;
  if (!search.baseline || !result.baseline || result.plans.empty()) return {};
  const ResolvedPlan& present = *search.baseline;
  const Ranked& best = result.plans.front();
  bool cut = false;
  const auto over = [&] { return cut = cut || searched.time.over(Part::first_changes); };
  auto changes = first_changes(
      {present, result.baseline->ranked.forecast, best, cluster, search.software,
       [&](const ResolvedPlan& plan) { return costs_of_changes(source, plan, cluster, best.plan); },
       [&](const ResolvedPlan& to) { return count_of(edits_between(present.plan, to)); }, over});
  // They are tried in their lists' order, so that one left out may bring more than one chosen.
  if (cut) {
    searched.not_looked_at.emplace_back(
        "some changes of the baseline, of which one may bring more than those shown");
  }
  return changes;
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
