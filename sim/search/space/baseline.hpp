// The plan in use today beside what a search found: whether the two can be compared, and which
// place it takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/search/space/ranking.hpp"
#include "sim/search/space/space.hpp"

namespace weir {

struct Baseline {
  Ranked ranked;
  // Among the plans listed, 1 before all of them; none: it does not fit, or has other devices than
  // the search may use.
  std::optional<int> place;
  // Its step time over the best plan's, and the same with each step times its devices: what one
  // device does in that time. None where no plan was found.
  std::optional<double> ratio, device_ratio;
};

// Why a plan and a search's candidates are not the same job: another model (layer by layer,
// whatever the files are called), sequence length, number format, optimizer or mini-batch. Another
// number of devices is compared by what each of them does. `who` searches, in the reason's words.
struct Incomparable {
  std::string key;  // of the plan file
  std::string reason;
};
[[nodiscard]] std::optional<Incomparable> incomparable(const ResolvedPlan& baseline,
                                                       const SweepRequest& request,
                                                       const Model& model,
                                                       std::string_view who = "the sweep");

// The request's baseline, forecast with its own boundaries and slots, among `plans`: feasible ones,
// best first. As many of them go before it as its place says, less one.
[[nodiscard]] Baseline placed(const SweepRequest& request, const std::vector<Ranked>& plans,
                              const Costs& costs, const Cluster& cluster);

}  // namespace weir
