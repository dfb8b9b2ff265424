// What a search's request leaves open, filled in: the degrees that make up its devices, the
// schedules there are, the ways to re-materialise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/job/cluster.hpp"
#include "sim/search/space/space.hpp"

namespace weir {

// Lists that were empty have every choice that can be; the baseline's own are among them. Degrees
// divide the devices (powers of two besides, where fewer may be used); tp stays in a node; K is at
// most the number of layers. v alone stays open: it goes with K (`chunks`).
[[nodiscard]] SweepRequest with_open_choices(SweepRequest request, const Model& model,
                                             const Cluster& cluster);

// v for K ranks: as asked for; or 1, 2 and the divisors of the layers of a rank up to 64, as far as
// there are layers.
[[nodiscard]] std::vector<int> chunks(const SweepRequest& request, const Model& model, int ranks);

// Schedules for K ranks: one rank has nothing to choose, where the choice is the search's.
[[nodiscard]] std::vector<std::size_t> schedules_for(const SweepRequest& request, int ranks);

}  // namespace weir
