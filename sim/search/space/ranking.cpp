// Sorts by whether it fits, then by time, and breaks ties by memory.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/ranking.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace weir {

bool goes_before(const Forecast& a, const Forecast& b) {
  if (a.fits() != b.fits()) return a.fits() < b.fits();
  if (a.step_time != b.step_time) return a.step_time < b.step_time;
  return a.peak_memory() < b.peak_memory();
}

void rank(std::vector<Ranked>& plans) {
  // Stable: the first found goes first where time and memory are equal.
  std::stable_sort(plans.begin(), plans.end(), [](const Ranked& a, const Ranked& b) {
    return goes_before(a.forecast, b.forecast);
  });
  // By time ascending, whether it surely fits or not, on the front is what is smaller than all that
  // is faster.
  std::vector<Ranked*> by_time;
  for (Ranked& ranked : plans) by_time.push_back(&ranked);
  std::ranges::stable_sort(by_time, [](const Ranked* a, const Ranked* b) {
    return std::pair(a->forecast.step_time, a->forecast.peak_memory()) <
           std::pair(b->forecast.step_time, b->forecast.peak_memory());
  });
  Bytes least{std::numeric_limits<std::int64_t>::max()};
  for (Ranked* ranked : by_time) {
    ranked->pareto = ranked->forecast.peak_memory() < least;
    least = std::min(least, ranked->forecast.peak_memory());
  }
}

}  // namespace weir
