// The loss and its gradient: one walk there and one back over each row of logits, which is read
// once and written once where a block can hold it (bf16: 57,344 logits; fp32: 28,672).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// Row r, `row` elements after row r - 1, of finite logits becomes (softmax - one at its target) *
// scale; what lies between the vocabulary and the next row is left alone. *loss = scale * the sum
// of -log softmax[target], in double. row_losses holds one double a row.
template <class E>
struct Logits {
  E* values;
  std::int64_t vocabulary, row;
};
template <class E>
void cross_entropy(const Logits<E>& logits, Tokens tokens, float scale, double* row_losses,
                   double* loss, cudaStream_t stream);

}  // namespace weir::cuda
