// Writes why a step takes as long as it does.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/explain_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "plan/job/plan_json.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {
namespace {

double share(Nanoseconds part, Nanoseconds whole) {
  if (whole.count() == 0) return 0;
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

// Without a limit, or where memory was not counted, nobody has judged.
Json fits_json(const Forecast& f) {
  return f.memory_limit && !f.memory.empty() ? Json(to_string(f.fits())) : Json();
}

// A plan with what it takes, where a place in a ranking is not the point.
Json plan_and_cost(const Ranked& ranked) {
  const Forecast& f = ranked.forecast;
  return {{"step_time_s", f.step_time.count()},
          {"peak_memory_bytes", f.peak_memory().count()},
          {"fits", fits_json(f)},
          {"plan", plan_json(ranked.plan)}};
}

}  // namespace

Json waterfall_json(const Waterfall& fall) {
  Json rows = Json::array();
  for (const auto& [name, time] : fall.parts) {
    rows.push_back({{"name", std::string(name)},
                    {"time_ns", time.count()},
                    {"share", share(time, fall.step)}});
  }
  return rows;
}

Json critical_path_json(const CriticalPath& path, Nanoseconds step) {
  Json rows = Json::array();
  for (const auto& [kind, time, actions] : path.parts) {
    rows.push_back({{"name", kind},
                    {"time_ns", time.count()},
                    {"share", share(time, step)},
                    {"actions", actions}});
  }
  return rows;
}

Json what_if_json(const std::vector<WhatIf>& rows) {
  Json all = Json::array();
  for (const auto& [change, forecast, gain] : rows) {
    Json row{{"choice", change.choice}, {"to", change.to}};
    row["refused"] = change.refused.empty() ? Json() : Json(change.refused);
    row["beyond_stack"] = change.beyond.empty() ? Json() : Json(change.beyond);
    if (forecast) {
      row["gain"] = gain;
      row["step_time_s"] = forecast->step_time.count();
      row["peak_memory_bytes"] =
          forecast->memory.empty() ? Json() : Json(forecast->peak_memory().count());
      row["fits"] = fits_json(*forecast);
      row["plan"] = plan_json(change.plan);
    }
    all.push_back(std::move(row));
  }
  return all;
}

Json rejected_json(const std::vector<Rejected>& rows) {
  Json all = Json::array();
  for (const Rejected& one : rows) {
    Json row{{"choice", one.choice}, {"value", one.value}};
    row["reason"] = one.reason.empty() ? Json() : Json(one.reason);
    if (one.best) {
      row["ratio_to_best"] = one.ratio;
      row["gap"] = std::isinf(one.gap) ? Json() : Json(one.gap);
      row.update(plan_and_cost(*one.best));
    }
    all.push_back(std::move(row));
  }
  return all;
}

Json front_json(const std::vector<Ranked>& front) {
  Json all = Json::array();
  for (const Ranked& ranked : front) all.push_back(plan_and_cost(ranked));
  return all;
}

Json gap_json(const Gap& gap) {
  Json json{{"step_time_s", gap.measured.count()},
            {"difference_s", gap.difference.count()},
            {"within_interval", or_null(gap.within_interval)},
            {"causes", Json::array()}};
  for (const SuspectedCause& cause : gap.causes) {
    json["causes"].push_back(
        {{"name", std::string(cause.name)},
         {"factor", or_null(cause.factor)},
         {"plausible", or_null(cause.plausible)},
         {"measurement", cause.measurement},
         {"reading_s", cause.reading.count()},
         {"reading_if_s", cause.reading_if ? Json(cause.reading_if->count()) : Json()}});
  }
  return json;
}

}  // namespace weir
