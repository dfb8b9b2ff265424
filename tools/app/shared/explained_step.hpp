// A plan's step explained, for `explain` and for reports: the costs that its changes need, where
// its time goes and what one change would bring.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/job/stack_abilities.hpp"
#include "sim/explain/changes.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/shared/source.hpp"
#include "tools/report/pages/explained.hpp"

namespace weir::app {

// Costs that know every way to split layers that a change of the plan has (sim/explain/changes),
// towards `other` too, where there is one.
[[nodiscard]] Costs costs_of_changes(const CostsSource& source, const ResolvedPlan& loaded,
                                     const Cluster& cluster,
                                     const std::optional<Plan>& other = std::nullopt);

// All changes of the plan, products in the other format (16 or 8 bits) first, where the costs are
// built in, which have any. Adds what those need to `costs`, which are as of costs_of_changes().
[[nodiscard]] std::vector<Change> all_changes(const CostsSource& source, const ResolvedPlan& loaded,
                                              const Cluster& cluster, Costs& costs);

// A plan's changes in a report, where nobody said for how long: a page of the largest plans stays a
// matter of seconds.
inline constexpr Seconds kExplainedUnasked(2);

// StepToExplain::over of so much time from now on.
[[nodiscard]] std::function<std::string()> within(Seconds time);

// A step is explained by a forecast of each change, some forty of them: of a plan of at most so
// many micro-batches.
[[nodiscard]] std::int64_t most_explained(const ResolvedPlan& loaded);

// A plan whose step a report explains, as `explain` does one that was not measured.
struct StepToExplain {
  std::string name;  // "best plan"
  const ResolvedPlan& plan;
  const Forecast& forecast;      // its own, with the memory limit that changes are held against
  const ForecastResult& result;  // its step as `costs` predict it
  const Costs& costs;
  const CostsSource& source;  // of the costs of changes
  const Cluster& cluster;
  const StackAbilities& software;
  // Asked before the work on changes and before each of them: why the others are left out, "its
  // time was over"; empty: go on. None: nothing ends it.
  std::function<std::string()> over{};
  std::function<void(int done, int of)> progress{};  // told of each change; none: nobody
  const std::vector<WhatIf>* what_if = nullptr;      // where they are forecast already
};
// Of a plan of too many micro-batches for `explain` why it is not.
[[nodiscard]] StepExplained explain_step(const StepToExplain& step);

}  // namespace weir::app
