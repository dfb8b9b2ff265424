// Whether a search has an answer, and why it has none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/search/space/left_out.hpp"
#include "sim/search/space/space.hpp"
#include "tools/app/shared/session.hpp"
#include "tools/app/sweep/sweep_request.hpp"

namespace weir::app {

// "12 by memory, as PLAN needs ..."
[[nodiscard]] std::string to_text(const LeftOut& left_out);

// Throws NoFeasiblePlan where the search has no plan, RunFailed where it was stopped before one;
// what left plans out and what the baseline needs is noted before.
void require_feasible(const SweepReply& reply, const weir::SweepRequest& search,
                      const Session& session);
// Throws NoFeasiblePlan where the best plan only may fit. Precondition: there is one.
void require_sure_fit(const weir::SweepResult& result);

}  // namespace weir::app
