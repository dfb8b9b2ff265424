// What a device's passes work with beside the tensors of their layer: matrix products, and the
// tables of rotary positions. Both live in memory that is taken from the arena for the whole run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cpu/matmul.hpp"
#include "exec/cpu/rotary.hpp"
#include "plan/model/tensor_list.hpp"

namespace weir::cpu {

struct Workbench {
  Matmul matmul;
  RotaryTables rotary;

  [[nodiscard]] std::int64_t scratch_bytes() const {
    const std::int64_t tables = rotary.bytes();
    return tables == 0 ? matmul.scratch_bytes() : aligned_bytes(matmul.scratch_bytes()) + tables;
  }
  void use_scratch(std::byte* scratch) {
    matmul.use_scratch(scratch);
    if (rotary.bytes() > 0)
      rotary.use(reinterpret_cast<float*>(scratch + aligned_bytes(matmul.scratch_bytes())));
  }
};

}  // namespace weir::cpu
