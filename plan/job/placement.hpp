// Where the devices of a plan stand: on nodes of which kind, and which of them share a node.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"

namespace weir {

// The number of a rank's first device in the plan's own order.
[[nodiscard]] std::int64_t first_device(const Plan& plan, Rank rank);

// A node on which devices of a plan stand.
struct PlacedNode {
  int kind = 0;             // Cluster::kind
  std::vector<Rank> ranks;  // of each device that stands there, ascending
};

class Placement {
 public:
  // Devices fill the pools in order, or as the plan's placement says: each rank then within one
  // pool, whose devices are taken in the order of the ranks. Throws InputError where the plan names
  // a pool that the cluster has not, or where pools have fewer devices than stand there.
  Placement(const Plan& plan, const Cluster& cluster);

  // On which kinds of the cluster's nodes a rank's devices stand, ascending, by Cluster::kind.
  [[nodiscard]] const std::vector<int>& kinds(Rank rank) const { return kinds_[rank.position()]; }
  // How many of the plan's devices stand on nodes of a kind.
  [[nodiscard]] std::int64_t devices(int kind) const {
    return devices_[static_cast<std::size_t>(kind)];
  }
  // Between the first devices of two ranks.
  [[nodiscard]] Link link(Rank from, Rank to) const;
  // Of a rank's first device; nodes are numbered over all pools.
  [[nodiscard]] std::int64_t node(Rank rank) const;
  // The nodes that devices of the plan stand on, by kind and number. Precondition: the plan is the
  // one that this is of.
  [[nodiscard]] std::vector<PlacedNode> nodes(const Plan& plan) const;

 private:
  struct Place {
    int kind = 0;
    std::int64_t device = 0;  // of its pool
  };
  [[nodiscard]] Place place_of(std::int64_t device) const;
  void fill_in_order(const Plan& plan);
  void follow(const Plan& plan);

  const Cluster& cluster_;
  std::vector<std::vector<int>> kinds_;  // by rank
  std::vector<Place> first_;             // by rank
  std::vector<std::int64_t> devices_;    // by kind
};

}  // namespace weir
