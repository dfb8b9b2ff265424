# tools/jobs/torch/torch_layers.py compiled in, so that an exported script has it in itself.
# SPDX-License-Identifier: Apache-2.0
set(torch_layers ${CMAKE_SOURCE_DIR}/tools/jobs/torch/torch_layers.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${torch_layers})
file(READ ${torch_layers} TORCH_LAYERS)
set(TORCH_LAYERS_SOURCE ${CMAKE_BINARY_DIR}/torch_layers.cpp)
file(CONFIGURE OUTPUT ${TORCH_LAYERS_SOURCE} @ONLY CONTENT [[
// Generated from tools/jobs/torch/torch_layers.py by cmake/TorchLayers.cmake.
#include "tools/jobs/torch/torch_layers.hpp"

namespace weir {

std::string_view torch_layers_script() {
  return R"py(@TORCH_LAYERS@)py";
}

}  // namespace weir
]])
