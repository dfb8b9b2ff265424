// How numbers get from the blocks of one tensor to those of another that has the same under other
// dimensions: what stays where it is, what is sliced, and by which collectives the rest goes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/layout/network.hpp"

namespace weir::layout {

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all };
[[nodiscard]] std::string_view to_string(Collective collective);

// Which dimensions of a move's two ends are the same place: a mesh dimension on both sides of a
// pair moves nothing. Of a route the places at home, written last of the visits' own, are where
// any of the tokens' dimensions are.
struct Ends {
  const std::vector<int>& from;
  const std::vector<int>& to;
  bool by_place = true;       // a move; else a route or its way back
  bool visits_first = false;  // of a route: `from` are the visits
};

struct Leg {
  Collective collective = Collective::all_gather;
  Axes axes = 0;
  double elements = 0;  // what each processor brings; of an all-gather the gathered whole
};

struct Travel {
  std::vector<Leg> legs;  // one after the other
  Axes left = 0;          // what is a partial sum behind them still
};

// From one end to the other, of partial sums over `pending`.
[[nodiscard]] Travel travel(const Network& network, const NetworkLayout& layout, const Ends& ends,
                            Axes pending);

}  // namespace weir::layout
