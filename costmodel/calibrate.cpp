// SPDX-License-Identifier: Apache-2.0
#include "costmodel/calibrate.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "plan/program.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

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
  std::map<ActionKind, std::vector<double>> scatter;  // duration / median of the same stage's actions of this kind
  std::vector<std::pair<double, double>> overlapped;  // share of an action beside a transfer, and 1 - free / its time
};

// The share of an interval during which any transfer of its rank was under way; transfers ascend in start.
double share_beside(const Span& span, const std::vector<std::pair<Nanoseconds, Nanoseconds>>& transfers) {
  Nanoseconds covered{0}, until = span.start;
  for (const auto& [start, end] : transfers) {
    if (start >= span.end) break;
    const Nanoseconds from = std::max(start, until), to = std::min(end, span.end);
    if (to <= from) continue;
    covered += to - from;
    until = to;
  }
  return span.duration().count() > 0
             ? static_cast<double>(covered.count()) / static_cast<double>(span.duration().count())
             : 0;
}

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

void note_scatter(ActionKind kind, const std::vector<double>& durations, const std::vector<double>& beside,
                  double middle, Observations& seen) {
  constexpr double kHardly = 0.05;
  std::vector<double> alone;
  for (std::size_t i = 0; i < durations.size(); ++i) {
    seen.scatter[kind].push_back(durations[i] / middle);
    if (beside[i] < kHardly) alone.push_back(durations[i]);
  }
  if (alone.empty()) return;
  const double free = median(std::move(alone));
  for (std::size_t i = 0; i < durations.size(); ++i) {
    if (beside[i] >= kHardly && durations[i] > 0) seen.overlapped.emplace_back(beside[i], 1 - free / durations[i]);
  }
}

void observe(const CalibrationRun& run, const Costs& base, const Cluster& cluster, Observations& seen) {
  const Program program = lower(*run.plan);
  const CostTableResult table = cost_table(*run.plan, base, cluster);
  const std::size_t count = program.operations.size();
  std::map<std::pair<std::int32_t, ActionKind>, std::vector<double>> durations, beside;  // in the same order
  for (std::size_t step = 0; step < run.measured->steps.size(); ++step) {
    const std::span<const Span> spans(&run.measured->spans[step * count], count);
    Nanoseconds last{0};
    std::vector<std::vector<std::pair<Nanoseconds, Nanoseconds>>> transfers(
        static_cast<std::size_t>(program.shape.ranks));
    for (const Span& span : spans) {
      if (span.lane == LaneKind::send || span.lane == LaneKind::receive)
        transfers[static_cast<std::size_t>(span.rank.value)].emplace_back(span.start, span.end);
    }
    for (auto& of_rank : transfers) std::sort(of_rank.begin(), of_rank.end());
    for (const Lane& lane : program.lanes) {
      if (lane.kind != LaneKind::compute) continue;
      for (OperationId id = lane.first; id < lane.last; ++id) {
        const Span& span = spans[static_cast<std::size_t>(id)];
        const std::pair key{span.action.stage.value, span.action.kind};
        durations[key].push_back(to_seconds(span.duration()).count());
        beside[key].push_back(share_beside(span, transfers[static_cast<std::size_t>(lane.rank.value)]));
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
    const double measured = median(values);
    if (measured > 0) note_scatter(key.second, values, beside[key], measured, seen);
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

// Quantiles at 0, 5, ..., 100 %; nothing where there are too few observations to tell them apart.
Jitter jitter_of(std::map<ActionKind, std::vector<double>> scatter) {
  constexpr std::size_t kSteps = 20;
  Jitter jitter;
  for (auto& [kind, ratios] : scatter) {
    if (ratios.size() <= kSteps) continue;
    std::sort(ratios.begin(), ratios.end());
    for (std::size_t q = 0; q <= kSteps; ++q) jitter[kind].push_back(ratios[q * (ratios.size() - 1) / kSteps]);
  }
  return jitter;
}

// An action of which a share x ran beside a transfer at 1 - s of its speed does free / time = 1 - s x of its work:
// least squares through the origin for s. Too few such actions say nothing.
double slowdown_of(const std::vector<std::pair<double, double>>& overlapped) {
  constexpr std::size_t kFewest = 20;
  constexpr double kMost = 0.95;
  if (overlapped.size() < kFewest) return 0;
  double xy = 0, xx = 0;
  for (const auto& [x, y] : overlapped) {
    xy += x * y;
    xx += x * x;
  }
  return std::clamp(xy / xx, 0.0, kMost);
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
  result.costs.host_overhead = Seconds(seen.host_gap_s.empty() ? 0 : median(seen.host_gap_s));
  result.costs.step_overhead = Seconds(std::max(0.0, median(seen.step_gap_s)));
  result.costs.interval.reset();
  result.costs.jitter = jitter_of(std::move(seen.scatter));
  if (const double slowdown = slowdown_of(seen.overlapped); slowdown > 0) result.costs.overlap.compute = slowdown;
  CalibratedRange range = base.range.value_or(CalibratedRange{});
  for (const CalibrationRun& run : runs) range = widened(range, run.plan->plan);
  result.costs.range = range;
  return result;
}

}  // namespace weir
