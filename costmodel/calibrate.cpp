// SPDX-License-Identifier: Apache-2.0
#include "costmodel/calibrate.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "plan/program.hpp"

namespace weir {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Iteratively reweighted least squares for a location: weight 1 within the threshold, threshold / |residual| beyond.
double huber_location(const std::vector<double>& values) {
  const Eigen::Map<const Eigen::ArrayXd> x(values.data(), static_cast<Eigen::Index>(values.size()));
  double location = median(values);
  for (int iteration = 0; iteration < 50; ++iteration) {
    const Eigen::ArrayXd residual = (x - location).abs();
    const double spread = 1.4826 * median({residual.begin(), residual.end()});
    const double threshold = 1.345 * std::max(spread, 1e-6);
    const Eigen::ArrayXd weight = (residual <= threshold).select(1.0, threshold / residual);
    const double next = (weight * x).sum() / weight.sum();
    if (std::abs(next - location) < 1e-9) return next;
    location = next;
  }
  return location;
}

struct Observations {
  std::map<std::pair<ActionKind, bool>, std::vector<double>> log_ratio;  // by kind and "alone" (K = 1)
  std::vector<double> host_gap_s;
  std::vector<double> step_gap_s;
};

Nanoseconds predicted(const StageCost& cost, ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
      return cost.f;
    case ActionKind::B:
      return cost.b;
    case ActionKind::I:
      return cost.i;
    case ActionKind::W:
      return cost.w;
    case ActionKind::R:
      return cost.r;
    case ActionKind::OPTIMIZER:
      return cost.optimizer;
    default:
      return Nanoseconds(0);
  }
}

void observe(const CalibrationRun& run, const Costs& base, const Cluster& cluster, Observations& seen) {
  const Program program = lower(*run.plan);
  const CostTableResult table = cost_table(*run.plan, base, cluster);
  const std::size_t count = program.operations.size();
  std::map<std::pair<std::int32_t, ActionKind>, std::vector<double>> durations;
  for (std::size_t step = 0; step < run.measured->steps.size(); ++step) {
    const std::span<const Span> spans(&run.measured->spans[step * count], count);
    Nanoseconds last{0};
    for (const Lane& lane : program.lanes) {
      if (lane.kind != LaneKind::compute) continue;
      for (OperationId id = lane.first; id < lane.last; ++id) {
        const Span& span = spans[static_cast<std::size_t>(id)];
        durations[{span.action.stage.value, span.action.kind}].push_back(to_seconds(span.duration()).count());
        last = std::max(last, span.end);
        if (id == lane.first) continue;
        Nanoseconds ready = spans[static_cast<std::size_t>(id) - 1].end;
        for (const Dependency& d : program.predecessors(id)) {
          ready = std::max(ready, spans[static_cast<std::size_t>(d.before)].end);
        }
        seen.host_gap_s.push_back(to_seconds(std::max(span.start - ready, Nanoseconds(0))).count());
      }
    }
    seen.step_gap_s.push_back(to_seconds(run.measured->steps[step].end - last).count());
  }
  for (auto& [key, values] : durations) {
    const double expected =
        to_seconds(predicted(table.table.stages[static_cast<std::size_t>(key.first)], key.second)).count();
    const double measured = median(std::move(values));
    if (expected <= 0 || measured <= 0) continue;
    seen.log_ratio[{key.second, run.plan->plan.pp == 1}].push_back(std::log(measured / expected));
  }
}

double* factor_of(Correction& correction, ActionKind kind) {
  switch (kind) {
    case ActionKind::F:
      return &correction.f;
    case ActionKind::B:
      return &correction.b;
    case ActionKind::I:
      return &correction.i;
    case ActionKind::W:
      return &correction.w;
    case ActionKind::R:
      return &correction.r;
    case ActionKind::OPTIMIZER:
      return &correction.optimizer;
    default:
      return nullptr;
  }
}

// Location of the log ratios of each kind, of runs with K = 1 (`alone`) or of the others. A kind that no run had takes
// its nearest relative's: R that of F, and I and W that of B.
std::map<ActionKind, double> fit(const Observations& seen, bool alone, std::vector<FitQuality>& quality) {
  std::map<ActionKind, double> locations;
  for (const auto& [key, ratios] : seen.log_ratio) {
    if (key.second != alone) continue;
    const double location = huber_location(ratios);
    std::vector<double> residuals;
    for (const double ratio : ratios) residuals.push_back(std::abs(ratio - location));
    quality.push_back({std::string(to_string(key.first)) + (alone ? " alone" : ""), std::exp(location),
                       static_cast<int>(ratios.size()), median(residuals)});
    locations[key.first] = location;
  }
  const std::pair<ActionKind, ActionKind> relatives[] = {
      {ActionKind::R, ActionKind::F}, {ActionKind::I, ActionKind::B}, {ActionKind::W, ActionKind::B}};
  for (const auto& [kind, relative] : relatives) {
    if (const auto known = locations.find(relative); known != locations.end()) locations.emplace(kind, known->second);
  }
  return locations;
}

}  // namespace

Calibration calibrate(const Costs& base, std::span<const CalibrationRun> runs, const Cluster& cluster) {
  Observations seen;
  for (const CalibrationRun& run : runs) observe(run, base, cluster, seen);
  Calibration result{base, {}};
  result.costs.basis = Basis::calibrated;
  // K > 1 first: what is learnt there holds for all, and K = 1 differs from it by its own factor.
  const auto busy = fit(seen, false, result.quality);
  auto alone = fit(seen, true, result.quality);
  for (auto& [kind, location] : alone) {
    if (const auto found = busy.find(kind); found != busy.end()) location -= found->second;
  }
  for (const auto& [kind, location] : busy) *factor_of(result.costs.correction, kind) *= std::exp(location);
  for (const auto& [kind, location] : alone) *factor_of(result.costs.alone, kind) *= std::exp(location);
  result.costs.host_overhead = Seconds(median(seen.host_gap_s));
  result.costs.step_overhead = Seconds(std::max(0.0, median(seen.step_gap_s)));
  result.costs.interval.reset();
  CalibratedRange range = base.range.value_or(CalibratedRange{});
  for (const CalibrationRun& run : runs) range = widened(range, run.plan->plan);
  result.costs.range = range;
  return result;
}

}  // namespace weir
