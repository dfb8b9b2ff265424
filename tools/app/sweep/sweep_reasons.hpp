// `sweep --explain`: what limits the best plan and would help it, what it was preferred to and by
// how much, and what the plan in use would gain by each of its choices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "sim/explain/critical_path.hpp"
#include "sim/explain/first_changes.hpp"
#include "sim/explain/rejected.hpp"
#include "sim/explain/what_if.hpp"
#include "sim/search/result.hpp"
#include "sim/search/space/space.hpp"
#include "tools/app/shared/source.hpp"
#include "tools/app/sweep/time_bound.hpp"

namespace weir::app {

struct SweepReasons {
  Nanoseconds step{0};  // the best plan's
  CriticalPath critical_path;
  std::vector<WhatIf> what_if;
  std::vector<Rejected> rejected;
  std::vector<Rejected> outside;               // what the stack has not
  std::optional<std::vector<WhatIf>> towards;  // of the baseline, where there is one
};

// What was searched: as it was asked, and with the choices that were left open made.
struct Searched {
  const weir::SweepRequest &asked, &search;
  const weir::SweepResult& result;
  const TimeBound& time;
  std::vector<std::string>& not_looked_at;  // told what there was no time for
};
// Precondition: as of rejected(). Plans are for files in ".".
[[nodiscard]] SweepReasons reasons_for(const Searched& searched, const CostsSource& source,
                                       const Costs& costs, const Cluster& cluster);
// From the baseline to the best plan, the smallest change first; empty without a baseline, or where
// its model's file is not to be had.
[[nodiscard]] std::vector<FirstChange> first_changes_for(const Searched& searched,
                                                         const CostsSource& source,
                                                         const Cluster& cluster);
[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<FirstChange>& changes);
// docs/formats.md, `explained` of weir.sweep/1.
[[nodiscard]] nlohmann::ordered_json to_json(const SweepReasons& reasons,
                                             const std::vector<Ranked>& front);

}  // namespace weir::app
