// Slices are free and come first, gathers last: in between as little as can be is on its way.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/travel.hpp"

#include <algorithm>

#include "plan/words/indexed.hpp"
#include "plan/words/names.hpp"

namespace weir::layout {
namespace {

constexpr Names<Collective, 4> kCollectives{{{Collective::all_reduce, "all-reduce"},
                                             {Collective::all_gather, "all-gather"},
                                             {Collective::reduce_scatter, "reduce-scatter"},
                                             {Collective::all_to_all, "all-to-all"}}};

// Of a route's visits, the mesh dimensions of the places that stay at home.
Axes home_of(const NetworkLayout& layout, const Ends& ends) {
  const auto& visits = ends.visits_first ? ends.from : ends.to;
  const auto& tokens = ends.visits_first ? ends.to : ends.from;
  int last = -1;
  for (const int d : visits) {
    if (!has_dimension(tokens, d)) last = d;
  }
  return last < 0 ? 0 : layout.over[at(last)];
}

bool stays(const NetworkLayout& layout, const Ends& ends, Axes axis) {
  const auto on = [&](int d) { return (layout.over[at(d)] & axis) != 0; };
  for (std::size_t i = 0; ends.by_place && i < ends.from.size(); ++i) {
    if (on(ends.from[i]) && on(ends.to[i])) return true;
  }
  if (ends.by_place) return false;
  return (home_of(layout, ends) & axis) != 0 ||
         std::ranges::any_of(ends.from, [&](int d) { return on(d) && has_dimension(ends.to, d); });
}

}  // namespace

std::string_view to_string(Collective collective) { return name_of(kCollectives, collective); }

Travel travel(const Network& network, const NetworkLayout& layout, const Ends& ends, Axes pending) {
  const Axes from = axes_of(layout, ends.from), to = axes_of(layout, ends.to);
  Axes stay = 0;
  for (std::size_t m = 0; m < layout.mesh.size(); ++m) {
    const Axes axis = Axes{1} << m;
    if ((from & to & axis) != 0 && stays(layout, ends, axis)) stay |= axis;
  }
  const Axes moved = from & to & ~stay;
  // Each processor has what its experts gave, and nothing of the others' visits: a partial sum.
  const Axes experts = ends.visits_first ? from & ~to & ~home_of(layout, ends) : 0;
  const Axes gathered = from & ~to & ~experts, scattered = pending & to;
  const Axes sliced = to & ~from & ~pending;
  const double copies = whole_elements(network, ends.to) / whole_elements(network, ends.from);
  double n = block_elements(network, layout, ends.from) *
             static_cast<double>(members(layout, experts)) /
             static_cast<double>(members(layout, sliced));
  Travel way;
  const auto go = [&way](Collective collective, Axes axes, double brought) {
    if (axes != 0) way.legs.push_back({collective, axes, brought});
  };
  if (copies > 1) n *= copies;  // made before they travel
  if (copies < 1) {             // and added up when they are home
    go(Collective::all_to_all, moved, n);
    n *= copies;
  }
  go(Collective::reduce_scatter, scattered, n);
  n /= static_cast<double>(members(layout, scattered));
  if (copies >= 1) go(Collective::all_to_all, moved, n);
  n *= static_cast<double>(members(layout, gathered));
  go(Collective::all_gather, gathered, n);
  way.left = (pending & ~to) | experts;
  return way;
}

}  // namespace weir::layout
