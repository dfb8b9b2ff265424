// What not knowing a plan's software costs its forecast: how fast and how slow the software that is
// known would run it, and how little and how much memory software in use would hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "costmodel/fit/builtin_interval.hpp"
#include "sim/forecast.hpp"

namespace weir {

struct StepRange {
  Seconds fastest{0}, slowest{0};
};
// The plan's step by the built-in costs of the cluster with each stack in turn. nullopt: none.
[[nodiscard]] std::optional<StepRange> step_range(const ResolvedPlan& resolved,
                                                  const Cluster& cluster,
                                                  std::span<const Stack> known);

// Gives the forecast of a plan whose job says what makes memory less (re-materialisation, offload,
// narrower formats) as the least what every rank holds from step to step by the leanest software.
void bound_by_state(Forecast& forecast, const ResolvedPlan& resolved, const Cluster& cluster);

// The range with the margins of measured runs, where there are any, as the forecast's interval.
void set_interval(Forecast& forecast, const StepRange& range,
                  const std::optional<RangeMargins>& margins);

}  // namespace weir
