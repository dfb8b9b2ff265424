// The schedule of a plan: the shortest forecast of what sim/synthesis finds and of what is
// published, within the devices' memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "costmodel/memory/fits.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "sim/synthesis/synthesise.hpp"

namespace weir {

// The plan's stages at its boundaries on a shape's ranks. A message takes its occupancy and its
// latency. Room: what a rank's memory leaves beside what its stages hold, the largest backward and
// receive slots; a stage's micro-batch keeps what its F leaves. No limit (0): room for all.
[[nodiscard]] SynthesisProblem synthesis_problem(const Plan& plan, const LayerCosts& known,
                                                 const Cluster& cluster, const ScheduleShape& shape,
                                                 Bytes limit);

struct ChosenSchedule {
  Schedule schedule;
  int slots = 2;
  Seconds step{0};        // forecast
  Fits fits = Fits::yes;  // no: even the one that keeps the least does not fit
  double gap = 0;         // of its order to a bound on all orders, links and slots aside
  int compared = 0;       // schedules forecast
};

// Of the orders for one shape. Where the forecast of what was synthesised does not fit, again with
// as much less room. nullopt: no order keeps to the room.
[[nodiscard]] std::optional<ChosenSchedule> shortest_schedule(
    const Plan& plan, const LayerCosts& known, const Cluster& cluster, const ScheduleShape& shape,
    Bytes limit, const SynthesisEffort& effort = {});

// "schedule: zb-h1, the shortest of 9, optimal" or "..., at most 2.1 % above the best order".
[[nodiscard]] std::string describe(const ChosenSchedule& chosen);

}  // namespace weir
