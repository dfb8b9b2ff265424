// `simulate`: forecasts one plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/parallel_fields.hpp"
#include "tools/app/shared/picture.hpp"

namespace weir::app {

struct SimulateRequest {
  PlanSource plan;
  CostsSource costs;
  std::optional<std::filesystem::path> cluster;  // none: this machine
  StackChoice stack;
  std::optional<int> gpus;
  std::string memory_limit;  // "80 GiB"; empty: the named cluster's
  std::string transfers = "buffered";
  std::optional<int> samples;  // of steps drawn from measured jitter
  bool no_barrier = false;
  ParallelOptions parallel;
  std::string mtbf, checkpoint_cost, restart_cost, downtime = "0s";  // durations, as 3h
  std::vector<std::string> stragglers;                               // "RANK=FACTOR"
  std::optional<double> train_tokens;                                // of a whole training
  std::uint64_t seed = 1;
  PictureOptions picture;
  std::optional<std::filesystem::path> output;  // folder for forecast.json and the trace
};
[[nodiscard]] Fields fields(SimulateRequest& request);

struct SimulateResult {
  std::string name;  // of the plan, in messages
  PlacedPlan plan;   // with the degrees that were asked for
  Forecast forecast;
  Trace trace;
  std::string device;  // of the cluster
};

[[nodiscard]] SimulateResult simulate(const SimulateRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const SimulateResult& result);  // weir.forecast/1
// Throws NoFeasiblePlan where the plan does not fit the memory limit.
void require_success(const SimulateResult& result);

inline constexpr UseCase<SimulateRequest, SimulateResult> kSimulate{"simulate", "Forecast one plan",
                                                                    &simulate};

}  // namespace weir::app
