// Megatron-Bridge recipes (NeMo's since 2025; read as of August 2026): a Python function that
// returns a ConfigContainer, as the Megatron arguments that mean the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/jobs/job/job.hpp"

namespace weir {

// The recipe `options.config`, or the file's only one, followed without being run. Where its model
// comes from a checkpoint's own configuration, `options.model` must be there. Throws InputError
// with file and key.
[[nodiscard]] Job read_bridge_job(const std::string& text, const std::string& file,
                                  const JobOptions& options);

}  // namespace weir
