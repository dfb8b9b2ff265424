// How the processors of a mesh exchange blocks, between threads of one process or between processes
// (network_process_board). Sums are in the order of processors: the same bits in every run, and in
// both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cpu/layout/kernels/all_reduce.hpp"
#include "exec/cpu/layout/kernels/network_blocks.hpp"
#include "exec/cpu/layout/network_moves.hpp"
#include "exec/cpu/layout/workers.hpp"

namespace weir::cpu {

class Board {
 public:
  Board(const layout::Network& network, const layout::NetworkLayout& layout)
      : network_(network), layout_(layout) {}
  virtual ~Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // All return the numbers that were read from other processors. All processors call alike.
  virtual std::int64_t all_reduce(const MeshPlace& place, layout::Axes axes, float* block,
                                  std::int64_t n, Reduction reduction) = 0;
  virtual std::int64_t relocate(const MeshPlace& place, const Move& move, float* in,
                                float* out) = 0;
  // Of a block that processors share, those along `sharers` a part each: sums this processor's part
  // over those along `axes`, which are among them; and takes the others' parts from all of them.
  virtual std::int64_t reduce_share(const MeshPlace& place, layout::Axes axes, layout::Axes sharers,
                                    std::span<float> block) = 0;
  virtual std::int64_t gather_shares(const MeshPlace& place, layout::Axes sharers,
                                     std::span<float> block) = 0;

 protected:
  [[nodiscard]] const layout::Network& network() const { return network_; }
  [[nodiscard]] const layout::NetworkLayout& layout() const { return layout_; }

 private:
  const layout::Network& network_;
  const layout::NetworkLayout& layout_;
};

// Which of a shared block's numbers are a processor's.
struct SharedPart {
  ReducedParts parts;
  int member = 0;
  [[nodiscard]] std::int64_t begin() const { return parts.begin_of(member); }
  [[nodiscard]] std::int64_t size() const { return parts.begin_of(member + 1) - begin(); }
};
[[nodiscard]] SharedPart shared_part(const layout::NetworkLayout& layout, const MeshPlace& place,
                                     layout::Axes sharers, std::int64_t elements);

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
  std::int64_t reduce_share(const MeshPlace& place, layout::Axes axes, layout::Axes sharers,
                            std::span<float> block) override;
  std::int64_t gather_shares(const MeshPlace& place, layout::Axes sharers,
                             std::span<float> block) override;

 private:
  [[nodiscard]] std::vector<float*> blocks_along(const MeshPlace& place, layout::Axes axes) const;
  Workers& workers_;
  std::vector<float*> blocks_;  // by processor; written before a meeting, read between two
};

}  // namespace weir::cpu
