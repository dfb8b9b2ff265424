// The trainers' tables, a source file each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/jobs/trainers/row.hpp"

namespace weir {

[[nodiscard]] std::span<const TrainerRow> megatron_rows();
[[nodiscard]] std::span<const TrainerRow> megatron_fork_rows();
[[nodiscard]] std::span<const TrainerRow> torchtitan_rows();
[[nodiscard]] std::span<const TrainerRow> torchtitan_0_2_rows();
[[nodiscard]] std::span<const TrainerRow> torch_rows();
[[nodiscard]] std::span<const TrainerRow> deepspeed_rows();
[[nodiscard]] const std::vector<ArgumentRule>& megatron_argument_rules();
// Megatron-LM's word of how tokens come to their experts, and what says it.
inline constexpr std::string_view kDispatcher = "moe-token-dispatcher-type";
[[nodiscard]] std::string megatron_dispatcher(ExpertDispatch way);

}  // namespace weir
