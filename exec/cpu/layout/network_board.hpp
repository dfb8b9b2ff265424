// How the processors of a mesh exchange blocks, between threads of one process or between processes
// (network_process_board). Sums are in the order of processors: the same bits in every run, and in
// both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cpu/layout/all_reduce.hpp"
#include "exec/cpu/layout/network_blocks.hpp"
#include "exec/cpu/layout/workers.hpp"

namespace weir::cpu {

// A move as a processor's reads: from the dimensions `from` to the same under the names `to`, place
// by place; partial sums over `pending` are added up where they are split over those in `to`. Of a
// route one end has tokens and the other visits of experts (network_routes).
struct Move {
  const std::vector<int>& from;
  const std::vector<int>& to;
  layout::Axes pending = 0;
  enum class Visits : std::uint8_t { none, from, to } visits = Visits::none;
};

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

// What a processor reads for a move.
class MoveReads {
 public:
  MoveReads(const layout::Network& network, const layout::NetworkLayout& layout,
            const MeshPlace& place, const Move& move);
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  // visit(element, processor, offset): of each element of the target its summands, a token's visits
  // in their order, partial sums in that of processors, and where each lies in that one's block.
  template <class Visit>
  void each(const Visit& visit) const {
    std::vector<std::size_t> index(origins_.size(), 0);
    for (std::int64_t i = 0; i < elements_; ++i) {
      std::int64_t processor = base_, offset = 0;
      std::size_t place = 0;
      for (std::size_t d = 0; d < origins_.size(); ++d) {
        place += index[d] * routed_[d];
        processor += origins_[d][index[d]].processor;
        offset += origins_[d][index[d]].offset;
      }
      for (std::size_t v = first_[place]; v < first_[place + 1]; ++v) {
        for (const std::int64_t summand : summands_)
          visit(i, processor + visits_[v].processor + summand, offset + visits_[v].offset);
      }
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
  void set_visits(const layout::Network& network, const layout::NetworkLayout& layout,
                  const MeshPlace& place, const Move& move);

  std::int64_t elements_ = 0, base_ = 0;
  std::vector<std::vector<Origin>> origins_;  // by dimension and index
  std::vector<std::int64_t> summands_;        // of a partial sum: processors, from the first one
  // Of a route's dimensions that only one end has, all together: origins by their places, a token's
  // visits beside each other. Else there is one place, from where it is.
  std::vector<std::size_t> routed_;  // by dimension: how far places of neighbours are apart
  std::vector<std::size_t> first_{0, 1};
  std::vector<Origin> visits_{{0, 0}};
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
