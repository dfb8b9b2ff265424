// Plans as files, weir.plan/1, made for git: fixed key order, no date, no host; loading and saving
// gives the same bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/job/plan.hpp"

namespace weir {

[[nodiscard]] nlohmann::ordered_json plan_json(const Plan& plan);

}  // namespace weir
