// A run as it stood after a step: weights and optimizer state by layer name in a safetensors file,
// and beside it weir.checkpoint/2, which says what was trained and how far. It knows no rank, so
// that another K, partition, schedule or number of processes may go on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exec/training/each_weight.hpp"
#include "exec/training/parameter_state.hpp"
#include "plan/job/resolve.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

// What decides the numbers of a run, beside the state that it has reached: the model, what a
// mini-batch is and in which order it is summed, the optimizer, the seed, the data, and the weights
// that it began with where they were given. Throws InputError for files that cannot be read.
[[nodiscard]] Json what_is_trained(const ResolvedPlan& loaded,
                                   const std::vector<std::filesystem::path>& data,
                                   const std::optional<std::filesystem::path>& init = {});

struct Checkpoint {
  std::filesystem::path folder;
  std::int64_t step = 0;  // how many have been trained
  Json trained = {};      // what_is_trained() of the run that wrote it
  std::optional<std::string> state_sha256 =
      {};  // none: it has no seal, as before weir.checkpoint/2
  // Newer ones that are damaged: "step-000006 is damaged (WHY): step-000004 is used".
  std::vector<std::string> passed_over = {};
};

// One folder, or a run's output folder, of which it is the newest whole checkpoint: as it was
// written, bit by bit, where it has a seal. Throws InputError where there is none, for one folder
// that is damaged, and where another thing was trained there than `trained`, naming both.
[[nodiscard]] Checkpoint find_checkpoint(const ResolvedPlan& loaded,
                                         const std::filesystem::path& path, const Json& trained);

// Whether a run's output folder has any, and away with them. Throws InputError.
[[nodiscard]] bool holds_checkpoints(const std::filesystem::path& output);
void remove_checkpoints(const std::filesystem::path& output);

// What the tensors of one take on a disk.
[[nodiscard]] std::int64_t checkpoint_bytes(const ResolvedPlan& loaded);

// The state that it holds. Throws InputError naming the tensor where it is not that of the model
// and its optimizer. `loaded` outlives it.
[[nodiscard]] StateSource checkpoint_state(const ResolvedPlan& loaded,
                                           const Checkpoint& checkpoint);

struct NewCheckpoint {
  std::filesystem::path output;  // the run's folder: it goes to checkpoints/step-000003
  std::int64_t step = 0;
  Json trained;
};
// Collects the state and writes it: the folder is there whole or not at all, and one of the same
// step is replaced at once. `leads`, `fetch`: as write_weights has them. Throws as
// fail_to_write() (plan/text/new_file), and leaves nothing behind then.
[[nodiscard]] std::filesystem::path write_checkpoint(const ResolvedPlan& loaded,
                                                     const NewCheckpoint& made,
                                                     const FetchParameter& fetch, bool leads);

}  // namespace weir
