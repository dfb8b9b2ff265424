// What one change would bring: each changed plan forecast, as it would be by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/job/stack_abilities.hpp"
#include "sim/explain/changes.hpp"
#include "sim/forecast/forecast.hpp"

namespace weir {

struct WhatIf {
  Change change;
  std::optional<Forecast> forecast;  // none: the change cannot be
  double gain = 0;                   // samples in the same time, over the plan's own, minus 1
};

// The plan changed: with the schedule that it names, or, of a file, with the plan's.
[[nodiscard]] ResolvedPlan changed(const ResolvedPlan& plan, const Plan& to);

// The forecast of every change that can be, those that gain most first; behind them, in their own
// order, those that do not fit `base`'s memory limit, then those that cannot be. `base` is the
// plan's own forecast. `costs` must know every way to split layers that a change has: the plan's,
// with and without sequence parallelism. `over` is asked before each change: from where it says yes
// on they are left out.
[[nodiscard]] std::vector<WhatIf> what_if(const ResolvedPlan& plan, std::vector<Change> changes,
                                          const Costs& costs, const Cluster& cluster,
                                          const Forecast& base,
                                          const std::function<bool()>& over = {});

// Sets what of each change the software has not and the plan as it is neither, and puts such
// changes last, in the same order.
void mark_beyond(std::vector<WhatIf>& rows, const Plan& plan, const StackAbilities& software);

}  // namespace weir
