// From measurements of this machine to costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "exec/profiling/measure.hpp"
#include "plan/model/model.hpp"

namespace weir {

struct ProfileRequest {
  BackendKind backend = BackendKind::cpu;
  std::vector<int> micro_batch_sizes{1, 2, 4, 8};
  int devices = 0;  // that work at once; 0: default_devices
  bool progress = false;
};

// How much slower a layer runs while its neighbours on the same GPU work too: they share its memory
// bandwidth, caches and power. Times with all at work over times of one group whose neighbours
// rest, of the largest micro-batch.
struct NeighbourSlowdown {
  std::string layer;  // its kind
  double f = 1, b = 1;
};

// By layer kind; empty where devices do not share a GPU. Divides the machine by request.devices.
[[nodiscard]] std::vector<NeighbourSlowdown> neighbour_slowdowns(const Model& model,
                                                                 const Plan& plan,
                                                                 const ProfileRequest& request,
                                                                 const Costs& busy,
                                                                 const Backends& backends);

// Measures every distinct layer of the model with all devices busy, and the busiest layer alone,
// for K = 1.
[[nodiscard]] Costs profile_machine(const Model& model, const Plan& plan,
                                    const ProfileRequest& request, const Backends& backends);

}  // namespace weir
