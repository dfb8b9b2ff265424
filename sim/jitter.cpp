// Times a program for many draws of its durations (docs/theory.md 3.3).
// SPDX-License-Identifier: Apache-2.0
#include "sim/jitter.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <variant>

#include "sim/parallel.hpp"

namespace weir {
namespace {

// Inverse of the empirical distribution, linear between its quantiles.
double draw(const std::vector<double>& quantiles, std::mt19937_64& random) {
  // The upper 53 bits fill a double's mantissa: equal steps in [0, 1) on every platform, which
  // std::uniform_real_distribution does not promise.
  const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
  const double place = uniform * static_cast<double>(quantiles.size() - 1);
  // A draw of nearly 1 may round up to the last quantile, which has none above it.
  const auto below = std::min(static_cast<std::size_t>(place), quantiles.size() - 2);
  const double share = place - static_cast<double>(below);
  return quantiles[below] + share * (quantiles[below + 1] - quantiles[below]);
}

}  // namespace

StepDistribution step_distribution(const Program& program, const OperationCosts& costs,
                                   const Contention& contention, const Jitter& jitter,
                                   const JitterRequest& request) {
  std::vector<double> times(static_cast<std::size_t>(request.samples));
  in_parallel(times.size(), [&](std::size_t sample) {
    // A generator of the sample's own: the result does not depend on which thread draws it.
    std::seed_seq seed{request.seed, static_cast<std::uint64_t>(sample)};
    std::mt19937_64 random(seed);
    OperationCosts drawn = costs;
    for (const Rank rank : program.ranks()) {
      for (const OperationId id : program.compute_lane(rank).operations()) {
        const auto& quantiles = jitter[program.op(id).action.kind];
        // Two quantiles at least make a distribution; kinds that were not measured keep their
        // duration.
        if (quantiles.size() < 2) continue;
        std::int64_t& duration = drawn.duration_ns[id];
        duration = std::llround(static_cast<double>(duration) * draw(quantiles, random));
      }
    }
    const auto timing = std::get<Timing>(simulate(program, drawn, contention));
    times[sample] = to_seconds(timing.makespan).count();
  });
  std::ranges::sort(times);
  const auto quantile = [&](double q) {
    return Seconds(
        times[static_cast<std::size_t>(std::llround(q * static_cast<double>(times.size() - 1)))]);
  };
  constexpr double kHigh = 0.8107;  // 0.95 = q^3 (10 - 15 q + 6 q^2)
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  return {request.samples, Seconds(sum / static_cast<double>(times.size())),
          quantile(0.05),  quantile(0.5),
          quantile(0.95),  std::log(quantile(kHigh) / quantile(1 - kHigh)) / 2};
}

}  // namespace weir
