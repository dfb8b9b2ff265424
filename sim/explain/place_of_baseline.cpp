// A baseline is counted once: as the plan that was found and is it, or besides them.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/place_of_baseline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "sim/explain/plan_changes.hpp"

namespace weir {

bool is_beaten_by_none(const SweepResult& result) {
  return result.baseline && result.baseline->ratio && *result.baseline->ratio < 1 &&
         result.baseline->place == 1;
}

std::string place_in_words(const SweepResult& result) {
  if (!result.baseline || !result.baseline->place) return "";
  const auto place = static_cast<std::size_t>(*result.baseline->place);
  const std::size_t found = result.plans.size();
  // Not every plan that fits is kept by a search with bounds: behind those kept may be thousands.
  if (result.effort && place > found) {
    return found == 1 ? std::string("slower than the best")
                      : fmt::format("slower than the {} best", found);
  }
  const bool is_one = std::ranges::any_of(result.plans, [&](const Ranked& plan) {
    return step_changes(plan.plan, result.baseline->ranked.plan).empty();
  });
  return fmt::format("place {} among {} plans", place, found + (is_one ? 0 : 1));
}

std::string devices_in_words(const Baseline& baseline, const Ranked& best) {
  const int own = baseline.ranked.forecast.devices, its = best.forecast.devices;
  return own == its ? "on as many devices"
                    : fmt::format("on {} devices where that has {}", own, its);
}

}  // namespace weir
