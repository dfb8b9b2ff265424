// The matrix products of a head: logits[T, V] = x[T, h] w[V, h]', dx = dlogits w and
// dw (+)= dlogits' x. V is the vocabulary and, in 16 bits, what pads it to 16 bytes: without,
// GPT-2's 50,257 columns take cuBLASLt 13.1 on an H100 seven times as long (MEASURED.md). Rows of w
// behind the vocabulary are zero, so their logits are, which nobody reads and no loss changes, and
// so are their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cuda/blas/gemm.hpp"

namespace weir::cuda {

struct HeadProducts {
  std::int64_t rows, hidden, vocabulary;  // T, h, without padding
  Element element;

  // V, and from one row of logits to the next.
  [[nodiscard]] std::int64_t columns() const;
  [[nodiscard]] Gemm forward() const;
  [[nodiscard]] Gemm input() const;
  [[nodiscard]] Gemm weight(bool accumulate) const;  // dw (+)= where `accumulate`
};

}  // namespace weir::cuda
