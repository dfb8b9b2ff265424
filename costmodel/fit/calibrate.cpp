// Fits costs to measured runs: corrections by kind of action and of what any micro-batch size takes
// in turn (docs/theory.md 8.3), then overheads, jitter and the slowdown by transfers.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "traces/stats.hpp"

namespace weir {
namespace {

double median_distance(std::vector<Weighted> values, double location) {
  for (auto& [value, weight] : values) value = std::abs(value - location);
  return weighted_median(std::move(values));
}

// Iteratively reweighted least squares for a location: beside its own, an observation has weight 1
// within the threshold, threshold / |residual| beyond.
double huber_location(const std::vector<Weighted>& values) {
  double location = weighted_median(values);
  for (int iteration = 0; iteration < 50; ++iteration) {
    // 1.4826 makes a median distance the standard deviation of normal errors.
    const double spread = 1.4826 * median_distance(values, location);
    const double threshold = kHuberThreshold * std::max(spread, 1e-6);
    double sum = 0, weights = 0;
    for (const auto& [value, own] : values) {
      const double weight = own * threshold / std::max(threshold, std::abs(value - location));
      sum += weight * value;
      weights += weight;
    }
    const double next = sum / weights;
    if (std::abs(next - location) < 1e-9) return next;
    location = next;
  }
  return location;
}

// How many equal runs say as much as these (Kish, Survey Sampling, 1965).
double effective_number(const std::map<std::size_t, double>& weights) {
  double sum = 0, squares = 0;
  for (const auto& [run, weight] : weights) {
    sum += weight;
    squares += weight * weight;
  }
  return sum * sum / squares;
}

// Additive in logs: an observation is what its kind shows, what the kind's factor of quiet
// neighbours makes of it and what the factor of the fixed part does. They are fitted in turn
// (backfitting), each to what the others leave, until they stand still. Each observation counts by
// its time, which is what forecasts are of.
struct Locations {
  std::map<ActionKind, double> kinds, alone;  // logarithms
  double fixed = 0;                           // likewise
};

double alone_effect(const KindObservation& o, double log_factor) { return o.quiet * log_factor; }
double fixed_effect(const KindObservation& o, double log_factor) {
  return std::log1p(std::expm1(log_factor) * o.fixed);
}

// What the three leave of an observation.
double left_of(const KindObservation& o, const Locations& at) {
  return o.log_ratio - at.kinds.at(o.kind) - alone_effect(o, at.alone.at(o.kind)) -
         fixed_effect(o, at.fixed);
}

std::vector<const KindObservation*> of_kind(const Observations& seen, ActionKind kind) {
  std::vector<const KindObservation*> found;
  for (const KindObservation& o : seen.kinds) {
    if (o.kind == kind) found.push_back(&o);
  }
  return found;
}

double huber_loss(double residual) {
  const double size = std::abs(residual);
  return size < kHuberThreshold ? size * size / 2 : kHuberThreshold * (size - kHuberThreshold / 2);
}

// A factor of which some observations have more than others.
struct SharedFactor {
  double log_now = 0;
  double expected_within = 0;  // its logarithm of 0
  double (*effect)(const KindObservation& o, double log_factor) = nullptr;
};

// Its logarithm that leaves the least: Huber's loss of the residuals over their spread, and how far
// it is from 0. A run has one plan and one pace of the machine for all its stages and kinds, so as
// many are counted as there are runs, and the spread is at least what runs of one plan differ by.
double fit_factor(const std::vector<const KindObservation*>& seen, const Locations& at,
                  const SharedFactor& factor) {
  constexpr double kRunsDiffer = 0.01;
  struct Left {
    const KindObservation* of;
    double all;  // without this factor
  };
  std::vector<Left> left;
  std::vector<Weighted> now;
  std::map<std::size_t, double> of_run;
  double times = 0;
  for (const KindObservation* o : seen) {
    const double time = o->time.count(), residual = left_of(*o, at);
    left.push_back({o, residual + factor.effect(*o, factor.log_now)});
    now.emplace_back(residual, time);
    of_run[o->run] += time;
    times += time;
  }
  const double weight = effective_number(of_run) / times;  // of a second
  const double spread = std::max(kRunsDiffer, 1.4826 * median_distance(std::move(now), 0));
  const auto loss = [&](double log_factor) {
    double sum = std::pow(log_factor / factor.expected_within, 2) / 2;
    for (const auto& [o, all] : left) {
      const double residual = all - factor.effect(*o, log_factor);
      sum += weight * o->time.count() * huber_loss(residual / spread);
    }
    return sum;
  };
  // Downhill by steps that are halved where neither side is lower.
  double best = 0;
  for (double step = 0.25; step > 1e-9;) {
    const double here = loss(best);
    if (loss(best + step) < here) {
      best += step;
    } else if (loss(best - step) < here) {
      best -= step;
    } else {
      step /= 2;
    }
  }
  return best;
}

// Whether the observations differ in what `of` says of them: where not, nothing tells its factor.
template <class Of>
bool differ(const std::vector<const KindObservation*>& seen, Of of) {
  return std::ranges::any_of(seen,
                             [&](const KindObservation* o) { return of(*o) != of(*seen[0]); });
}

Locations fit_locations(const Observations& seen) {
  constexpr double kFixedWithin = 0.5, kAloneWithin = 0.1;
  Locations at;
  std::vector<const KindObservation*> all;
  for (const KindObservation& o : seen.kinds) {
    at.kinds[o.kind] = at.alone[o.kind] = 0;
    all.push_back(&o);
  }
  const bool tells_fixed = differ(all, [](const auto& o) { return o.micro_batch_size; });
  // Coordinate descent: each factor in turn with the others as they are, until none moves.
  for (int round = 0; round < 100; ++round) {
    double moved = 0;
    const auto move = [&moved](double& from, double to) {
      moved = std::max(moved, std::abs(to - from));
      from = to;
    };
    for (auto& [kind, location] : at.kinds) {
      const auto its = of_kind(seen, kind);
      // With what the other factors explain taken off.
      std::vector<Weighted> values;
      for (const KindObservation* o : its)
        values.emplace_back(left_of(*o, at) + location, o->time.count());
      move(location, huber_location(values));
      double& alone = at.alone.at(kind);
      // Where all runs are alike in it, nothing tells this factor from the kind's own.
      if (differ(its, [](const auto& o) { return o.quiet; }))
        move(alone, fit_factor(its, at, {alone, kAloneWithin, alone_effect}));
    }
    if (tells_fixed) move(at.fixed, fit_factor(all, at, {at.fixed, kFixedWithin, fixed_effect}));
    if (moved < 1e-7) break;
  }
  return at;
}

// A kind that no run had takes its nearest relative's: R that of F, and I and W that of B.
void lend_to_relatives(std::map<ActionKind, double>& locations) {
  const std::pair<ActionKind, ActionKind> relatives[] = {{ActionKind::R, ActionKind::F},
                                                         {ActionKind::I, ActionKind::B},
                                                         {ActionKind::W, ActionKind::B}};
  for (const auto& [kind, relative] : relatives) {
    if (const auto known = locations.find(relative); known != locations.end())
      locations.emplace(kind, known->second);
  }
}

std::vector<FitQuality> quality_of(const Observations& seen, const Locations& at) {
  std::vector<FitQuality> quality;
  // Of the observations that have a part of the factor.
  const auto add = [&](std::string name, double log_factor, auto has_part) {
    std::vector<Weighted> left;
    for (const KindObservation& o : seen.kinds) {
      if (has_part(o)) left.emplace_back(left_of(o, at), o.time.count());
    }
    const auto count = static_cast<int>(left.size());
    quality.push_back(
        {std::move(name), std::exp(log_factor), count, median_distance(std::move(left), 0)});
  };
  for (const auto& [kind, location] : at.kinds) {
    const auto of_it = [kind = kind](const KindObservation& o) { return o.kind == kind; };
    const std::string name(to_string(kind));
    add(name, location, of_it);
    if (at.alone.at(kind) == 0) continue;
    add(name + " alone", at.alone.at(kind),
        [&](const KindObservation& o) { return of_it(o) && o.quiet > 0; });
  }
  if (at.fixed != 0) add("fixed", at.fixed, [](const KindObservation& o) { return o.fixed > 0; });
  return quality;
}

// Quantiles at 0, 5, ..., 100 %; nothing where there are too few observations to tell them apart.
Jitter jitter_of(const PerKind<std::vector<double>>& scatter) {
  constexpr std::size_t kSteps = 20;
  Jitter jitter;
  for (const ActionKind kind : kComputeKinds) {
    std::vector<double> ratios = scatter[kind];
    if (ratios.size() <= kSteps) continue;
    std::sort(ratios.begin(), ratios.end());
    for (std::size_t q = 0; q <= kSteps; ++q)
      jitter[kind].push_back(ratios[q * (ratios.size() - 1) / kSteps]);
  }
  return jitter;
}

// An action of which a share x ran beside a transfer at 1 - s of its speed does free / time = 1 - s
// x of its work: least squares through the origin for s. Too few such actions say nothing.
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

Calibration calibrate(const Costs& base, std::span<const CalibrationRun> runs,
                      const Cluster& cluster) {
  const Observations seen = observe(base, runs, cluster);
  Locations at = fit_locations(seen);
  Calibration result{base, quality_of(seen, at)};
  result.costs.basis = Basis::calibrated;
  lend_to_relatives(at.kinds);
  lend_to_relatives(at.alone);
  for (const auto& [kind, location] : at.kinds) result.costs.correction[kind] *= std::exp(location);
  for (const auto& [kind, location] : at.alone) result.costs.alone[kind] *= std::exp(location);
  result.costs.fixed = base.fixed * std::exp(at.fixed);
  // A median: a single interruption by the kernel is no overhead.
  result.costs.host_overhead = Seconds(seen.host_gap_s.empty() ? 0 : median(seen.host_gap_s));
  result.costs.step_overhead = Seconds(std::max(0.0, median(seen.step_gap_s)));
  result.costs.interval.reset();
  result.costs.jitter = jitter_of(seen.scatter);
  if (const double slowdown = slowdown_of(seen.overlapped); slowdown > 0)
    result.costs.overlap.compute = slowdown;
  CalibratedRange range = base.range.value_or(CalibratedRange{});
  // What was run before stays in the range: a second calibration widens it.
  for (const CalibrationRun& run : runs) range = widened(range, run.plan->plan);
  result.costs.range = range;
  for (const CalibrationRun& run : runs) {
    const Disturbance its = disturbance_of(*run.measured);
    // The most disturbed of the runs is told: a forecast is no surer than that.
    auto& worst = result.costs.disturbance;
    worst = worst ? worse_of(*worst, its) : its;
  }
  return result;
}

}  // namespace weir
