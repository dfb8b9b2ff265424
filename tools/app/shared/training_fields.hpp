// How a plan in use trains, for the requests that are compared with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tools/app/shared/plan_fields.hpp"

namespace weir {

// Seed, optimizer and rates: what no option says is the plan's.
void take_training(const Plan& plan, const app::Session& session, PlanOptions& options,
                   std::uint64_t& seed);
// And what no option has words for.
void take_unnamed(const Plan& plan, Plan& base);

// Samples a step of the plan in `file`; throws InputError where no request can have so many.
[[nodiscard]] int mini_batch_of(const Plan& plan, const std::string& file);

}  // namespace weir
