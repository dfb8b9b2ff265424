// A plan of a sweep's file (weir.sweep/1), taken out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "tools/app/shared/source.hpp"

namespace weir::app {

// The plan at `place`, from 1. Its paths start from the sweep's folder. Throws InputError.
[[nodiscard]] PlacedPlan listed_plan(const std::filesystem::path& sweep, int place,
                                     const Session& session);

}  // namespace weir::app
