// How many of a job's arguments must change for it to become another plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim/explain/first_changes.hpp"

namespace weir::app {

// Of the Megatron job that `from` was read from, where it keeps one and Megatron has words for
// `to`; else of the plan's file.
[[nodiscard]] ArgumentCount arguments_between(const ResolvedPlan& from, const ResolvedPlan& to);

}  // namespace weir::app
