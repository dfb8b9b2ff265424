// How a torchtitan job trains: number formats, optimizer, learning rate, clipping.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/job/plan.hpp"
#include "tools/jobs/job/job.hpp"
#include "tools/jobs/toml/table.hpp"

namespace weir {

// Sets the plan's dtype and optimizer. Throws InputError with the key.
void set_torchtitan_training(TomlTable& t, Plan& plan, std::vector<Remark>& remarks);

}  // namespace weir
