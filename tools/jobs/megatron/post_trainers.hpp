// Jobs of tools that train a ready model by Megatron-Core and give its arguments in words of their
// own: ms-swift's "megatron pt" and "megatron sft", and the actor's update of verl. The model is
// named there by its checkpoint: its configuration is the user's to give.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "tools/jobs/job/arguments.hpp"
#include "tools/jobs/job/job.hpp"
#include "tools/jobs/megatron/translated.hpp"

namespace weir {

// nullopt where a script starts neither. Throws InputError for what is not read of them: adapters,
// preference training, engines other than Megatron's.
[[nodiscard]] std::optional<TranslatedJob> post_trainer_job(const std::string& text,
                                                            const std::string& file,
                                                            const JobOptions& options);

}  // namespace weir
