// Max-min fair sharing of capacities among flows. It knows resources and limits, and nothing of
// ranks, links or GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir {

struct Flow {
  double limit = 0;                     // the rate it would have alone; > 0
  std::vector<std::int32_t> resources;  // whose capacities it draws on, each once; may be empty
};

// The max-min fair rates: no flow can be given more without taking from one that has no more than
// it (Bertsekas & Gallager, Data Networks, 1992, section 6.5.2, progressive filling). rates[i] <=
// flows[i].limit; the rates over each resource sum to its capacity at most. O(rounds (flows +
// resources)), at most one round a flow. The same input gives the same bits.
[[nodiscard]] std::vector<double> max_min_rates(std::span<const Flow> flows,
                                                std::span<const double> capacities);

}  // namespace weir
