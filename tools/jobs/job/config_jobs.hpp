// Jobs that a configuration file describes: GPT-NeoX's YAML (read as of version 2.0: its argument
// classes, their defaults and megatron/model/transformer.py), DeepSpeed's JSON (0.10 to 0.16), and
// the YAML of NeMo 1 (megatron_gpt_config.yaml and its like, 1.10 to 1.23).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/jobs/job/job.hpp"

namespace weir {

// All throw InputError with file and key: what is missing, contradicts itself, or is not modelled.
[[nodiscard]] Job read_neox_job(const std::string& text, const std::string& file,
                                const JobOptions& options);

// DeepSpeed's file has no model: `options.model` must be there.
[[nodiscard]] Job read_deepspeed_job(const std::string& text, const std::string& file,
                                     const JobOptions& options);

// By way of the Megatron arguments that mean the same. A Python file is a Megatron-Bridge recipe;
// one of NeMo 2 is refused.
[[nodiscard]] Job read_nemo_job(const std::string& text, const std::string& file,
                                const JobOptions& options);

}  // namespace weir
