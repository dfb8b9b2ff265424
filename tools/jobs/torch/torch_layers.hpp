// The texts of torch_layers.py, torch_graph.py and torch_layout.py, compiled in by
// cmake/TorchLayers.cmake.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace weir {

[[nodiscard]] std::string_view torch_layers_script();
[[nodiscard]] std::string_view torch_graph_script();
[[nodiscard]] std::string_view torch_layout_script();

}  // namespace weir
