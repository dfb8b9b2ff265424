// How fast a candidate can be at best, wherever its stages begin: from sums over the model's
// layers, which all candidates share that split, batch and re-materialise alike. No program is
// made; a search looks at candidates in the order of this bound and stops where it passes what it
// has found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"

namespace weir {

// What of a schedule's orders the bound may use, found on small shapes of it.
struct ScheduleTraits {
  bool splits_backward = true;  // into I and W
  bool one_way = false;         // with v = 1 micro-batches pass the ranks in their order
  bool one_copy = false;        // each layer is on one rank
};
[[nodiscard]] ScheduleTraits schedule_traits(std::string_view schedule);

// Of one device for one micro-batch, ns, summed over all layers, except where a layer is named.
struct LayerWork {
  double busy = 0;           // F, the backward, and R of mode stage
  double spared = 0;         // of it, what the last micro-batch does without (except-last)
  double forward_share = 0;  // the least share of F in any layer's `busy`
  double pass_share = 0;     // the least share of F and the backward
  double block = 0;          // `busy` of the shortest block
};
struct JobWork {
  LayerWork whole, split;  // with B; with the shorter of B and I + W
  double update = 0;       // a step, of all layers
  double reduce = 0;       // the same
  double overhead = 0;     // a step, of the stack
  int blocks = 0;          // layers that are blocks
};

// Of all plans that differ from `plan` in stages, schedule and boundaries only; but those of one
// rank, whose times may differ, from all others. `plan`.pp is read for that.
[[nodiscard]] JobWork job_work(const Plan& plan, const LayerCosts& known, const Cluster& cluster);

// No partition, and no order of the schedule's kind, ends a step sooner, in ns. With M
// micro-batches of work x_k on rank k, x in sum, and o once a step:
//   the mean rank               (M x + o) / K
//   the rank with most blocks   M ceil(blocks / K) (shortest block), where no layer is on two ranks
//   v = 1, one way: rank k waits for F of all ranks before it, and they for its last backward, so
//   T >= M x_k + r (x_0 + ... + x_k-1) with r the share of F (and backward) in x. Weights that make
//   every x_s count alike give T >= r x / (1 - (1 - r / M)^K), for any x_k.
// A reduction counts where a rank has one stage: it may run beside the work of another.
[[nodiscard]] double work_bound(const JobWork& work, const ScheduleTraits& traits,
                                const Plan& candidate);

}  // namespace weir
