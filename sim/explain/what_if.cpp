// Forecasts changed plans, and puts them in the order of what they bring.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/what_if.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "plan/schedule/generators/generators.hpp"

namespace weir {
namespace {

ResolvedPlan changed(const ResolvedPlan& plan, const Plan& to) {
  Schedule schedule = plan.schedule;
  if (!to.schedule.ends_with(".csv")) {
    schedule =
        std::get<Schedule>(make_schedule(to.schedule, {to.pp, to.vpp, to.microbatches, to.slices}));
  }
  return derive(to, plan.model, std::move(schedule));
}

int group(const WhatIf& row) {
  if (!row.forecast) return 2;
  return row.forecast->may_fit() ? 0 : 1;
}

}  // namespace

std::vector<WhatIf> what_if(const ResolvedPlan& plan, std::vector<Change> changes,
                            const Costs& costs, const Cluster& cluster, const Forecast& base) {
  const auto speed = [](const Plan& of, const Forecast& forecast) {
    return static_cast<double>(of.global_batch_size()) / forecast.step_time.count();
  };
  std::vector<WhatIf> rows;
  for (Change& change : changes) {
    WhatIf& row = rows.emplace_back(WhatIf{std::move(change), {}, 0});
    if (!row.change.refused.empty()) continue;
    row.forecast = forecast(changed(plan, row.change.plan), costs,
                            row.change.cluster ? *row.change.cluster : cluster,
                            {.detail = ForecastDetail::ranking})
                       .forecast;
    row.forecast->memory_limit = base.memory_limit;
    row.gain = speed(row.change.plan, *row.forecast) / speed(plan.plan, base) - 1;
  }
  std::ranges::stable_sort(rows, [](const WhatIf& a, const WhatIf& b) {
    return group(a) != group(b) ? group(a) < group(b) : group(a) == 0 && a.gain > b.gain;
  });
  return rows;
}

}  // namespace weir
