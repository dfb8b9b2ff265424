// Forecasts measured plans by each stack that is compiled in.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/calibrate/likelier_software.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "costmodel/fit/builtin_interval.hpp"
#include "plan/job/assumed_stack.hpp"
#include "sim/forecast/unnamed_software.hpp"
#include "tools/reproduce/known_software.hpp"
#include "traces/stats.hpp"

namespace weir::app {
namespace {

// How far the steps are from the forecasts, to whichever side.
double distance_of(std::vector<double> logs) {
  for (double& log : logs) log = std::abs(log);
  return median(std::move(logs));
}

}  // namespace

std::optional<std::string> likelier_software(std::span<const MeasuredPlan> plans,
                                             const Cluster& cluster) {
  if (!is_assumed(cluster.stack) || !cluster.device.kernels) return std::nullopt;
  std::vector<double> by_default;
  std::map<std::string, std::vector<double>> by_stack;
  for (const MeasuredPlan& one : plans) {
    by_default.push_back(std::log(one.measured / one.forecast));
    const std::vector<Stack> known = known_software(one.plan->plan.dtype);
    for (const StepBy& by : steps_by(*one.plan, cluster, known))
      by_stack[by.stack].push_back(std::log(one.measured / by.step));
  }
  by_stack.erase(cluster.stack.name);
  // Software that runs only some of the plans' number formats is not what ran all of them.
  std::erase_if(by_stack, [&](const auto& entry) { return entry.second.size() < plans.size(); });
  // What forecasts of named software miss is no sign of other software.
  const double named = unnamed_scale(0);
  if (by_stack.empty() || distance_of(by_default) <= named) return std::nullopt;
  // In the order of names, so that of two as near the first is told.
  const auto nearest = std::ranges::min_element(
      by_stack, {}, [](const auto& entry) { return distance_of(entry.second); });
  if (distance_of(nearest->second) > named) return std::nullopt;
  const auto ratio = [](std::vector<double> logs) { return std::exp(median(std::move(logs))); };
  return fmt::format(
      "{} took {:.2f} of the forecast for software that nobody named, which is further off than "
      "named software's are; of what is known {} is nearest ({:.2f}): --stack {}, if it is yours",
      plans.size() == 1 ? "the step" : "the steps", ratio(by_default), nearest->first,
      ratio(nearest->second), nearest->first);
}

}  // namespace weir::app
