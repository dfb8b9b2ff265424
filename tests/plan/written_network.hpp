// A network written down in a test, layer by layer, as a layout file has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/layout/network_text.hpp"

namespace weir {

inline void add_layer(layout::Network& network, const std::string& name,
                      const std::vector<std::string>& tensors,
                      const std::vector<std::string>& operations,
                      std::optional<std::vector<std::string>> reads = {}, std::int64_t repeat = 1) {
  layout::NetworkLayer layer;
  layer.name = name;
  layer.repeat = repeat;
  layer.reads = std::move(reads);
  for (const std::string& text : tensors) append_tensor(text, network, layer);
  for (const std::string& text : operations) append_operation(text, network, layer);
  finish_layer(network, layer);
  network.layers.push_back(std::move(layer));
}

}  // namespace weir
