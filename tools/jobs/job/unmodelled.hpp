// What no plan can say and would make a forecast one of another job: each reader of jobs refuses it
// by this name. (The DeepSeek class of transformers leaves prediction layers out itself, and its
// reader with it.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir {

inline constexpr const char* kOffloadNotModelled = "offload to host memory is not modelled";
inline constexpr const char* kPredictionNotModelled = "multi-token prediction is not modelled";
inline constexpr const char* kHybridNotModelled = "hybrid sharding is not modelled";

// Of a key of DeepSpeed, GPT-NeoX, NeMo or torchtitan, by the end of its path
// ("zero_optimization.offload_param.device") and its value, the one of the three that it switches
// on; nullopt: none.
[[nodiscard]] std::optional<std::string> unmodelled(std::string_view path, std::string_view value);

}  // namespace weir
