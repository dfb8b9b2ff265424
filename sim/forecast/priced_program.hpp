// A plan's program with its prices: what is run in virtual time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "costmodel/table/plan_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/program/blocking.hpp"
#include "sim/engine/contention.hpp"
#include "sim/engine/event_engine.hpp"

namespace weir {

// What operations of this plan share: node cards, and devices where there are fewer than ranks.
[[nodiscard]] Contention contention_of(const Program& program, const Plan& plan, const Costs& costs,
                                       const Cluster& cluster);

// What runs, what its operations take, and what they share.
struct PricedProgram {
  // `of` is the plan's program, or that of another way to transfer, and outlives this.
  PricedProgram(const ResolvedPlan& resolved, const Program& of, const LayerCosts& known,
                const Cluster& cluster);
  const Program& program;
  CostTableResult priced;
  OperationCosts costs;
  Contention contention;
};

// Of a plan whose transfers block. Throws InputError where its words do not go with that, and
// NoFeasiblePlan where it deadlocks.
[[nodiscard]] Program blocking_program(const ResolvedPlan& resolved, TransferMode transfers);

// One step.
[[nodiscard]] Timing timed_step(const PricedProgram& run);
// Of steps that follow each other without a barrier, from the makespans of 8 and of 16.
[[nodiscard]] Seconds mean_step(const PricedProgram& run);

}  // namespace weir
