// weir.sweep/1, the fields of DESIGN section 4.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/search/sweep.hpp"

namespace weir {

[[nodiscard]] nlohmann::ordered_json sweep_json(const SweepResult& result);
[[nodiscard]] std::string to_json(const SweepResult& result);

}  // namespace weir
