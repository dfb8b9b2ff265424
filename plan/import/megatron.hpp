// Megatron-LM jobs (also Megatron-DeepSpeed's and the zero-bubble fork's): their arguments, alone
// or in the script that starts them, into a model and a plan. Names, defaults and rules are those
// of megatron/training/arguments.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "plan/import/arguments.hpp"
#include "plan/import/job.hpp"

namespace weir {

// Throws InputError with file and argument: what is missing, contradicts itself, or is not modelled
// at all.
[[nodiscard]] Job read_megatron_job(const std::string& text, const std::string& file,
                                    const JobOptions& options);

// The model half of it: every argument that shapes a layer. Tensor parallelism pads the vocabulary.
[[nodiscard]] Model megatron_model(Arguments& arguments, const JobOptions& options,
                                   std::vector<Remark>& remarks);

// Why an argument that nobody read matters; empty where it changes neither time nor memory of a
// step.
[[nodiscard]] std::string_view why_it_matters(std::string_view name);

}  // namespace weir
