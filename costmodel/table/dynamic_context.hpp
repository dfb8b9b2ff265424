// What a plan of dynamic context parallelism takes, whose sequences each have devices of their own
// (docs/theory.md 5.14): each is priced as a row of a plan with as much context parallelism, and
// steps of them are dealt as the trainer deals them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "costmodel/table/cost_table.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "costmodel/table/per_cause.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/words/per_kind.hpp"

namespace weir {

// The plan of one sequence of so many tokens on so many of its cp x dp devices, among as many that
// hold the same weights. Precondition: `devices` divides them.
[[nodiscard]] Plan of_sequence(const Plan& plan, std::int64_t tokens, int devices);

// The fullest that a device becomes: of the sequences that have as many tokens a device as any, one
// on the most devices, whose exchanges take room too.
[[nodiscard]] Plan of_fullest_sequence(const Plan& plan);

struct DynamicCosts {
  // Of a micro-batch on average, so that M of them are a step; the update and its gathers as `own`
  // had them. In `unlike`, and with it in `reduce`, is what devices wait for each other a step.
  StageCost stage;
  PerKind<PerCause<Seconds>> parts;  // of its passes, in proportion
};
// Of the plan's one stage, whose costs are `own` but for how its sequences are computed. Throws
// InputError where the costs are none that are built in: measured ones are of whole rows.
[[nodiscard]] DynamicCosts dynamic_costs(const ResolvedPlan& resolved, const LayerCosts& known,
                                         const Cluster& cluster, const StageCost& own);

}  // namespace weir
