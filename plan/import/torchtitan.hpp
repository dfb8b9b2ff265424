// torchtitan jobs: the TOML file that its trainer takes, into a plan. The file names its model; of
// the llama3 flavours the sizes are known here, for others the model's own file is needed. Keys,
// defaults and rules are those of torchtitan/config/job_config.py and
// torchtitan/distributed/pipeline_parallel.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "plan/import/job.hpp"

namespace weir {

// Throws InputError with file and key.
[[nodiscard]] Job read_torchtitan_job(const std::string& text, const std::string& file,
                                      const JobOptions& options);

// PyTorch's and our names of the schedules that both have; empty where one has no such schedule.
[[nodiscard]] std::string_view schedule_from_torch(std::string_view name);
[[nodiscard]] std::string_view schedule_to_torch(std::string_view name);

// The flavours of llama3 whose sizes are known. Empty names mean none.
[[nodiscard]] std::optional<Decoder> torchtitan_llama3(std::string_view flavor);
[[nodiscard]] std::string_view torchtitan_flavor(
    const Model& model);  // the flavour with just these layers, or ""

}  // namespace weir
