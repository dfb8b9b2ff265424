// What a core does at the work of network runs, when all are busy: the rate of products, and what
// an exchange takes. Of sizes of its own, not of those of the networks that it predicts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cpu/layout/workers.hpp"
#include "exec/processes/processes.hpp"
#include "plan/words/units.hpp"

namespace weir::cpu {

// By the workers' core clocks, medians of the rounds.
struct NetworkRates {
  FlopsPerSecond products;
  Seconds exchange_latency{0};        // of an all-reduce of next to nothing
  BytesPerSecond exchange_bandwidth;  // read from others
};

// Exchanges among all workers; of one worker there are none, and their figures stay 0.
[[nodiscard]] NetworkRates network_rates(Workers& workers, int rounds);
// Of processes, a core each: collective.
[[nodiscard]] NetworkRates network_rates(Processes& processes, int rounds);

}  // namespace weir::cpu
