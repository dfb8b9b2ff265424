// The parts of weir.explanation/1, which sweeps have too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "sim/explain/critical_path.hpp"
#include "sim/explain/gap.hpp"
#include "sim/explain/rejected.hpp"
#include "sim/explain/waterfall.hpp"
#include "sim/explain/what_if.hpp"

namespace weir {

// docs/formats.md: "part of a step", "what-if" and the object `measured`.
[[nodiscard]] nlohmann::ordered_json waterfall_json(const Waterfall& fall);
[[nodiscard]] nlohmann::ordered_json critical_path_json(const CriticalPath& path, Nanoseconds step);
[[nodiscard]] nlohmann::ordered_json what_if_json(const std::vector<WhatIf>& rows);
[[nodiscard]] nlohmann::ordered_json gap_json(const Gap& gap);
// "rejected choice", and the plans of a Pareto front.
[[nodiscard]] nlohmann::ordered_json rejected_json(const std::vector<Rejected>& rows);
[[nodiscard]] nlohmann::ordered_json front_json(const std::vector<Ranked>& front);

}  // namespace weir
