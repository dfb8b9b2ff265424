// Forecasts changed plans, and puts them in the order of what they bring.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/what_if.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "plan/schedule/generators/generators.hpp"

namespace weir {

ResolvedPlan changed(const ResolvedPlan& plan, const Plan& to) {
  // An order from a file stays: no change of such a plan has another shape.
  Schedule schedule = plan.schedule;
  if (!to.schedule.ends_with(".csv")) {
    schedule =
        std::get<Schedule>(make_schedule(to.schedule, {to.pp, to.vpp, to.microbatches, to.slices}));
  }
  Model model = plan.model;
  set_treatment(model, to);
  return derive(to, std::move(model), std::move(schedule));
}

namespace {

int group(const WhatIf& row) {
  constexpr int kBeyond = 3;
  if (!row.change.beyond.empty()) return row.forecast && row.forecast->may_fit() ? kBeyond : 4;
  if (!row.forecast) return 2;
  return row.forecast->may_fit() ? 0 : 1;
}

void sort(std::vector<WhatIf>& rows) {
  std::ranges::stable_sort(rows, [](const WhatIf& a, const WhatIf& b) {
    // Only what may fit is ordered by its gain; groups 0 and 3 are those.
    return group(a) != group(b) ? group(a) < group(b) : group(a) % 3 == 0 && a.gain > b.gain;
  });
}

}  // namespace

std::vector<WhatIf> what_if(const ResolvedPlan& plan, std::vector<Change> changes,
                            const Costs& costs, const Cluster& cluster, const Forecast& base,
                            const std::function<bool()>& over) {
  const auto speed = [](const Plan& of, const Forecast& forecast) {
    return static_cast<double>(of.global_batch_size()) / forecast.step_time.count();
  };
  std::vector<WhatIf> rows;
  for (Change& change : changes) {
    if (over && over()) break;
    WhatIf& row = rows.emplace_back(WhatIf{std::move(change), {}, 0});
    if (!row.change.refused.empty()) continue;
    row.forecast = forecast(changed(plan, row.change.plan), costs,
                            row.change.cluster ? *row.change.cluster : cluster,
                            {.detail = ForecastDetail::ranking})
                       .forecast;
    // Judged by the same limit as the plan it is compared with.
    row.forecast->memory_limit = base.memory_limit;
    // Changes may alter the mini-batch, so samples a second are compared and not steps.
    row.gain = speed(row.change.plan, *row.forecast) / speed(plan.plan, base) - 1;
  }
  sort(rows);
  return rows;
}

void mark_beyond(std::vector<WhatIf>& rows, const Plan& plan, const StackAbilities& software) {
  const auto own = beyond(software, plan);
  for (WhatIf& row : rows) {
    // What the plan itself already lacks is no news of a change.
    const auto lacking = beyond(software, row.change.plan);
    row.change.beyond = lacking && lacking != own ? *lacking : std::string();
  }
  sort(rows);
}

}  // namespace weir
