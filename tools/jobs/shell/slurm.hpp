// What "#SBATCH" lines ask of Slurm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/jobs/shell/variables.hpp"

namespace weir {

struct SlurmRequest {
  std::optional<std::int64_t> nodes, tasks, tasks_per_node, gpus, gpus_per_node, gpus_per_task;

  // All devices of the job; nullopt where the lines do not say.
  [[nodiscard]] std::optional<std::int64_t> devices() const;
  // The variables that Slurm will set from it: SLURM_NNODES and its like.
  [[nodiscard]] ShellEnvironment variables() const;
};

// A later line counts over an earlier one.
[[nodiscard]] SlurmRequest slurm_request(const std::string& script);

}  // namespace weir
