// What no plan can say and would make a forecast one of another job: each reader of jobs refuses it
// by this name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

inline constexpr const char* kOffloadNotModelled =
    "this kind of offload to host memory is not read (a plan has words for some: "
    "--offload-optimizer, --offload-activations)";
// FSDP's CPUOffloadPolicy (torch/distributed/fsdp/_fully_shard/_fsdp_api.py), ZeRO's offload_param.
inline constexpr const char* kWeightsNotWithHost =
    "weights with the host are in no plan: their shards and those of gradients would stay on the "
    "device in its forecast, which would have no copy for each gather either (of the optimizer's "
    "state alone a plan has it: --offload-optimizer 1)";
inline constexpr const char* kPredictionNotModelled =
    "multi-token prediction is read of Megatron-LM's and Megatron-Bridge's words alone (a plan has "
    "one: --mtp-num-layers)";
inline constexpr const char* kHybridNotModelled =
    "this kind of hybrid sharding is not read (a plan has words for some: --zero-shards, "
    "--zero-secondary)";

inline constexpr const char* kAdaptersNotModelled =
    "adapters are read of Megatron-Bridge's, NeMo 1's, ms-swift's, verl's, Primus's and "
    "torchtitan's LoRA alone, frozen layers of ms-swift's --freeze_parameters (a plan has words "
    "for more: --lora-rank, --frozen)";

// Whether a name, of an argument or of a key's part, switches on training that leaves weights as
// they are: "lora-rank", "peft_type", "freeze_backbone", "target_modules".
[[nodiscard]] bool names_adapters(std::string_view name);

// What is trained where a job says something of adapters or frozen weights by words that no reader
// knows.
inline constexpr const char* kFullTraining =
    "of adapters or frozen weights, and not understood: what is forecast is full training (a plan "
    "has words for them: --lora-rank, --frozen)";

// Whether a key is of adapters or frozen weights by a section that it stands in, or by a word that
// switches them on: "freeze.embedding", "model.lora.alpha", "use_lora".
[[nodiscard]] bool is_of_adapters(std::string_view path);

// Whether such a section is switched off by a key of its own, "lora.enabled"; `text` gives a path's
// value, "" where it has none.
[[nodiscard]] bool is_off_with_section(std::string_view path,
                                       const std::function<std::string(const std::string&)>& text);

// Whether it names a size, a rank, a dimension or a count, so that without it parameters and
// memory are in doubt: "expert-hidden-size", "n-shared-experts", "num_heads".
[[nodiscard]] bool names_a_size(std::string_view name);

// Of a key of DeepSpeed, GPT-NeoX, NeMo or torchtitan, by the end of its path
// ("zero_optimization.offload_param.device") and its value, the one of the three that it switches
// on; nullopt: none.
[[nodiscard]] std::optional<std::string> unmodelled(std::string_view path, std::string_view value);

// Whether a plan has a word for what such a key says, which the readers of some tools ask for:
// adapters, DeepSpeed's groups, its state and its checkpoints with the host.
[[nodiscard]] bool some_reader_reads(std::string_view path);

}  // namespace weir
