// Dimensions sorted by side.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_routes.hpp"

#include <algorithm>

#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

using layout::Act;
using layout::Axes;

// Tokens that follow each other on a processor without a gap: from the last dimension that is split
// on.
std::int64_t tokens_in_a_row(const layout::Network& network, const layout::NetworkLayout& layout,
                             const std::vector<int>& tokens) {
  std::int64_t run = 1;
  for (std::size_t d = tokens.size(); d-- > 0;) {
    const Axes axes = layout.over[at(tokens[d])];
    run *= network.dimensions[at(tokens[d])].size / members(layout, axes);
    if (axes != 0) break;
  }
  return run;
}

}  // namespace

RouteSides route_sides(const layout::Network& network, const std::vector<int>& tokens,
                       const std::vector<int>& visits) {
  const auto without = [](std::vector<int> these, const std::vector<int>& those) {
    std::erase_if(these, [&](int d) { return layout::has_dimension(those, d); });
    return these;
  };
  RouteSides sides{without(tokens, visits), without(visits, tokens)};
  std::int64_t all = 1;
  for (const int d : sides.tokens) all *= network.dimensions[at(d)].size;
  sides.slots = network.dimensions[at(sides.visits.back())].size;
  for (std::size_t d = 0; d + 1 < sides.visits.size(); ++d)
    sides.experts *= network.dimensions[at(sides.visits[d])].size;
  sides.copies = sides.experts * sides.slots / all;
  return sides;
}

bool routes_as_priced(const layout::Network& network, const layout::NetworkLayout& layout) {
  for (const layout::NetworkLayer& layer : network.layers) {
    for (const layout::Operation& o : layer.operations) {
      if (o.act != Act::route && o.act != Act::back) continue;
      const auto& in = layer.tensors[at(o.inputs[0])].dimensions;
      const auto& out = layer.tensors[at(o.output)].dimensions;
      const RouteSides sides =
          o.act == Act::route ? route_sides(network, in, out) : route_sides(network, out, in);
      const Axes slots = layout.over[at(sides.visits.back())];
      if ((slots & ~layout.over[at(sides.tokens.front())]) != 0) return false;
      if ((axes_of(layout, sides.tokens) & ~axes_of(layout, sides.visits)) != 0) return false;
      Axes experts = 0;
      for (std::size_t d = 0; d + 1 < sides.visits.size(); ++d)
        experts |= layout.over[at(sides.visits[d])];
      const std::int64_t row = tokens_in_a_row(network, layout, sides.tokens) * sides.copies;
      if ((slots | experts) != 0 && row % sides.experts != 0) return false;
    }
  }
  return true;
}

}  // namespace weir::cpu
