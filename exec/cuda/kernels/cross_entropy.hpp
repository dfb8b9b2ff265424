// The loss and its gradient in one walk there and one back over each row of logits.
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
