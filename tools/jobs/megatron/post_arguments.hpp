// Megatron's arguments of a job whose tool trains ready models by it: how they are written as one
// line, and what they say that has no flag.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/jobs/job/job.hpp"
#include "tools/jobs/megatron/post_adapters.hpp"

namespace weir {

// Throws ModelNeeded where no model is given beside the job, InputError where it is no language
// model. `name` is what the job calls it.
void require_model(const JobOptions& options, const std::string& file, std::string_view tool,
                   const std::string& name);

// A line of Megatron's: torchrun where the devices are known, and every argument.
[[nodiscard]] std::string command_line(const PostTrainerValues& arguments,
                                       const std::string& launcher);

// What is said to be off and has no flag that says so, by its names.
[[nodiscard]] std::optional<Remark> remark_on_off(const PostTrainerValues& arguments);

}  // namespace weir
