// A torchtitan configuration as its Python registry has it since 23 February 2026 (read as of
// April and of August 2026), in the words of the TOML file that came before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/jobs/job/job.hpp"

namespace weir {

// The configuration of that name, or, where that is empty, the file's only one, as TOML: the same
// keys where both forms have them. What is not known without running the file stands in it as the
// text that it is, so whoever reads the key refuses it, and whoever reads none of it names it.
// Lines whose effect is not known become remarks of the job, and what goes without saying there is
// one of its defaults. Throws InputError with what is missing.
[[nodiscard]] std::string torchtitan_registry_as_toml(const std::string& text,
                                                      const std::string& file,
                                                      const std::string& name, Job& job);

}  // namespace weir
