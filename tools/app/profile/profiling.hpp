// From measurements of this machine to costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "exec/device/backend.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/model.hpp"

namespace weir {

struct Profiling {
  BackendKind backend = BackendKind::cpu;
  std::vector<int> micro_batch_sizes{1, 2, 4, 8};
  int devices = 0;  // that work at once; 0: default_devices
  std::function<void(int done, int of)> progress;
};

// "cpu" or "cuda"; throws UsageError, also for "synthetic", whose timed waits are no measure.
[[nodiscard]] BackendKind parse_measuring_backend(const std::string& name);

// Ascending: the micro-batch sizes of a mini-batch, and its numbers of micro-batches.
[[nodiscard]] std::vector<int> divisors(int mini_batch);

// Measures every distinct layer of the model with all devices busy, and the busiest layer alone,
// for K = 1. The origin says how much slower layers run while their neighbours on the same GPU work
// too. Throws InputError where a layer is only known by its times.
[[nodiscard]] Costs profile_machine(const Model& model, const Plan& plan,
                                    const Profiling& profiling);

}  // namespace weir
