// Layouts run in turn, and what is said of their times: whatever drifts while they run meets all of
// them alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "plan/words/units.hpp"
#include "traces/stats.hpp"

namespace weir {

struct Rounds {
  int count = 1;
  std::uint64_t seed = 1;
  std::function<void(int done, int of)> progress;  // may be none; of the steps of all rounds
};

// begin() and then each run's step(run), in a fresh random order each round. Both get whether the
// round counts: the first one warms up.
template <class Begin, class Step>
void interleaved(std::size_t runs, const Rounds& rounds, const Begin& begin, const Step& step) {
  std::vector<std::size_t> order(runs);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(rounds.seed);
  const auto steps = static_cast<int>(runs) * (rounds.count + 1);
  int done = 0;
  for (int round = 0; round <= rounds.count; ++round) {
    begin(round > 0);
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t run : order) {
      step(run, round > 0);
      // After each, for a step of a large network takes seconds.
      if (rounds.progress) rounds.progress(++done, steps);
    }
  }
}

template <class Sample>
Seconds median_of(const std::vector<Sample>& samples, Seconds Sample::*part) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back((sample.*part).count());
  return Seconds(median(values));
}

// Interquartile range over the median; nothing of a single value. Precondition: above 0.
inline std::optional<double> spread_of(std::vector<double> values) {
  if (values.size() < 2) return std::nullopt;
  std::ranges::sort(values);
  const auto quantile = [&values](double at) {
    const double place = at * static_cast<double>(values.size() - 1);
    return values[static_cast<std::size_t>(std::lround(place))];
  };
  return (quantile(0.75) - quantile(0.25)) / median(values);
}

}  // namespace weir
