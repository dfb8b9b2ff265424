// What not knowing a plan's software costs its forecast: how fast and how slow the software that is
// known would run it, and how little and how much memory software in use would hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/fit/builtin_interval.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "sim/engine/compiled_program.hpp"
#include "sim/forecast/forecast.hpp"

namespace weir {

// The plan's step by the built-in costs of the cluster with each stack in turn.
struct StepBy {
  std::string stack;
  Seconds step{0};
};
[[nodiscard]] std::vector<StepBy> steps_by(const ResolvedPlan& resolved, const Cluster& cluster,
                                           std::span<const Stack> known);

// Between the least and the most of them. nullopt: none.
struct StepRange {
  Seconds fastest{0}, slowest{0};
};
[[nodiscard]] std::optional<StepRange> step_range(const ResolvedPlan& resolved,
                                                  const Cluster& cluster,
                                                  std::span<const Stack> known);

// The same of many plans of one model, sequence length and number format, whose skips are relayed:
// layers are priced once by each stack for each way to split them.
class SoftwareSteps {
 public:
  // The model must outlive it.
  SoftwareSteps(const Model& model, const Cluster& cluster, std::span<const Stack> known);

  // `compiled`: the plan's program; null: it cannot be. Many threads may ask at once.
  [[nodiscard]] std::optional<StepRange> of(const ResolvedPlan& resolved,
                                            const CompiledProgram* compiled);

 private:
  struct Priced {
    std::once_flag once;
    std::optional<Costs> costs;
    std::optional<LayerCosts> layers;
  };
  [[nodiscard]] const LayerCosts& layers_of(const Plan& plan, std::size_t software);

  const Model& model_;
  std::vector<Cluster> clusters_;  // by software
  std::mutex mutex_;               // guards the map, whose places do not move
  std::map<std::pair<std::size_t, Split>, Priced> priced_;
};

// Gives the forecast of a plan whose job says what makes memory less (re-materialisation, offload,
// narrower formats) as the least what every rank holds from step to step by the leanest software.
void bound_by_state(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster);

// How far such a step may be below and above its forecast (unnamed_scale).
struct StepScales {
  double below = 0, above = 0;
};
[[nodiscard]] StepScales scales_beside(Seconds step, const StepRange& range);

// The forecast's interval: so many of its scales to either side as measured runs lay within.
void set_interval(Forecast& forecast, const StepRange& range,
                  const std::optional<BuiltinInterval>& errors);

}  // namespace weir
