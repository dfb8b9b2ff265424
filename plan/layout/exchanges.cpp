// A layer's share and its script, both of one derivation.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/exchanges.hpp"

#include <algorithm>

#include "plan/layout/layer_derivation.hpp"

namespace weir::layout {

LayerShare layer_share(const Network& network, const NetworkLayout& layout, std::size_t index) {
  return LayerDerivation(network, layout, network.layers[index]).derive();
}

std::vector<Instruction> layer_script(const Network& network, const NetworkLayout& layout,
                                      std::size_t index) {
  std::vector<Instruction> script;
  LayerDerivation derivation(network, layout, network.layers[index]);
  derivation.record(script);
  static_cast<void>(derivation.derive());
  return script;
}

bool keeps_given(const Network& network, const NetworkLayer& layer, int tensor) {
  const NetworkLayout nowhere{"", {}, std::vector<Axes>(network.dimensions.size(), 0)};
  const LayerShare share = LayerDerivation(network, nowhere, layer).derive();
  return std::ranges::any_of(
      share.kept, [tensor](const Kept& kept) { return kept.tensor == tensor && !kept.statistics; });
}

}  // namespace weir::layout
