// How the processors of a mesh exchange blocks, between threads of one process or between processes
// (network_process_board). Sums are in the order of processors: the same bits in every run, and in
// both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cpu/layout/all_reduce.hpp"
#include "exec/cpu/layout/network_blocks.hpp"
#include "exec/cpu/layout/workers.hpp"

namespace weir::cpu {

// A move as a processor's reads: from the dimensions `from` to the same under the names `to`, place
// by place; partial sums over `pending` are added up where they are split over those in `to`.
struct Move {
  const std::vector<int>& from;
  const std::vector<int>& to;
  layout::Axes pending = 0;
};

class Board {
 public:
  Board(const layout::Network& network, const layout::NetworkLayout& layout)
      : network_(network), layout_(layout) {}
  virtual ~Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // Both return the numbers that were read from other processors. All processors call alike.
  virtual std::int64_t all_reduce(const MeshPlace& place, layout::Axes axes, float* block,
                                  std::int64_t n, Reduction reduction) = 0;
  virtual std::int64_t relocate(const MeshPlace& place, const Move& move, float* in,
                                float* out) = 0;

 protected:
  [[nodiscard]] const layout::Network& network() const { return network_; }
  [[nodiscard]] const layout::NetworkLayout& layout() const { return layout_; }

 private:
  const layout::Network& network_;
  const layout::NetworkLayout& layout_;
};

// What a processor reads for a move.
class MoveReads {
 public:
  MoveReads(const layout::Network& network, const layout::NetworkLayout& layout,
            const MeshPlace& place, const Move& move);
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  // visit(element, processor, offset): of each element of the target its summands, in the order of
  // processors, and where each lies in that one's block.
  template <class Visit>
  void each(const Visit& visit) const {
    std::vector<std::size_t> index(origins_.size(), 0);
    for (std::int64_t i = 0; i < elements_; ++i) {
      std::int64_t processor = base_, offset = 0;
      for (std::size_t d = 0; d < origins_.size(); ++d) {
        processor += origins_[d][index[d]].processor;
        offset += origins_[d][index[d]].offset;
      }
      for (const std::int64_t summand : summands_) visit(i, processor + summand, offset);
      // An odometer: the last dimension is the fastest.
      for (std::size_t d = origins_.size(); d-- > 0;) {
        if (++index[d] < origins_[d].size()) break;
        index[d] = 0;
      }
    }
  }

 private:
  // Of one index along a dimension of the target: where on the mesh, and where in the block there.
  struct Origin {
    std::int64_t processor, offset;
  };
  std::int64_t elements_ = 0, base_ = 0;
  std::vector<std::vector<Origin>> origins_;  // by dimension and index
  std::vector<std::int64_t> summands_;        // of a partial sum: processors, from the first one
};

// Between threads: each says where its own block is, all meet, each reads what it needs of the
// others', all meet again.
class ThreadBoard final : public Board {
 public:
  ThreadBoard(const layout::Network& network, const layout::NetworkLayout& layout, Workers& workers)
      : Board(network, layout),
        workers_(workers),
        blocks_(static_cast<std::size_t>(workers.count()), nullptr) {}
  std::int64_t all_reduce(const MeshPlace& place, layout::Axes axes, float* block, std::int64_t n,
                          Reduction reduction) override;
  std::int64_t relocate(const MeshPlace& place, const Move& move, float* in, float* out) override;

 private:
  Workers& workers_;
  std::vector<float*> blocks_;  // by processor; written before a meeting, read between two
};

}  // namespace weir::cpu
