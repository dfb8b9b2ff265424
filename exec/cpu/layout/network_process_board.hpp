// The processors of a mesh as processes: blocks go by messages, in the order in which the receiver
// reads them. The bits and the counts are those of threads (ThreadBoard).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cpu/layout/network_board.hpp"
#include "exec/processes/processes.hpp"

namespace weir::cpu {

// About what all processes together hold for messages at a time, beside run_bytes().
[[nodiscard]] double message_bytes(const layout::Network& network,
                                   const layout::NetworkLayout& layout);

// Process p is processor p of the mesh. Both throw Transport::Stopped once a process has failed.
class ProcessBoard final : public Board {
 public:
  ProcessBoard(const layout::Network& network, const layout::NetworkLayout& layout,
               Processes& processes)
      : Board(network, layout), processes_(processes) {}
  std::int64_t all_reduce(const MeshPlace& place, layout::Axes axes, float* block, std::int64_t n,
                          Reduction reduction) override;
  std::int64_t relocate(const MeshPlace& place, const Move& move, float* in, float* out) override;
  std::int64_t reduce_share(const MeshPlace& place, layout::Axes axes, layout::Axes sharers,
                            std::span<float> block) override;
  std::int64_t gather_shares(const MeshPlace& place, layout::Axes sharers,
                             std::span<float> block) override;

 private:
  Processes& processes_;
};

}  // namespace weir::cpu
