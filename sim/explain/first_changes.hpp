// From the plan in use towards a better one, the smallest change first: the one that brings most of
// what there is to gain for the fewest arguments, then what further changes would add.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/job/stack_abilities.hpp"
#include "sim/explain/what_if.hpp"
#include "sim/search/space/ranking.hpp"

namespace weir {

// How a job is changed into a plan: arguments of the job that the plan was read from, where that is
// Megatron's and the plan keeps it; else keys of the plan's file.
struct ArgumentCount {
  int removed = 0, changed = 0, added = 0;
  bool of_job = false;
  [[nodiscard]] int all() const { return removed + changed + added; }
};
// "delete 3 flags", "change 1 flag, add 2"; of no job "change 2 keys of the plan, add 1".
[[nodiscard]] std::string to_text(const ArgumentCount& count);

struct FirstChange {
  std::string what;         // "re-materialisation: none"; of the last one, "the best plan"
  Plan plan;                // with this change and those before it
  Forecast forecast;        // its
  double ratio = 1;         // samples in the same time over the plan in use
  ArgumentCount arguments;  // from the plan in use
  bool searched = true;     // false: made to the best plan, of a word that every candidate shared
};

struct Improvement {
  const ResolvedPlan& present;
  const Forecast& base;  // of it
  const Ranked& best;    // the plan that a search prefers
  const Cluster& cluster;
  const StackAbilities& software;
  // Costs that know every way to split layers that a change of the plan has.
  std::function<Costs(const ResolvedPlan&)> costs;
  // How the plan in use is changed into another.
  std::function<ArgumentCount(const ResolvedPlan&)> arguments;
  // Asked before each forecast: from where it says yes on no change is tried. None: all are.
  std::function<bool()> over{};
};

// Changes that surely fit, that the software has and that keep the mini-batch; each adds a
// hundredth at least, and what the search kept as it is (overlaps, formats of weights, offload)
// they keep too, so that none is faster than the best plan. Behind them stands the best plan
// itself, where it is better than all before it, and then what one of the words kept would bring to
// it. Empty: the plan in use is as good as the best.
[[nodiscard]] std::vector<FirstChange> first_changes(const Improvement& improvement);

}  // namespace weir
