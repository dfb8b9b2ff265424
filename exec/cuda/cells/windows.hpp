// An operation's windows, in the words of the kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/maps.hpp"
#include "plan/model/cell_shape.hpp"

namespace weir::cuda {

// Of a convolution, a pooling (a global one has the whole map for its window) or an upsampling.
[[nodiscard]] inline Windows windows_of(const FeatureMap& input, const CellOperation& operation,
                                        std::int64_t images) {
  const auto number = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  const bool global = operation.kind == CellOperationKind::global_pool;
  return {.images = number(images),
          .channels = number(input.channels),
          .in_height = number(input.height),
          .in_width = number(input.width),
          .out_height = number(operation.output.height),
          .out_width = number(operation.output.width),
          .kernel_y = number(global ? input.height : operation.kernel_y),
          .kernel_x = number(global ? input.width : operation.kernel_x),
          .stride_y = number(operation.stride_y),
          .stride_x = number(operation.stride_x),
          .pad_y = number(operation.pad_y),
          .pad_x = number(operation.pad_x)};
}

}  // namespace weir::cuda
