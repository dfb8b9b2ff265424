// torchtitan jobs: the TOML file that its trainer took (0.1 to 0.2.2), or a Python registry of
// configurations as since February 2026, into a plan. The file names its model; of the llama3
// flavours the sizes are known here, for others the model's own file is needed. Keys, defaults and
// rules are those of torchtitan/config and torchtitan/distributed/pipeline_parallel.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/jobs/job/job.hpp"

namespace weir {

// Throws InputError with file and key. Of a registry `options.config` is the configuration.
[[nodiscard]] Job read_torchtitan_job(const std::string& text, const std::string& file,
                                      const JobOptions& options);
// The stack of a job's TOML, by name: compiled or eager. Throws InputError.
[[nodiscard]] std::string torchtitan_stack(const std::string& toml, const std::string& file);

}  // namespace weir
