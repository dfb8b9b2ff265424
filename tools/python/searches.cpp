// What a notebook shows of a search, from its JSON (weir.sweep/1) as it is by then.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/job/summary.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "sim/search/front.hpp"
#include "tools/python/bindings.hpp"
#include "tools/report/pages/search.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> number(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

RankMetrics idle_of(const Json& rank) {
  RankMetrics metrics;
  for (const IdleCause& cause : kIdleCauses) {
    const double seconds = rank.at("idle_s").at(cause.name).get<double>();
    metrics.idle.*cause.time = Nanoseconds(std::llround(seconds * 1e9));
  }
  return metrics;
}

// Of a forecast what a cell says.
Forecast forecast_of(const Json& json) {
  Forecast f;
  f.basis = parse_basis(json.at("basis").get<std::string>()).value_or(Basis::builtin);
  f.step_time = Seconds(json.at("step_time_s").get<double>());
  f.metrics.bubble_fraction = json.at("bubble_fraction").get<double>();
  if (const Json& ends = json.at("step_time_interval_s"); !ends.is_null()) {
    f.interval = StepInterval{Seconds(ends.at(0).get<double>()), Seconds(ends.at(1).get<double>()),
                              json.at("interval_nominal").get<double>()};
  }
  if (const auto limit = number(json, "memory_limit_bytes"))
    f.memory_limit = Bytes(static_cast<std::int64_t>(*limit));
  f.tokens_per_s = number(json, "tokens_per_s");
  f.mfu = number(json, "mfu");
  for (const Json& rank : json.at("ranks")) {
    f.metrics.ranks.push_back(idle_of(rank));
    if (rank.at("peak_memory_bytes").is_null()) continue;
    RankMemory memory;
    memory.peak = Bytes(rank.at("peak_memory_bytes").get<std::int64_t>());
    memory.upper = Bytes(rank.at("peak_memory_upper_bytes").get<std::int64_t>());
    memory.least = Bytes(rank.at("peak_memory_least_bytes").get<std::int64_t>());
    f.memory.push_back(memory);
  }
  return f;
}

Ranked ranked_of(const Json& json) {
  Ranked ranked{.plan = weir::read_plan(json.at("plan").dump(), "plan").plan,
                .forecast = forecast_of(json.at("forecast")),
                .pareto = json.at("pareto").get<bool>()};
  ranked.forecast.devices = ranked.plan.pp * ranked.plan.devices_per_rank();
  return ranked;
}

// The first `drawn` plans are there; of the others null says that there are so many.
std::string cell(const Json& search, std::size_t drawn) {
  SweepResult result;
  result.candidates = search.at("candidates").get<int>();
  result.feasible = search.at("feasible").get<int>();
  for (const Json& one : search.at("plans"))
    result.plans.push_back(one.is_null() ? Ranked() : ranked_of(one));
  if (result.plans.empty()) throw InputError("search", "plans", "none; expected at least one");
  if (search.contains("baseline")) {
    const Json& its = search.at("baseline");
    Baseline& baseline = result.baseline.emplace(Baseline{.ranked = ranked_of(its)});
    if (!its.at("place").is_null()) baseline.place = its.at("place").get<int>();
    baseline.ratio = number(its, "ratio_to_best");
    baseline.device_ratio = number(its, "device_ratio_to_best");
  }
  // Whether there is one says that the list is not of all that fit.
  if (search.contains("effort")) result.effort.emplace();
  const std::vector<Ranked> front = pareto_front(result.plans);
  SearchReport report{.result = &result, .front = &front};
  for (std::size_t i = 0; i < std::min(drawn, result.plans.size()); ++i)
    report.names.push_back(summary(result.plans[i].plan));
  if (result.baseline) report.baseline_name = summary(result.baseline->ranked.plan);
  return search_cell(report, drawn);
}

// None of what is no search any more.
std::optional<std::string> search_cell_of(const py::dict& search, std::size_t drawn) {
  try {
    return cell(Json::parse(to_json(search)), drawn);
  } catch (const Json::exception&) {
  } catch (const InputError&) {
  }
  return std::nullopt;
}

}  // namespace

void bind_searches(py::module_& m) {
  m.def("_search_cell", &search_cell_of, py::arg("search"), py::arg("drawn"));
}

}  // namespace weir::python
