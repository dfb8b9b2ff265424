// An einsum of two tensors on one processor's blocks, as matrix products. Its dimensions fall into
// four groups: in one input and the output (rows, columns), in both inputs (summed), in all three
// (one gemm for each of its indices). Blocks are row-major and stay as they are: strides do what
// a transposition would.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cpu/kernels/matmul.hpp"
#include "plan/layout/layout.hpp"

namespace weir::cpu {

struct LocalEinsum {
  Gemm gemm;
  int a = 0, b = 0;  // which tensors the gemm calls so
  struct Offsets {
    std::int64_t a = 0, b = 0, c = 0;
  };
  std::vector<Offsets> products;  // where each begins in its blocks
  [[nodiscard]] std::int64_t multiply_adds() const {
    return gemm.m * gemm.n * gemm.k * static_cast<std::int64_t>(products.size());
  }
};

// Throws std::invalid_argument, in words, where that cannot be: not two inputs, or a group whose
// dimensions do not lie side by side in the same order.
[[nodiscard]] LocalEinsum local_einsum(const layout::Program& program, const layout::Layout& layout,
                                       const layout::Einsum& einsum);

}  // namespace weir::cpu
