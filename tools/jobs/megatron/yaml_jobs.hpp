// Jobs of tools that start Megatron-LM with the arguments of YAML files: FlagScale's (a file of its
// train folder, or the experiment that names one) and Primus's (with the files of sizes and
// defaults that it names, beside it or in primus/configs above it).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "tools/jobs/job/job.hpp"

namespace weir {

// As a command line; nullopt where the text is none of them. Throws InputError for a file that it
// names and that is not there, and for what another trainer than Megatron's runs.
[[nodiscard]] std::optional<std::string> megatron_yaml_arguments(const std::string& text,
                                                                 const std::string& file,
                                                                 const JobOptions& options);

}  // namespace weir
