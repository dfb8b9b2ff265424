// How much of what experts exchange travels beside another micro-batch's work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "plan/job/plan.hpp"
#include "plan/job/stack.hpp"

namespace weir {

// Why nothing of it can under the plan, whatever its stack: there is no other micro-batch; a
// pipeline without chunks has no forward beside a backward, nor has an order that makes all
// forwards first; and what Megatron-LM refuses beside
// --overlap-moe-expert-parallel-comm (NVIDIA/Megatron-LM@d98e8a64ddf3,
// core/transformer/transformer_config.py:3002-3069): blocks or experts that are rebuilt, tokens
// that are gathered, number formats but bf16 and fp16, more than one block that predicts further
// tokens, and CUDA graphs of experts or MLPs; and rows of several sequences, whose ends its
// schedule of a block's pieces does not take (core/models/gpt/gpt_model.py: build_schedule_plan).
// nullopt: it can.
[[nodiscard]] std::optional<std::string_view> why_experts_wait(const Plan& plan);

// The share of each exchange that runs beside other work: the stack's, times (M - 1) / M, since of
// M forwards and M backwards the first and the last have no partner; 0 where the plan asks for
// none (Plan::overlap_experts) or cannot have it. That a pipeline's ranks begin with several
// forwards is not taken off.
[[nodiscard]] double expert_overlap(const Plan& plan, const StackTime& stack);

}  // namespace weir
