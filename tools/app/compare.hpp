// `compare`: a prediction with a measurement, or what two plans differ in and what that costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "sim/forecast.hpp"
#include "tools/app/field.hpp"
#include "tools/app/machine.hpp"
#include "traces/compare.hpp"

namespace weir::app {

struct CompareRequest {
  TraceSource first, second;                     // a predicted and a measured trace, or two plans
  CostsSource costs;                             // to forecast plans by
  std::optional<std::filesystem::path> cluster;  // of plans; none: this machine
  StackChoice stack;
  std::optional<std::filesystem::path> picture, perfetto, output;
};
[[nodiscard]] Fields fields(CompareRequest& request);

struct CompareResult {
  std::optional<Comparison> traces;  // none: of plans
  std::array<ResolvedPlan, 2> plans;
  std::array<Forecast, 2> forecasts;
};

[[nodiscard]] CompareResult compare(const CompareRequest& request, const Session& session);
// weir.comparison/1 or weir.plan_comparison/1
[[nodiscard]] nlohmann::ordered_json to_json(const CompareResult& result);

inline constexpr UseCase<CompareRequest, CompareResult> kCompare{
    "compare", "A predicted trace with a measured one, or a plan with a plan", &compare};

}  // namespace weir::app
