// Jobs of tools that start Megatron-LM with the arguments of YAML files: FlagScale's (a file of its
// train folder, or the experiment that names one) and Primus's (with the files of sizes and
// defaults that it names, beside it or in primus/configs above it).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "tools/jobs/job/job.hpp"
#include "tools/jobs/megatron/translated.hpp"

namespace weir {

// nullopt where the text is none of them. Throws InputError for a file that it
// names and that is not there, and for what another trainer than Megatron's runs.
[[nodiscard]] std::optional<TranslatedJob> megatron_yaml_job(const std::string& text,
                                                             const std::string& file,
                                                             const JobOptions& options);

}  // namespace weir
