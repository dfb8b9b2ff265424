// How fast a candidate can be at best, wherever its stages begin, and how fast it seems: from sums
// over the model's layers, which all candidates share that split, batch and re-materialise alike.
// No program is made; a search looks at candidates in the order of the estimate, and passes over
// those whose bound is above what it has found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "costmodel/table/cost_table.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/schedule/schedule.hpp"

namespace weir {

// What of a schedule's orders the bound may use, found on small shapes of it.
struct ScheduleTraits {
  bool splits_backward = true;  // into I and W
  bool one_way = false;         // with v = 1 micro-batches pass the ranks in their order
  bool one_copy = false;        // each layer is on one rank
  bool in_slices = true;        // a micro-batch passes the ranks in parts
  Vocabulary vocabulary = Vocabulary::whole;
  // Idle time of a rank with equal stages, over the work of its share of a micro-batch, as a share
  // of (K-1)/v: 1 of GPipe. Of a small shape, and taken for all.
  double ramp = 1;
};
[[nodiscard]] ScheduleTraits schedule_traits(std::string_view schedule);

// Of one device for one micro-batch, ns, summed over all layers, except where a layer is named.
struct LayerWork {
  double busy = 0;           // F, the backward, and R of mode stage
  double spared = 0;         // of it, what the last micro-batch does without (except-last)
  double forward_share = 0;  // the least share of F in any layer's `busy`
  double pass_share = 0;     // the least share of F and the backward
  double block = 0;          // `busy` of the shortest block
  double path = 0;           // F and the backward (I where there is one): a way through all ranks
  // Sums over ranks k = 0..K-1 of F, and of the backward, of the model's first k layers.
  double heads = 0, tails = 0;
};
struct JobWork {
  LayerWork whole, split;      // with B; with the shorter of B and I + W
  StageCost shard;             // each rank's, of a divided vocabulary; not within the layers
  double update = 0;           // a step, of all layers and shards
  double reduce = 0;           // the same
  double overhead = 0;         // a step, of the stack
  int layers = 0, blocks = 0;  // that stages divide; blocks are layers too
  // By kind of the cluster's nodes: the least by which any time of any layer is longer there than
  // on the fastest. One number: they are of one kind.
  std::vector<double> slower{1};
  // How many ranks of the fastest nodes would do as much as the plan's; 0: all are of one kind.
  double equal_ranks = 0;
};

// Of all plans that differ from `plan` in stages, schedule and boundaries only; but those of one
// rank, whose times may differ, from all others: `plan`.pp is read for that. Where its schedule
// divides the vocabulary, of those of as many ranks that do.
[[nodiscard]] JobWork job_work(const Plan& plan, const LayerCosts& known, const Cluster& cluster);

// Sets `equal_ranks`: the sum over the plan's ranks of one over how much slower each is.
void stand_on(JobWork& work, const Plan& plan, const Cluster& cluster);

// No partition, and no order of the schedule's kind, ends a step sooner, in ns. With M
// micro-batches of work x_k on rank k, x in sum, and o once a step:
//   the mean rank               (M x + o) / K, with times of the fastest nodes
//   ranks r_k times slower      M x / sum of 1 / r_k, for T >= M r_k x_k on each
//   the rank with most blocks   M ceil(blocks / K) (shortest block), where no layer is on two ranks
//   any micro-batch               F and the backward of all layers
//   stages that hold layers, one copy: before the rank of stage k < K come at least k layers, and
//   their backwards after it, so T >= M x_k + h_k, and T >= (M x + sum of h_k) / K
//   v = 1, one way: rank k waits for F of all ranks before it, and they for its last backward, so
//   T >= M x_k + r (x_0 + ... + x_k-1) with r the share of F (and backward) in x. Weights that make
//   every x_s count alike give T >= r x / (1 - (1 - r / M)^K), for any x_k.
// A reduction counts where a rank has one stage: it may run beside the work of another. Of a
// divided vocabulary every rank has S and T of each micro-batch beside its x_k (docs/theory.md
// 3.2).
[[nodiscard]] double work_bound(const JobWork& work, const ScheduleTraits& traits,
                                const Plan& candidate);

// With equal stages and nothing but the schedule's ramp to wait for, in ns; no less than the bound.
[[nodiscard]] double work_estimate(const JobWork& work, const ScheduleTraits& traits,
                                   const Plan& candidate, double bound_ns);

}  // namespace weir
