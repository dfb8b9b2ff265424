// What torchtitan's converters make of a model: products in 8 bits and adapters of low rank
// (torchtitan/components/quantization and components/lora.py of pytorch/torchtitan@b5bcd76c6;
// components/quantization and config/job_config.py of v0.2.2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "plan/job/plan.hpp"
#include "tools/jobs/job/job.hpp"
#include "tools/jobs/python/value.hpp"
#include "tools/jobs/toml/table.hpp"
#include "tools/jobs/torchtitan/export.hpp"

namespace weir {

// A registry's list of them in the words of 0.2's TOML, into `keys`, whose values are TOML's;
// adapters, which that one has not, as converter.lora. Others keep their own names.
void add_converters(const PythonValue& list, std::map<std::string, std::string>& keys);

// Sets what the plan and its model multiply in 8 bits and train. Throws InputError with the key
// where adapters are not those of a plan.
void set_converters(TomlTable& t, Job& job);

// The plan's, as main's model_registry() takes them: "[Float8LinearConverter.Config(...)]"; empty
// where there are none. Precondition: no row of the trainer's refuses them.
[[nodiscard]] std::string registry_converters(const Plan& plan);
// As keys of 0.2's tables: those of [model], and of the table that the second names.
struct TomlConverters {
  TorchtitanJob::Fields model;
  std::string table;
  TorchtitanJob::Fields fields;
};
[[nodiscard]] TomlConverters toml_converters(const Plan& plan);

}  // namespace weir
