// The matrix products of a head: logits[T, V] = x[T, h] w[V, h]', dx = dlogits w and
// dw (+)= dlogits' x; whole, or in two parts along the vocabulary.
//
// Tensor cores are fed best where extents, too, are multiples of 16 bytes and not only rows
// (cuBLAS' documentation, "Tensor Core Usage"). GPT-2's 50,257 columns are no multiple of anything;
// Megatron pads its table to 50,304 rows. Here nothing is padded: 50,176 columns, 392 tiles of 128,
// are one product, and the other 81 one of their own, so weights, gradients and files keep their
// size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cuda/blas/gemm.hpp"

namespace weir::cuda {

struct HeadPart {
  std::int64_t first = 0;  // the token with which its columns of logits and rows of w begin
  Gemm forward, input, weight;
};

struct HeadProducts {
  std::int64_t rows, hidden, vocabulary;  // T, h, V
  Element element;

  // From one row of logits to the next.
  [[nodiscard]] std::int64_t logits_step() const;
  // dw (+)= where `accumulate`.
  [[nodiscard]] HeadPart whole(bool accumulate) const;
  // To be launched in this order, since dx is made by the first and added to by the second: rounded
  // once between them, for the few columns alone. Where the whole is aligned, or too narrow, or not
  // in bf16, the whole.
  [[nodiscard]] std::vector<HeadPart> parts(bool accumulate) const;

 private:
  [[nodiscard]] HeadPart part(std::int64_t first, std::int64_t columns, bool accumulate) const;
};

}  // namespace weir::cuda
