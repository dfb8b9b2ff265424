// LoRA as NeMo's tools say it: the `peft` of a Megatron-Bridge recipe, `model.peft` of NeMo 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/jobs/job/config_table.hpp"
#include "tools/jobs/job/job.hpp"
#include "tools/jobs/python/value.hpp"

namespace weir {

// Puts the adapters into the job's plan and model. Defaults are those of peft/lora.py and
// peft/canonical_lora.py (NVIDIA-NeMo/Megatron-Bridge@067f987df03b). Throws InputError for what is
// no LoRA of whole kinds of products.
void take_bridge_adapters(const PythonValue& peft, const std::string& file, Job& job);

// Those of NeMo 1 (examples/nlp/language_modeling/tuning/conf/megatron_gpt_finetuning_config.yaml,
// NVIDIA/NeMo v1.23). Marks what it reads.
void take_nemo_adapters(ConfigTable& table, Job& job);

}  // namespace weir
