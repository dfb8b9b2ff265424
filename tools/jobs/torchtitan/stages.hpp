// The stages of a torchtitan job: which blocks each has, and in which order they run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/job/plan.hpp"
#include "tools/jobs/toml/table.hpp"

namespace weir {

// Sets the schedule, the stages a rank and where they begin, for a model of so many blocks; the
// plan's pp is there. Throws InputError with the key.
void set_torchtitan_pipeline(TomlTable& t, Plan& plan, std::int64_t blocks);

}  // namespace weir
