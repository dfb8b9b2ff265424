// The candidates of a large search as small values: jobs (degrees, batch, re-materialisation), and
// of each job its stages and schedules, with the bound of each (sim/search/work_bound).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sim/search/cost.hpp"
#include "sim/search/left_out.hpp"
#include "sim/search/space.hpp"
#include "sim/search/work_bound.hpp"

namespace weir {

struct Node {
  std::uint32_t job = 0;
  std::int32_t ranks = 1, chunks = 1;  // K, v
  std::uint32_t schedule = 0;          // index in the request's
  double bound_ns = 0;
};

struct Nodes {
  std::vector<Plan> jobs;              // without stages and schedule
  std::vector<ScheduleTraits> traits;  // by the request's schedules
  std::vector<Node> all;               // in the order of the request's lists
  LeftOut devices{"devices"}, divisibility{"divisibility"};

  // Without boundaries; with the slots asked for.
  [[nodiscard]] Plan plan(const Node& node, const SweepRequest& request) const;
};

// Precondition: no choice but v is left open. Matches the costs of every split into `known`.
[[nodiscard]] Nodes enumerate(const SweepRequest& request, const Model& model, SplitCosts& known,
                              const Cluster& cluster);

}  // namespace weir
