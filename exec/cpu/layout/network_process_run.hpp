// A network run whose processors are processes, over MPI: this one's part of it (network_run has
// the same with threads, and the same bits).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/cpu/layout/network_difference.hpp"
#include "exec/cpu/layout/network_figures.hpp"
#include "exec/cpu/layout/network_process_board.hpp"
#include "exec/cpu/layout/network_run.hpp"

namespace weir::cpu {

// Everybody's numbers, by process. Collective.
[[nodiscard]] std::vector<std::vector<double>> all_numbers(Processes& processes,
                                                           const std::vector<double>& own);

// This process's core: one each among those that share cores, and one thread on it. As threads do,
// before anything is timed.
void take_core(Processes& processes);

class NetworkProcessRun {
 public:
  // On a mesh of exactly so many processors as there are processes; else as NetworkRun.
  NetworkProcessRun(const layout::Network& network, const layout::NetworkLayout& layout,
                    Processes& processes, std::uint64_t seed);
  ~NetworkProcessRun();

  // All are collective, and give all processes the same; they throw Transport::Stopped once a
  // process has failed. Of a step the times are means over processes, `step` the longest.
  NetworkTimes step();
  [[nodiscard]] std::vector<NetworkCounts> counts() const;
  [[nodiscard]] double held_bytes() const;
  [[nodiscard]] const std::vector<NodeBlocks>& nodes() const;  // this process's own: no exchange
  // From the unsplit computation, which each process has made by itself.
  [[nodiscard]] NetworkDifference difference(const NetworkRun& whole) const;

 private:
  const layout::Network& network_;
  layout::NetworkLayout layout_;
  Processes& processes_;
  ProcessBoard board_;
  std::unique_ptr<NetworkPlan> plan_;
  std::unique_ptr<NetworkProcessor> processor_;
};

}  // namespace weir::cpu
