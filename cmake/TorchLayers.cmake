# tools/jobs/torch/torch_layers.py, torch_graph.py and torch_layout.py compiled in, so that an
# exported script has them in itself.
# SPDX-License-Identifier: Apache-2.0
set(torch_scripts ${CMAKE_SOURCE_DIR}/tools/jobs/torch)
foreach(name layers graph layout)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${torch_scripts}/torch_${name}.py)
endforeach()
file(READ ${torch_scripts}/torch_layers.py TORCH_LAYERS)
file(READ ${torch_scripts}/torch_graph.py TORCH_GRAPH)
file(READ ${torch_scripts}/torch_layout.py TORCH_LAYOUT)
set(TORCH_LAYERS_SOURCE ${CMAKE_BINARY_DIR}/torch_layers.cpp)
file(CONFIGURE OUTPUT ${TORCH_LAYERS_SOURCE} @ONLY CONTENT [[
// Generated from tools/jobs/torch/*.py by cmake/TorchLayers.cmake.
#include "tools/jobs/torch/torch_layers.hpp"

namespace weir {

std::string_view torch_layers_script() {
  return R"py(@TORCH_LAYERS@)py";
}

std::string_view torch_graph_script() {
  return R"py(@TORCH_GRAPH@)py";
}

std::string_view torch_layout_script() {
  return R"py(@TORCH_LAYOUT@)py";
}

}  // namespace weir
]])
