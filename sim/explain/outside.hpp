// What a search would find in software that its stack is not: of each schedule, re-materialisation
// and ZeRO stage of pipelines that the stack has not, the best plan that is within it otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sim/explain/rejected.hpp"

namespace weir {

// Fastest first; what no plan fits with is left out. `asked`: the request before its open choices
// were made (sim/search/space/open_choices); what it names is no more outside. `best`: the winner
// of the search within the stack.
[[nodiscard]] std::vector<Rejected> outside(const SweepRequest& asked, const Ranked& best,
                                            const Costs& costs, const Cluster& cluster);

}  // namespace weir
