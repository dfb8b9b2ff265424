// The loss and its gradient: one walk there and one back over each row of logits, which is read
// once and written once where a block can hold it (bf16: 57,344 logits; fp32: 28,672).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// Row r, `row` elements after row r - 1, of finite logits becomes (softmax - one at its target) *
// scale, or without a target 0; what lies between the vocabulary and the next row is left alone.
// *loss = scale * the sum of -log softmax[target], in double. row_losses holds one double a row.
template <class E>
struct Logits {
  E* values;
  std::int64_t vocabulary, row;
};
template <class E>
void cross_entropy(const Logits<E>& logits, Targets targets, float scale, double* row_losses,
                   double* loss, cudaStream_t stream);

// Where devices divide the vocabulary (Shoeybi et al. 2019, section 3): `logits` are those of the
// rows that this one has, the first of them of token `first`; of its `rows` those behind
// `logits.vocabulary` fill the table up. Between the three the devices find, row by row, the
// largest of all, and the sums of `powers` and of `at_target`.
template <class E>
struct DividedLogits {
  Logits<E> logits;
  std::int64_t first, rows;
};
struct RowNumbers {  // a number a row of logits each
  float *largest, *powers, *at_target;
};
// largest = the largest logit.
template <class E>
void largest_logits(const DividedLogits<E>& of, Targets targets, const RowNumbers& numbers,
                    cudaStream_t stream);
// powers = the sum of exp(logit - largest); at_target = the target's logit - largest, 0 where
// another device has it.
template <class E>
void sum_powers(const DividedLogits<E>& of, Targets targets, const RowNumbers& numbers,
                cudaStream_t stream);
// As cross_entropy: the logits become its gradient, zeros in the rows that fill up, and *loss is
// the sum over the whole vocabulary.
template <class E>
void divided_cross_entropy(const DividedLogits<E>& of, Targets targets, float scale,
                           const RowNumbers& numbers, double* row_losses, double* loss,
                           cudaStream_t stream);

}  // namespace weir::cuda
