// Durations for the synthetic backend: the forecast's, so that what is waited is what was
// predicted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "plan/job/resolve.hpp"

namespace weir {

[[nodiscard]] std::vector<std::int64_t> synthetic_durations(
    const ResolvedPlan& loaded, const std::optional<std::filesystem::path>& costs);

}  // namespace weir
