// weir.forecast/1, its fields in docs/formats.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/forecast/forecast.hpp"

namespace weir {

[[nodiscard]] nlohmann::ordered_json forecast_json(const Forecast& forecast);
// What a node's host holds, as every output has it.
[[nodiscard]] nlohmann::ordered_json host_json(const HostHeld& host);
// Idle time as every output has it: seconds by the names of kIdleCauses.
[[nodiscard]] nlohmann::ordered_json idle_json(const IdleTime& idle);
// One line for machines, or several with an indent of two.
[[nodiscard]] std::string to_json(const Forecast& forecast, int indent = 2);

}  // namespace weir
