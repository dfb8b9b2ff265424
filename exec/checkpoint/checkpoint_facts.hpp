// weir.checkpoint/2, the file beside a checkpoint's tensors: what was trained and how far, by which
// bytes of theirs, and a seal of its own (plan/text/seal).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "plan/text/strict_json.hpp"

namespace weir {

inline constexpr const char* kCheckpointFacts = "checkpoint.json";
inline constexpr const char* kCheckpointTensors = "state.safetensors";
inline constexpr std::string_view kStepFolder = "step-";

struct CheckpointFacts {
  std::int64_t step = 0;
  std::int64_t samples = 0;
  Json trained;
  // Of the tensors' file; none: weir.checkpoint/1, which had no seals.
  std::optional<std::string> state_sha256;
};

// Samples of a mini-batch, by what a checkpoint says was trained. Throws InputError, naming `file`.
[[nodiscard]] std::int64_t samples_a_step(const Json& trained, const std::string& file);

// Of a step's folder. Throws InputError for a file that is not as it was written, and where step,
// samples and the folder's name contradict each other.
[[nodiscard]] CheckpointFacts read_checkpoint_facts(const std::filesystem::path& folder);

// Precondition: `state_sha256` is there.
[[nodiscard]] std::string checkpoint_facts_text(const CheckpointFacts& facts);

// The number in "step-000003"; nothing in another name.
[[nodiscard]] std::optional<std::int64_t> step_in(const std::string& folder_name);

}  // namespace weir
