// Networks under layouts, run on this machine's cores beside what the model of their costs says of
// them with this machine's rates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/layers/network_math.hpp"
#include "exec/processes/processes.hpp"
#include "plan/job/cluster.hpp"

namespace weir {

struct NetworksRunRequest {
  std::string file;  // for complaints
  int workers = 1;
  int rounds = 15;
  std::uint64_t seed = 1;
  std::function<void(int done, int of)> progress;
  Processes* processes = nullptr;  // a processor each, as many as `workers`; none: threads
};

struct NetworkRunRow {
  layout::NetworkLayout layout;
  NetworkCost predicted;  // of products and exchanges; what else there is has no price
  // Medians of the rounds, by the workers' core clocks; the step by the wall clock.
  Seconds products{0}, exchanges{0}, elementwise{0}, step{0};
  std::optional<double> spread;   // of products and exchanges: interquartile range over the median
  double multiply_adds = 0;       // counted, of a worker
  double exchanged_elements = 0;  // counted, a mean over the workers
  double derived_elements = 0;    // the same by the collectives' formulas
  double in_order = 0, reordered = 0;  // differences from the unsplit computation: of tensors whose
                                       // sums keep its order, and of the others
  [[nodiscard]] Seconds priced() const { return products + exchanges; }
};

struct NetworksRunResult {
  int workers = 1, rounds = 0;
  std::uint64_t seed = 1;
  std::string processes;  // what carried their messages, "Open MPI v4.1.4"; empty: threads
  bool oversubscribed = false;
  std::vector<NetworkRunRow> rows;  // in the order of the layouts
  // Pairs of layouts that are predicted to differ by more than a twentieth, and those of them that
  // products and exchanges as measured put in the same order.
  int pairs = 0, pairs_right = 0;
};

// This machine as a cluster of one node: what its cores do in such runs, measured. Throws
// MissingComponent in a build without the CPU backend.
[[nodiscard]] Cluster measured_cores(int workers);
// By processes, which exchange by messages: collective, the same to all of them.
[[nodiscard]] Cluster measured_cores(Processes& processes);

// Layouts of `workers` processors. Throws InputError where one cannot be run, RunFailed where they
// need more memory than there is, before anything is allocated, or where a number or a count is not
// what it has to be. Of processes it is collective, and the same to all of them.
[[nodiscard]] NetworksRunResult run_networks(const layout::Network& network,
                                             const std::vector<layout::NetworkLayout>& layouts,
                                             const NetworkJob& job, const Cluster& machine,
                                             const NetworksRunRequest& request);

// A layout on each mesh of so many processors with the same mesh dimensions, those of size 1 left
// out.
[[nodiscard]] std::vector<layout::NetworkLayout> on_workers(const layout::NetworkLayout& layout,
                                                            int workers);

}  // namespace weir
