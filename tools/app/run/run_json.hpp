// weir.run/1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/app/run/run_request.hpp"

namespace weir::app {

// Null where another process has it.
[[nodiscard]] nlohmann::ordered_json to_json(const RunResult& result);

}  // namespace weir::app
