// What a page knows of a plan: its order, its costs by stage and message, what they forecast, and
// what was measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/app/page/page_request.hpp"

namespace weir::app {

// As plan.js reads it; times are whole nanoseconds. Throws UsageError for a plan with skips that go
// directly, InputError where the trace is of another plan.
[[nodiscard]] nlohmann::ordered_json plan_for_page(const PageRequest& request,
                                                   const Session& session);

}  // namespace weir::app
