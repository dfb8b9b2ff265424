// What GPT-NeoX's files and DeepSpeed's own have in common: DeepSpeed's sections.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/jobs/job/config_table.hpp"

namespace weir {

// Precision, ZeRO, batch, replicas and optimizer of a plan whose tp and pp are set.
void read_deepspeed(ConfigTable& table, Plan& plan, const JobOptions& options,
                    const std::string& file, std::vector<Remark>& remarks);

// What the user says fills the batch that the file leaves open. Throws UsageError where it says
// otherwise.
void fill_deepspeed(ConfigTable& table, const GivenFields& given);

// What the file leaves to DeepSpeed's own defaults (runtime/config.py and runtime/zero/config.py).
void say_deepspeed_defaults(const ConfigTable& table, Job& job);

// DeepSpeed's configuration beside the arguments of Megatron-DeepSpeed, which say most of it too:
// its ZeRO stage where they do not, and an account of its other keys. `file` names it in messages.
void read_deepspeed_beside(const std::string& text, const std::string& file, bool has_stage,
                           Job& job);

// Megatron-DeepSpeed and GPT-NeoX configure checkpoints by their own words, which go before
// DeepSpeed's section (deepspeed.checkpointing.configure in their megatron/initialize.py).
inline constexpr const char* kArgumentsSayIt =
    "true: without effect, the trainer's own word (checkpoint-in-cpu) decides";
inline constexpr const char* kCheckpointsAway = "activation_checkpointing.cpu_checkpointing";

// The job's plan where DeepSpeed's checkpoints have their inputs with the host, as `name` says
// (runtime/activation_checkpointing/checkpointing.py; 0.19.6): what blocks keep that are rebuilt,
// of others nothing. `divided`: among tensor-parallel devices (`partition_activations`). Once the
// job's re-materialisation is set.
void keep_checkpoints_with_host(std::string_view name, bool divided, Job& job);

// Why an unread key of DeepSpeed's matters.
[[nodiscard]] UnreadArgument unread_deepspeed_key(std::string_view path);

// Blocks of each stage by DeepSpeed's partition_balanced over equal weights (DeepSpeed 0.14,
// runtime/utils.py): each stage takes as many as the fullest may have. Throws where one is empty.
[[nodiscard]] std::vector<int> balanced_blocks(ConfigTable& table, std::string_view key,
                                               std::int64_t blocks, std::int64_t stages);

}  // namespace weir
