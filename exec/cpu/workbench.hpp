// What a device's passes work with beside the tensors of their layer: matrix products,
// convolutions, and the tables of rotary positions, in memory that is taken from the arena for the
// whole run. Products and convolutions, which never run at once, share theirs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "exec/cpu/convolution.hpp"
#include "exec/cpu/matmul.hpp"
#include "exec/cpu/rotary.hpp"
#include "exec/device/tensor_group.hpp"
#include "plan/model/tensor_list.hpp"

namespace weir::cpu {

struct Workbench {
  Matmul matmul;
  Convolutions convolutions;
  RotaryTables rotary;
  TensorGroup* group = nullptr;  // the devices that divide the layers with this one; null: none do

  // Each device of the group has made a part of these numbers; alone, they are whole.
  void sum_parts(float* values, std::int64_t count) const {
    if (group != nullptr) group->sum({values, static_cast<std::size_t>(count)});
  }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    const std::int64_t tables = rotary.bytes();
    return tables == 0 ? library_bytes() : aligned_bytes(library_bytes()) + tables;
  }
  void use_scratch(std::byte* scratch) {
    matmul.use_scratch(scratch);
    convolutions.use_scratch(scratch);
    if (rotary.bytes() > 0)
      rotary.use(reinterpret_cast<float*>(scratch + aligned_bytes(library_bytes())));
  }

 private:
  [[nodiscard]] std::int64_t library_bytes() const {
    return std::max(matmul.scratch_bytes(), convolutions.scratch_bytes());
  }
};

}  // namespace weir::cpu
