// The candidates of a large search as small values: jobs (degrees, batch, re-materialisation), and
// of each job its stages and schedules, with the bound of each (sim/search/work_bound).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "sim/search/cost.hpp"
#include "sim/search/space/left_out.hpp"
#include "sim/search/space/space.hpp"
#include "sim/search/work_bound.hpp"

namespace weir {

struct Node {
  std::uint32_t job = 0;
  std::int32_t ranks = 1, chunks = 1;  // K, v
  std::uint32_t schedule = 0;          // index in the request's
  std::uint32_t placement = 0;         // index in Nodes::placements
  double bound_ns = 0;
};

// Nodes that differ in their schedule alone: [first, first + count) of all.
struct NodeGroup {
  std::uint32_t first = 0, count = 0;
  double bound_ns = 0, estimate_ns = 0;  // the least of any of them
};

struct Nodes {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();  // of the search
  bool whole = true;               // false: half of the budget, or a signal, ended their listing
  bool stopped = false;            // by a signal: the same in all processes that search together
  std::vector<Plan> jobs;          // without stages and schedule
  std::vector<std::int64_t> held;  // by job: bytes from step to step, of all ranks, at least
  std::vector<ScheduleTraits> traits;                // by the request's schedules
  std::vector<std::vector<PlacedRanks>> placements;  // each once
  std::vector<Node> all;                             // in the order of the request's lists
  std::vector<NodeGroup> groups;                     // in the same order
  LeftOut devices{"devices"}, divisibility{"divisibility"}, software{"software"};
  LeftOut schedule{"schedule"};  // that divides the vocabulary, and cannot

  // Without boundaries; with the slots asked for.
  [[nodiscard]] Plan plan(const Node& node, const SweepRequest& request) const;
};

// Precondition: no choice but v is left open. Several processes list all of them, whatever the
// budget, and so does a search that goes on from an earlier one. Matches the costs of every split
// into `known`.
[[nodiscard]] Nodes enumerate(const SweepRequest& request, const Model& model, SplitCosts& known,
                              const Cluster& cluster);

}  // namespace weir
