// Fits costs to measured runs: corrections by kind of action and of what any micro-batch size takes
// in turn (docs/theory.md 8.3), then overheads, jitter and the slowdown by transfers.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
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

// How many equal observations say as much as these (Kish, Survey Sampling, 1965).
double effective_number(const std::vector<Weighted>& values) {
  double sum = 0, squares = 0;
  for (const auto& [value, weight] : values) {
    sum += weight;
    squares += weight * weight;
  }
  return sum * sum / squares;
}

using KindKey = std::pair<ActionKind, bool>;  // and whether alone

// Additive in logs: an observation is what its kind shows plus what the factor of the fixed part
// makes of it. The two are fitted in turn (backfitting), each to what the other leaves, until they
// stand still. Each observation counts by its time, which is what forecasts are of.
struct Locations {
  std::map<KindKey, double> kinds;
  double fixed = 1;  // factor
};

double kind_effect(const KindObservation& o, const Locations& at) {
  return at.kinds.at({o.kind, o.alone});
}
double fixed_effect(const KindObservation& o, double factor) {
  return std::log1p((factor - 1) * o.fixed);
}

std::vector<Weighted> of_kind(const Observations& seen, const Locations& at, KindKey key) {
  std::vector<Weighted> values;
  for (const KindObservation& o : seen.kinds) {
    if (KindKey(o.kind, o.alone) == key)
      values.emplace_back(o.log_ratio - fixed_effect(o, at.fixed), o.time.count());
  }
  return values;
}

double huber_loss(double residual) {
  const double size = std::abs(residual);
  return size < kHuberThreshold ? size * size / 2 : kHuberThreshold * (size - kHuberThreshold / 2);
}

// The factor that leaves the least: Huber's loss of the residuals over their spread, and how far
// its logarithm is from 0, where it is expected within 0.5.
double fit_fixed(const Observations& seen, const Locations& at) {
  constexpr double kExpectedWithin = 0.5;
  std::vector<Weighted> now;
  for (const KindObservation& o : seen.kinds) {
    const double left = o.log_ratio - kind_effect(o, at) - fixed_effect(o, at.fixed);
    now.emplace_back(left, o.time.count());
  }
  double times = 0;
  for (const auto& [left, time] : now) times += time;
  const double weight = effective_number(now) / times;  // of a second
  const double spread = std::max(1e-3, 1.4826 * median_distance(std::move(now), 0));
  const auto loss = [&](double log_factor) {
    double sum = std::pow(log_factor / kExpectedWithin, 2) / 2;
    for (const KindObservation& o : seen.kinds) {
      const double left = o.log_ratio - kind_effect(o, at) - fixed_effect(o, std::exp(log_factor));
      sum += weight * o.time.count() * huber_loss(left / spread);
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
  return std::exp(best);
}

Locations fit_locations(const Observations& seen) {
  Locations at;
  std::set<int> sizes;
  for (const KindObservation& o : seen.kinds) {
    at.kinds[{o.kind, o.alone}] = 0;
    sizes.insert(o.micro_batch_size);
  }
  for (int round = 0; round < 100; ++round) {
    double moved = 0;
    for (auto& [key, location] : at.kinds) {
      const double next = huber_location(of_kind(seen, at, key));
      moved = std::max(moved, std::abs(next - location));
      location = next;
    }
    // Runs of one size do not tell the two parts apart.
    const double next = sizes.size() < 2 ? 1 : fit_fixed(seen, at);
    moved = std::max(moved, std::abs(std::log(next / at.fixed)));
    at.fixed = next;
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
  const auto add = [&quality](std::string name, double location,
                              const std::vector<Weighted>& values) {
    quality.push_back({std::move(name), std::exp(location), static_cast<int>(values.size()),
                       median_distance(values, location)});
  };
  for (const auto& [key, location] : at.kinds) {
    add(std::string(to_string(key.first)) + (key.second ? " alone" : ""), location,
        of_kind(seen, at, key));
  }
  std::vector<Weighted> left;
  for (const KindObservation& o : seen.kinds) {
    if (o.fixed > 0)
      left.emplace_back(o.log_ratio - kind_effect(o, at) - fixed_effect(o, at.fixed),
                        o.time.count());
  }
  if (at.fixed != 1) add("fixed", std::log(at.fixed), left);
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
  const Locations at = fit_locations(seen);
  Calibration result{base, quality_of(seen, at)};
  result.costs.basis = Basis::calibrated;
  // What is learnt with K > 1 holds for all, and K = 1 differs from it by its own factor.
  std::map<ActionKind, double> busy, alone;
  for (const auto& [key, location] : at.kinds) (key.second ? alone : busy)[key.first] = location;
  lend_to_relatives(busy);
  lend_to_relatives(alone);
  for (auto& [kind, location] : alone) {
    if (const auto found = busy.find(kind); found != busy.end()) location -= found->second;
  }
  for (const auto& [kind, location] : busy) result.costs.correction[kind] *= std::exp(location);
  for (const auto& [kind, location] : alone) result.costs.alone[kind] *= std::exp(location);
  result.costs.fixed = base.fixed * at.fixed;
  result.costs.host_overhead = Seconds(seen.host_gap_s.empty() ? 0 : median(seen.host_gap_s));
  result.costs.step_overhead = Seconds(std::max(0.0, median(seen.step_gap_s)));
  result.costs.interval.reset();
  result.costs.jitter = jitter_of(seen.scatter);
  if (const double slowdown = slowdown_of(seen.overlapped); slowdown > 0)
    result.costs.overlap.compute = slowdown;
  CalibratedRange range = base.range.value_or(CalibratedRange{});
  for (const CalibrationRun& run : runs) range = widened(range, run.plan->plan);
  result.costs.range = range;
  for (const CalibrationRun& run : runs) {
    const Disturbance its = disturbance_of(*run.measured);
    auto& worst = result.costs.disturbance;
    worst = worst ? worse_of(*worst, its) : its;
  }
  return result;
}

}  // namespace weir
