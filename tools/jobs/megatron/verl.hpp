// verl's jobs whose actor is trained by Megatron.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/jobs/job/job.hpp"
#include "tools/jobs/megatron/translated.hpp"
#include "tools/jobs/shell/script.hpp"

namespace weir {

// Into the job: the actor's arguments, adapters and what of them is no part of a plan. False: no
// command of the script starts verl's trainer. Throws InputError with the path.
[[nodiscard]] bool take_verl(const ShellScript& script, const std::string& file,
                             const JobOptions& options, TranslatedJob& job);

}  // namespace weir
