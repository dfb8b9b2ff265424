// The search: every combination of what was asked for, made legal, forecast, and ranked.
// sim/search/space says which there are, legality which can be, cost what each costs, ranking which
// is best; this file only walks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/search/baseline.hpp"
#include "sim/search/cost.hpp"
#include "sim/search/ranking.hpp"
#include "sim/search/space.hpp"

namespace weir {

struct SweepResult {
  int candidates = 0;
  int feasible = 0;
  double seconds = 0;
  std::vector<Ranked> plans;              // those that fit or may, best first (sim/search/ranking)
  std::vector<std::string> refused;       // why combinations were left out, each reason once
  std::optional<Ranked> smallest_misfit;  // where nothing fits: the plan that needs least memory
  std::optional<Baseline> baseline;       // where one was asked for and plans fit
};

// Candidate plans, their stages balanced by `known`'s costs (sim/search/balance), which are matched
// here for each of their splits; reasons for those that cannot be are added to `refused`.
[[nodiscard]] std::vector<Plan> candidates(const SweepRequest& request, const Model& model,
                                           SplitCosts& known, const Cluster& cluster,
                                           std::vector<std::string>& refused);

// Every candidate, its boundaries refined for the shortest step (sim/search/refine), forecast and
// ranked.
[[nodiscard]] SweepResult sweep(const SweepRequest& request, const Costs& costs,
                                const Cluster& cluster);

}  // namespace weir
