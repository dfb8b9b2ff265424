// All that an engineer could try next, one thing made otherwise each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/explain/change.hpp"

namespace weir {

// Of one replica with its degrees and, but for twice the micro-batches, its mini-batch:
//   micro-batches       2M and M / 2 of the same mini-batch; 2M of the same size, twice the batch
//   v                   half, one more and twice, stages balanced
//   schedule            every other one that is published, with the plan's v or else its own; once
//                       where several are the same order
//   re-materialisation  none, selective, full, stage, and each module of which the stack keeps what
//                       may be made again, beside those that the plan has
//   CUDA graphs         of blocks and of the step; of blocks with experts, of what is before them
//   sequence parallelism, ZeRO, overlaps that the plan can have   where devices share
//   experts' dispatch   where they are on several nodes
//   context parallelism  that follows the sequences' lengths, none of whose devices has more tokens
//                       than now, and back to all of them alike
//   boundaries          balanced by layer times (sim/search/partitions/balance)
//   slots               twice as many receive slots
//   link                twice the bandwidth between nodes, or within one; not of measured costs,
//                       which bring their own
// A schedule of a file stays: nothing that it would have to change for is there. Receive slots are
// as many more as a changed schedule cannot do without.
[[nodiscard]] std::vector<Change> changes(const ResolvedPlan& plan, const Costs& costs,
                                          const Cluster& cluster);

// Each choice in which the plan differs from `other`, a plan of the same model, taken over alone,
// the mini-batch as it is: degrees (all of them, sequence parallelism with them), micro-batches,
// schedule with its v, re-materialisation, sequence parallelism, ZeRO; and boundaries as above. A
// schedule of a file stays, and so do the degrees and micro-batches that it was made for.
[[nodiscard]] std::vector<Change> changes_towards(const ResolvedPlan& plan, const Plan& other,
                                                  const Costs& costs, const Cluster& cluster);

}  // namespace weir
