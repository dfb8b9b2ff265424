// Enumerates; what of it can be is sim/search/legality's to say.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space.hpp"

#include <algorithm>

namespace weir {

std::vector<Plan> with_degrees(const SweepRequest& request) {
  std::vector<Plan> plans;
  for (const int tp : request.tp) {
    for (const int cp : request.cp) {
      for (const int dp : request.dp) {
        for (const int zero : request.zero) {
          Plan plan = request.base;
          plan.tp = tp;
          plan.cp = cp;
          plan.dp = dp;
          plan.zero = dp * cp > 1 ? zero : 0;
          plan.sequence_parallel = request.base.sequence_parallel && tp > 1;
          if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
        }
      }
    }
  }
  return plans;
}

std::vector<Batch> batches(const SweepRequest& request, int dp) {
  std::vector<Batch> pairs;
  if (!request.global_batch_size) {
    for (const int m : request.microbatches) {
      for (const int b : request.micro_batch_size) pairs.push_back({m, b});
    }
    return pairs;
  }
  const int whole = *request.global_batch_size / dp;
  std::vector<int> counts = request.microbatches;
  for (int m = 1; request.microbatches.empty() && m <= whole; ++m) {
    if (whole % m == 0) counts.push_back(m);
  }
  for (const int m : counts) pairs.push_back({m, whole / m});
  return pairs;
}

std::vector<Split> splits(const SweepRequest& request, const Model& model) {
  std::vector<Split> found;
  std::vector<Plan> plans = with_degrees(request);
  if (request.baseline) plans.push_back(request.baseline->plan);
  for (const Plan& plan : plans) {
    const Split split = plan.split();
    const bool known = std::ranges::find(found, split) != found.end();
    if (!known && !cannot_split(model, plan.seq_length, split)) found.push_back(split);
  }
  return found;
}

}  // namespace weir
