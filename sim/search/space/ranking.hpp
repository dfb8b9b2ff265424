// The order of what a search found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "plan/job/plan.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/unnamed_software.hpp"

namespace weir {

struct Ranked {
  Plan plan;
  Forecast forecast;
  double gap = 0;       // step time over its lower bound, minus 1
  bool pareto = false;  // no other plan is both faster and smaller
  // Its step by the software that is known, where the request has any.
  std::optional<StepRange> range{};
};

// The order of a ranking: what fits before what may fit; then fastest, then smallest.
[[nodiscard]] bool goes_before(const Forecast& a, const Forecast& b);

// Best first, where all is equal the first given; and marks the Pareto front.
void rank(std::vector<Ranked>& plans);

}  // namespace weir
