// A layout inside each stage of a plan: where it is Megatron's cut, it is the plan's tp, sequence
// parallelism, dp and ep, and with shards of weights ZeRO's third stage.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "plan/model/model.hpp"
#include "tools/app/shared/parallel_fields.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/session.hpp"

namespace weir::app {

struct LayoutChoice {
  std::filesystem::path file;
  std::string name;  // of its layouts; empty: the first
};

// Sets the degrees, the tokens of a sample and the samples of a micro-batch from the layout that is
// chosen. Throws InputError where the file has another model's network, or its layout is not
// Megatron's cut, by the rule that is not; UsageError where an option says otherwise.
void take_layout(const LayoutChoice& choice, const Model& model, const Session& session,
                 PlanOptions& options, ParallelOptions& degrees, int& micro_batch_size);

}  // namespace weir::app
