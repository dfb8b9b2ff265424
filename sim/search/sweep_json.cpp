// Writes what a search found.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/sweep_json.hpp"

#include <nlohmann/json.hpp>

#include "plan/job/plan_json.hpp"
#include "sim/forecast/forecast_json.hpp"

namespace weir {
namespace {

using Json = nlohmann::ordered_json;

Json ranked_json(const Ranked& ranked) {
  return {{"plan", plan_json(ranked.plan)},
          {"forecast", forecast_json(ranked.forecast)},
          {"gap", ranked.gap},
          {"pareto", ranked.pareto}};
}

}  // namespace

Json sweep_json(const SweepResult& result) {
  Json json;
  json["schema"] = "weir.sweep/1";
  json["candidates"] = result.candidates;
  json["feasible"] = result.feasible;
  json["seconds"] = result.seconds;
  json["plans"] = Json::array();
  for (const Ranked& ranked : result.plans) json["plans"].push_back(ranked_json(ranked));
  if (result.baseline) {
    json["baseline"] = ranked_json(result.baseline->ranked);
    json["baseline"]["place"] =
        result.baseline->place ? Json(*result.baseline->place) : Json(nullptr);
    const auto ratio = [](const std::optional<double>& of) { return of ? Json(*of) : Json(); };
    json["baseline"]["ratio_to_best"] = ratio(result.baseline->ratio);
    json["baseline"]["device_ratio_to_best"] = ratio(result.baseline->device_ratio);
  }
  if (result.faster_if_it_fits) json["faster_if_it_fits"] = ranked_json(*result.faster_if_it_fits);
  if (!result.listed) json["listed"] = false;
  if (result.stopped_after) json["stopped_after"] = *result.stopped_after;
  json["gap"] = result.gap;  // infinity is written as null
  if (result.effort) {
    json["effort"] = {{"looked_at", result.effort->looked_at},
                      {"refined", result.effort->refined},
                      {"simulated", result.effort->simulated}};
  }
  json["left_out"] = Json::array();
  for (const LeftOut& left_out : result.left_out) {
    json["left_out"].push_back(
        {{"reason", left_out.reason}, {"count", left_out.count}, {"nearest", left_out.nearest}});
  }
  json["refused"] = result.refused;
  return json;
}

std::string to_json(const SweepResult& result) { return sweep_json(result).dump(2); }

}  // namespace weir
