// The kernels of a cell on the CUDA executor (exec/cuda/cells), as
// costmodel/layers/executor_kernels lists those of a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/model/cell_shape.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct CellKernel {
  const char* action;  // "F" or "B"
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t calls = 1;
  Flops flops{0};
};

// Of a micro-batch's first pass, in the order of launches; `element`: the bytes of an activation.
[[nodiscard]] std::vector<CellKernel> cell_kernels(const CellShape& cell, std::int64_t batch,
                                                   std::int64_t element);

}  // namespace weir
