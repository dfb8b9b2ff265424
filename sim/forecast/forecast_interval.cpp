// By runs elsewhere where costs are built in, else by the plans that they were calibrated with.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/forecast_interval.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

#include "costmodel/fit/builtin_interval.hpp"
#include "costmodel/fit/intervals.hpp"

namespace weir {
namespace {

StepInterval around(Seconds centre, double half_width, double nominal) {
  return {centre * std::exp(-half_width), centre * std::exp(half_width), nominal};
}

// From the errors of such forecasts on other clusters and stacks. They were all GPUs whose kernels
// are known: of another device they say nothing.
std::optional<BuiltinInterval> interval_elsewhere(const Plan& plan, const Costs& costs,
                                                  const Cluster& cluster) {
  const std::string &name = cluster.name, &stack = cluster.stack.name;
  if (costs.anchor) {
    const LayoutWords words = layout_words(plan, plan.model_sha256);
    return interval_beside(
        nearest(costs.anchor->runs, words), name, stack,
        costs.anchor->stack_named ? SoftwareKnown::named : SoftwareKnown::by_default);
  }
  return builtin_interval(name, stack, BuiltinQuantity::step);
}

void add_builtin_interval(Forecast& f, const Plan& plan, const Costs& costs,
                          const Cluster& cluster) {
  if (!cluster.device.kernels) return;
  const auto interval = interval_elsewhere(plan, costs, cluster);
  if (!interval) return;
  // Runs elsewhere say how far it may be off, and to which side.
  f.interval =
      around(f.step_time * std::exp(interval->centre), interval->half_width, interval->nominal);
  f.interval_source = IntervalSource{interval->rows, interval->clusters, interval->stacks};
  if (cluster.kinds() > 1)
    f.warnings.emplace_back("the interval is of runs on clusters of one kind of nodes each");
}

}  // namespace

void add_basis(Forecast& f, const Plan& plan, const Costs& costs, const Cluster& cluster,
               bool inside_sizes) {
  // Built-in costs were measured on no machine, so no plan of theirs has too many devices for it.
  f.basis = costs.basis;
  if (stands_on_builtin(costs.basis)) return add_builtin_interval(f, plan, costs, cluster);
  if (plan.devices() > cluster.devices()) {
    f.basis = Basis::oversubscribed;
    f.warnings.push_back(
        fmt::format("{} devices needed, {} there: ranks share them evenly, and the result compares "
                    "with nothing",
                    plan.devices(), cluster.devices()));
    return;
  }
  if (plan.replicas() > 1) f.warnings.push_back("dp and cp: what replicas send was not measured");
  if (!costs.interval || plan.replicas() > 1) return;
  if (!cluster.stragglers.empty()) {
    f.warnings.emplace_back("no interval: no run with these stragglers set one");
    return;
  }
  // Nothing is promised outside the range of plans that set the interval.
  const auto why = costs.range ? outside(*costs.range, plan) : std::nullopt;
  if (why) f.warnings.push_back("no interval: " + *why);
  if (why || !inside_sizes) return;
  const double h = half_width(*costs.interval, f.jitter_spread);
  f.interval = around(f.step_time, h, costs.interval->nominal);
}

}  // namespace weir
