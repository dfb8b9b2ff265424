// A head's products.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/head_products.hpp"

#include "plan/model/layer_tensors.hpp"

namespace weir::cuda {

std::int64_t HeadProducts::columns() const { return logits_row(vocabulary, bytes_of(element)); }

Gemm HeadProducts::forward() const {
  const std::int64_t v = columns(), h = hidden;
  return {.m = rows, .n = v, .k = h, .a_row = h, .b_row = 1, .b_column = h, .c_row = v};
}

Gemm HeadProducts::input() const {
  const std::int64_t v = columns(), h = hidden;
  return {.m = rows, .n = h, .k = v, .a_row = v, .b_row = h, .c_row = h};
}

Gemm HeadProducts::weight(bool accumulate) const {
  const std::int64_t v = columns(), h = hidden;
  return {.m = v,
          .n = h,
          .k = rows,
          .a_row = 1,
          .a_column = v,
          .b_row = h,
          .c_row = h,
          .accumulate = accumulate,
          .fp32_result = true};
}

}  // namespace weir::cuda
