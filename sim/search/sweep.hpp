// The search: every combination of what was asked for, made legal, forecast, and ranked.
// sim/search/space/space says which there are, legality which can be, cost what each costs, ranking
// which is best; this file only walks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sim/search/cost.hpp"
#include "sim/search/result.hpp"
#include "sim/search/space/space.hpp"

namespace weir {

// Candidate plans, their stages balanced by `known`'s costs (sim/search/partitions/balance), which
// are matched here for each of their splits; reasons for those that cannot be are added to
// `refused`.
[[nodiscard]] std::vector<Plan> candidates(const SweepRequest& request, const Model& model,
                                           SplitCosts& known, const Cluster& cluster,
                                           std::vector<std::string>& refused);

// Every candidate, its boundaries refined for the shortest step (sim/search/partitions/refine),
// forecast and ranked. Where only the best are wanted, and there are more than some hundreds, the
// others are bounded (sim/search/best_first). Choices left open are filled in.
[[nodiscard]] SweepResult sweep(const SweepRequest& request, const Costs& costs,
                                const Cluster& cluster);

}  // namespace weir
