// How much of the time a device's neighbours work beside it.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/neighbours.hpp"

#include <algorithm>

namespace weir {

double busy_share(const Plan& plan) {
  const int same = plan.tp * plan.replicas();  // that hold the same stage, itself among them
  const int others = same * plan.pp - 1;
  if (others == 0) return 0;
  // Of M equal passes of a rank, one d ranks further works beside M - d; two of K ranks are
  // (K + 1) / 3 apart in the mean.
  const double apart = (plan.pp + 1) / 3.0;
  const double of_stages = std::max(0.0, 1 - apart / plan.microbatches);
  return (same - 1 + same * (plan.pp - 1) * of_stages) / others;
}

double quiet_share(const Plan& plan, const Costs& costs) {
  if (costs.backend == "cuda") return plan.pp == 1 ? 1 : 0;
  return 1 - busy_share(plan);
}

}  // namespace weir
