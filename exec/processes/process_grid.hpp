// Which process is which rank of which copy: K processes for each of the T places that divide the
// layers of a replica, replica after replica.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/plan.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct ProcessGrid {
  int ranks = 1, places = 1, replicas = 1;  // K, T, D

  ProcessGrid(const Plan& plan, int pipeline_ranks)
      : ranks(pipeline_ranks), places(plan.tp), replicas(plan.dp) {}

  [[nodiscard]] int processes() const { return ranks * places * replicas; }
  [[nodiscard]] int process(int replica, int place, Rank rank) const {
    return (replica * places + place) * ranks + rank.value;
  }
  [[nodiscard]] Rank rank(int process) const { return Rank{process % ranks}; }
  [[nodiscard]] int place(int process) const { return process / ranks % places; }
  [[nodiscard]] int replica(int process) const { return process / ranks / places; }
};

}  // namespace weir
