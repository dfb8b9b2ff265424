// The trainers' tables asked for a plan: export and patch write and refuse by them, and whoever
// searches plans asks refused_by() before it proposes one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/jobs/trainers/row.hpp"

namespace weir {

[[nodiscard]] std::string_view to_string(Trainer trainer);  // as in messages, before rows' names
// Whether it is one of Llama's: rotary positions, RMS norms, one gated MLP.
[[nodiscard]] bool is_llamas(const TransformerShape& block);
[[nodiscard]] TrainerFacts facts_of(const ResolvedPlan& plan);
[[nodiscard]] std::span<const TrainerRow> rows_of(Trainer trainer);

// The rows of a kind that hold, in the table's order.
[[nodiscard]] std::vector<const TrainerRow*> rows_that_hold(Trainer trainer, RowKind kind,
                                                            const TrainerFacts& facts);

// A row as messages name it: "row megatron/own-schedules".
[[nodiscard]] std::string row_name(Trainer trainer, const TrainerRow& row);

// The first row by which the trainer does not run the plan as it stands; nullptr: it does.
[[nodiscard]] const TrainerRow* refused_by(Trainer trainer, const TrainerFacts& facts,
                                           const Allowed& allowed = {});
// Throws InputError with the plan's key, the reason and the row's name.
void require_trainer_runs(Trainer trainer, const ResolvedPlan& plan, const Allowed& allowed);

}  // namespace weir
