// How the processors of a mesh exchange blocks: each says where its own is, all meet, each reads
// what it needs of the others', all meet again. Sums are in the order of processors: the same bits
// in every run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "exec/cpu/layout/all_reduce.hpp"
#include "exec/cpu/layout/network_blocks.hpp"
#include "exec/cpu/layout/workers.hpp"

namespace weir::cpu {

class Board {
 public:
  Board(const layout::Network& network, const layout::NetworkLayout& layout, Workers& workers)
      : network_(network),
        layout_(layout),
        workers_(workers),
        blocks_(static_cast<std::size_t>(workers.count()), nullptr) {}

  // Both return the numbers that were read from other processors. All processors call alike.
  std::int64_t all_reduce(const MeshPlace& place, layout::Axes axes, float* block, std::int64_t n,
                          Reduction reduction = Reduction::sum);
  // From the dimensions `from` to the same under the names `to`, place by place; partial sums over
  // `pending` are added up where they are split over those in `to`.
  std::int64_t relocate(const MeshPlace& place, const std::vector<int>& from,
                        const std::vector<int>& to, layout::Axes pending, float* in, float* out);

 private:
  const layout::Network& network_;
  const layout::NetworkLayout& layout_;
  Workers& workers_;
  std::vector<float*> blocks_;  // by processor; written before a meeting, read between two
};

}  // namespace weir::cpu
