// The event engine where operations slow each other down: links and network cards that several
// edges share, transfers that take multiprocessors and memory bandwidth from compute, ranks that
// share a device. Durations then depend on what else runs, so time must advance event by event.
// Without contention the plain engine gives the same times faster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "costmodel/table/cost_table.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/placement.hpp"
#include "plan/program/program.hpp"
#include "sim/engine/event_engine.hpp"

namespace weir {

struct Contention {
  // Of each directed edge of the program: the bandwidth that its messages' occupancy was computed
  // from, and the shared capacities they pass. Empty: every edge has a link of its own.
  struct EdgeLink {
    double bandwidth = 0;  // bytes/s; > 0
    std::vector<std::int32_t> shared;
  };
  Indexed<EdgeId, EdgeLink> edges;
  std::vector<double> capacities;  // bytes/s
  // Fractions of speed lost: by compute while a transfer to or from its rank is under way, by a
  // transfer while either end computes (measured factors; arXiv 2507.03114 found 0.19 on average
  // for compute). In [0, 1).
  double compute_slowdown = 0;
  double transfer_slowdown = 0;
  // Ranks of one device share its speed evenly; empty: a device each. Where a rank is several
  // devices itself one of these stands for as many, or for what there is of them.
  Indexed<Rank, std::int32_t> device_of_rank;
  double device_speed = 1;  // of each of these: as many ranks compute at once, or as a share of one

  [[nodiscard]] bool none() const {
    return edges.empty() && compute_slowdown == 0 && transfer_slowdown == 0 &&
           device_of_rank.empty();
  }
};

// The network cards of a cluster's nodes, one capacity for what leaves a node and one for what
// enters it, as the cluster's `node_bandwidth` says; no contention where it says nothing or all
// ranks are on one node. A rank of several devices (tensor or context parallel) takes as many
// places and sends from all of them at once.
[[nodiscard]] Contention shared_node_links(const Program& program, const Cluster& cluster,
                                           int devices_per_rank = 1);
// The same of ranks on several kinds of nodes, each with its own cards.
[[nodiscard]] Contention shared_node_links(const Program& program, const Cluster& cluster,
                                           const Placement& placement, int devices_per_rank);

// As simulate() without contention; equal to it, to the nanosecond, where nothing is shared and
// nothing slowed. A rate that changes on the way rounds the operation's end up to a whole
// nanosecond.
[[nodiscard]] std::variant<Timing, Stuck> simulate(const Program& program,
                                                   const OperationCosts& costs,
                                                   const Contention& contention);

}  // namespace weir
