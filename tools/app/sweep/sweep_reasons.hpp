// `sweep --explain`: what limits the best plan and would help it, what it was preferred to and by
// how much, and what the plan in use would gain by each of its choices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "sim/explain/critical_path.hpp"
#include "sim/explain/rejected.hpp"
#include "sim/explain/what_if.hpp"
#include "sim/search/result.hpp"
#include "sim/search/space.hpp"
#include "tools/app/shared/source.hpp"

namespace weir::app {

struct SweepReasons {
  Nanoseconds step{0};  // the best plan's
  CriticalPath critical_path;
  std::vector<WhatIf> what_if;
  std::vector<Rejected> rejected;
  std::optional<std::vector<WhatIf>> towards;  // of the baseline, where there is one
};

// Precondition: as of rejected(). Plans are for files in ".".
[[nodiscard]] SweepReasons reasons_for(const weir::SweepRequest& search,
                                       const weir::SweepResult& result, const CostsSource& source,
                                       const Costs& costs, const Cluster& cluster);
// docs/formats.md, `explained` of weir.sweep/1.
[[nodiscard]] nlohmann::ordered_json to_json(const SweepReasons& reasons,
                                             const std::vector<Ranked>& front);

}  // namespace weir::app
