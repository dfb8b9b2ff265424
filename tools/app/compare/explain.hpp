// `explain`: where a plan's step goes, what one change would bring, and why a measured step is
// another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/explain/critical_path.hpp"
#include "sim/explain/gap.hpp"
#include "sim/explain/waterfall.hpp"
#include "sim/explain/what_if.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/compare/mistaken_dtype.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/explained_step.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

struct ExplainRequest {
  PlanSource plan;
  CostsSource costs;
  std::optional<std::filesystem::path> cluster;  // none: this machine
  StackChoice stack;
  std::optional<int> gpus;
  bool any_schedule = false;                    // also changes to what the stack has not
  std::string memory_limit;                     // "80 GiB"; empty: the named cluster's
  std::optional<double> train_tokens;           // of a whole training
  std::string measured;                         // "22.3s" or "296.5TFLOPs"; empty: nothing was
  std::optional<std::filesystem::path> plans;   // folder for the changed plans
  std::optional<std::filesystem::path> output;  // weir.explanation/1
};
[[nodiscard]] Fields fields(ExplainRequest& request);

struct ExplainResult {
  Plan plan;
  Forecast forecast;
  Waterfall waterfall;
  CriticalPath critical_path;
  std::vector<WhatIf> what_if;
  std::optional<Gap> gap;
  std::optional<MistakenDtype> mistaken;  // what the measured step is of
  std::string measured;                   // the figure, as it was given
};

// Throws UsageError for a figure that the plan has no such rate for.
[[nodiscard]] ExplainResult explain(const ExplainRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const ExplainResult& result);  // weir.explanation/1

inline constexpr UseCase<ExplainRequest, ExplainResult> kExplain{
    "explain", "Say where a plan's step goes and what would help", &explain};

}  // namespace weir::app
