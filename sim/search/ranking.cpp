// Sorts by time, breaks ties by memory.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/ranking.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace weir {

bool goes_before(const Forecast& a, const Forecast& b) {
  if (a.step_time != b.step_time) return a.step_time < b.step_time;
  return a.peak_memory() < b.peak_memory();
}

void rank(std::vector<Ranked>& plans) {
  // Stable: the first found goes first where time and memory are equal.
  std::stable_sort(plans.begin(), plans.end(), [](const Ranked& a, const Ranked& b) {
    return goes_before(a.forecast, b.forecast);
  });
  // By time ascending, on the front is what is smaller than all that is faster.
  Bytes least{std::numeric_limits<std::int64_t>::max()};
  for (Ranked& ranked : plans) {
    ranked.pareto = ranked.forecast.peak_memory() < least;
    least = std::min(least, ranked.forecast.peak_memory());
  }
}

}  // namespace weir
