// What a search would find in software that its stack is not: of each schedule, re-materialisation
// and ZeRO stage of pipelines that the stack has not, the best plan that is within it otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sim/explain/rejected.hpp"

namespace weir {

struct OutsideRows {
  std::vector<Rejected> rows;  // fastest first; what no plan fits with is left out
  // The request's budget, or a signal, ended their search before it had come to all: values that
  // are not among the rows may have plans that fit.
  bool cut = false;
};

// `asked`: the request before its open choices
// were made (sim/search/space/open_choices); what it names is no more outside. `best`: the winner
// of the search within the stack.
[[nodiscard]] OutsideRows outside(const SweepRequest& asked, const Ranked& best, const Costs& costs,
                                  const Cluster& cluster);

}  // namespace weir
