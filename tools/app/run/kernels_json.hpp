// What `weir run --kernels` says of the kernels as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "traces/kernels.hpp"

namespace weir {

// Key "kernels" of weir.run/1:
//   total_s, by_name[] {name, calls, total_s, share}
//   others {names, calls, total_s, share}: the names beyond the first 20
//   by_action[] {action, actions, kernels, time_s, idle_s, idle_share}: idle is time of the action
//     in which nothing ran
//   outside_actions, untimed, dropped_records, clock {uncertainty_s, overhang_s}
[[nodiscard]] nlohmann::ordered_json kernels_json(const Trace& trace, const KernelTrace& kernels);

}  // namespace weir
