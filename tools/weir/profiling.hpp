// From measurements of this machine to costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "costmodel/costs.hpp"
#include "exec/measure.hpp"
#include "plan/model.hpp"

namespace weir {

struct ProfileRequest {
  BackendKind backend = BackendKind::cpu;
  std::vector<int> micro_batch_sizes{1, 2, 4, 8};
  int devices = 0;  // that work at once; 0: all cores
  bool progress = false;
};

// Measures every distinct layer of the model with all devices busy, and the busiest layer alone, for K = 1.
[[nodiscard]] Costs profile_machine(const Model& model, const Plan& plan, const ProfileRequest& request,
                                    const Backends& backends);

}  // namespace weir
