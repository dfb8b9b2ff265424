// A network run for real under a layout: every processor of the mesh is a worker that holds its
// blocks, and carries out what plan/layout/exchanges derives for it, forward and backward, with the
// exchanges that are priced there. Blocks are compared with those of the unsplit computation, and
// what is multiplied and read from others is counted as it happens.
//
// All repetitions of a layer are run, with weights of their own. Nothing is freed within a step, so
// what a layout would keep is not measured here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/cpu/layout/network_board.hpp"
#include "exec/cpu/layout/network_difference.hpp"
#include "exec/cpu/layout/network_figures.hpp"
#include "exec/cpu/layout/workers.hpp"
#include "plan/layout/exchanges.hpp"

namespace weir::cpu {

// Why a network cannot be run under a layout, by the layer and the operation; nothing where it can.
[[nodiscard]] std::optional<std::string> not_run(const layout::Network& network,
                                                 const layout::NetworkLayout& layout);

// What the layout's processors hold together, which a run allocates before its first step: numbers
// to the byte, and about how much with the records of where they are. May be beyond any machine.
struct RunBytes {
  double numbers = 0, all = 0;
};
[[nodiscard]] RunBytes run_bytes(const layout::Network& network,
                                 const layout::NetworkLayout& layout);

class NetworkRun {
 public:
  // On a mesh of exactly the workers' number, no dimension of size 1. Given numbers, integers and
  // targets follow from `seed`, the same for every layout.
  // Precondition: not_run says nothing, and the layout is legal.
  NetworkRun(const layout::Network& network, const layout::NetworkLayout& layout, Workers& workers,
             std::uint64_t seed);
  ~NetworkRun();

  NetworkTimes step();  // forward and backward
  [[nodiscard]] const std::vector<NetworkCounts>& counts() const { return counts_; }
  [[nodiscard]] double held_bytes() const;  // by all processors; run_bytes has derived it
  [[nodiscard]] const std::vector<NodeBlocks>& nodes(int processor) const;
  // Both must have made a step; `whole` runs on a mesh of one.
  [[nodiscard]] NetworkDifference difference(const NetworkRun& whole) const;

 private:
  const layout::Network& network_;
  layout::NetworkLayout layout_;
  Workers& workers_;
  ThreadBoard board_;
  std::unique_ptr<NetworkPlan> plan_;
  std::vector<std::unique_ptr<NetworkProcessor>> processors_;
  std::vector<NetworkCounts> counts_;
};

}  // namespace weir::cpu
