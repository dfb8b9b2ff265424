// Asks a layer's kind for its tensors, on its part of a split.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/layer_tensors.hpp"

#include "plan/model/layer_kinds.hpp"

namespace weir {

LayerTensors layer_tensors(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                           const Split& split) {
  const kinds::DeviceTokens tokens{split.tokens(seq_length), seq_length, split.rows(seq_length),
                                   bytes_per_element(dtype)};
  const auto tensors = [&](const LayerShape& shape) {
    return std::visit([&](const auto& s) { return kinds::tensors(s, tokens); }, shape);
  };
  const bool whole = split.tp == 1 && split.ep == 1 && split.expert_load == 1;
  return whole ? tensors(layer.shape) : tensors(shard(layer.shape, split));
}

}  // namespace weir
