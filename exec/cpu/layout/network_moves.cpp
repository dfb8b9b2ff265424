// Dimension by dimension where both ends have a name for it, else place by place.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_moves.hpp"

#include "exec/cpu/layout/network_routes.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {

using layout::Axes;

MoveReads::MoveReads(const layout::Network& network, const layout::NetworkLayout& layout,
                     const MeshPlace& place, const Move& move) {
  const BlockShape a(network, layout, move.from), b(network, layout, move.to);
  const Axes source = axes_of(layout, move.from),
             scattered = move.pending & axes_of(layout, move.to);
  elements_ = b.elements;
  // Where nothing that moves says otherwise, a processor's own block is read.
  base_ = place.processor() - place.step_to(source, place.part(source)) -
          place.step_to(scattered, place.part(scattered));
  origins_.resize(move.to.size());
  routed_.assign(move.to.size(), 0);
  for (std::int64_t p = 0; p < members(layout, scattered); ++p)
    summands_.push_back(place.step_to(scattered, p));
  if (move.visits != Move::Visits::none) {
    set_visits(network, layout, place, move);
    return;
  }
  for (std::size_t d = 0; d < move.to.size(); ++d) {
    const std::int64_t begin = place.part(layout.over[at(move.to[d])]) * b.sizes[d];
    for (std::int64_t i = begin; i < begin + b.sizes[d]; ++i) {
      origins_[d].push_back({place.step_to(layout.over[at(move.from[d])], i / a.sizes[d]),
                             i % a.sizes[d] * a.strides[d]});
    }
  }
}

namespace {

// Of one index over several dimensions of a whole tensor, row by row: where it is in a block, and
// on the mesh.
struct Places {
  const layout::Network& network;
  const layout::NetworkLayout& layout;
  const std::vector<int>& dimensions;
  const BlockShape& block;

  // f(dimension, the index along it), from the last one.
  template <class Each>
  void along(std::int64_t index, const Each& f) const {
    for (std::size_t d = dimensions.size(); d-- > 0;) {
      const std::int64_t size = network.dimensions[at(dimensions[d])].size;
      f(dimensions[d], index % size);
      index /= size;
    }
  }
};

}  // namespace

void MoveReads::set_visits(const layout::Network& network, const layout::NetworkLayout& layout,
                           const MeshPlace& place, const Move& move) {
  const bool to_visits = move.visits == Move::Visits::to;
  const RouteSides sides = to_visits ? route_sides(network, move.from, move.to)
                                     : route_sides(network, move.to, move.from);
  const std::vector<int>&own = to_visits ? sides.visits : sides.tokens,
        &others = to_visits ? sides.tokens : sides.visits;
  const BlockShape a(network, layout, move.from), b(network, layout, move.to);
  // What both ends have moves as ever, dimension by dimension; what one has, together.
  std::size_t apart = 1;
  for (std::size_t d = move.to.size(); d-- > 0;) {
    const int dimension = move.to[d];
    const std::int64_t size = b.sizes[d], begin = place.part(layout.over[at(dimension)]) * size;
    origins_[d].assign(at(size), {0, 0});
    if (layout::has_dimension(own, dimension)) {
      routed_[d] = apart;
      apart *= at(size);
      continue;
    }
    for (std::int64_t i = 0; i < size; ++i)
      origins_[d][at(i)] = {place.step_to(layout.over[at(dimension)], (begin + i) / size),
                            (begin + i) % size * a.stride(dimension)};
  }
  // Experts' answers stay where they are made if tokens are whole there: each processor has its own
  // alone, and the others' are 0.
  const Axes to = axes_of(layout, move.to), home = layout.over[at(sides.visits.back())];
  const Axes alone = to_visits ? 0 : axes_of(layout, move.from) & ~to & ~home;
  const auto origin = [&](std::int64_t index) {
    Origin from{0, 0};
    Places{network, layout, others, a}.along(index, [&](int d, std::int64_t i) {
      from.processor += place.step_to(layout.over[at(d)], i / a.size(d));
      from.offset += i % a.size(d) * a.stride(d);
    });
    return from;
  };
  first_.assign(1, 0);
  visits_.clear();
  walk_whole(network, layout, place, own, [&](std::int64_t, std::int64_t whole) {
    const std::int64_t first =
        to_visits ? visit_of(whole / sides.slots, whole % sides.slots, sides.experts) / sides.copies
                  : whole * sides.copies;
    for (std::int64_t v = first; v < first + (to_visits ? 1 : sides.copies); ++v) {
      const Origin from =
          origin(to_visits ? v : expert_of(v, sides.experts) * sides.slots + v / sides.experts);
      const auto here = [&] {
        const MeshPlace there(layout, static_cast<int>(base_ + from.processor));
        return there.part(alone) == place.part(alone);
      };
      if (alone == 0 || here()) visits_.push_back(from);
    }
    first_.push_back(visits_.size());
  });
}

}  // namespace weir::cpu
