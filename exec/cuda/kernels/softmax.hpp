// The softmax of attention that is kept in memory: scores in fp32, probabilities in E.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// A sample's s x s matrices, and where they begin among the micro-batch's: masks number its
// elements.
struct Matrices {
  std::int64_t count = 0, s = 0;
  std::int64_t first = 0;   // element
  std::int64_t window = 0;  // columns that row i sees, i the last; 0: all up to it
  bool causal = true;       // false: each row sees all, without a window
};

// Row i of each matrix: the softmax over the columns that it sees of scale * scores, zero beside
// them. masked = p * mask; may be null.
template <class E>
void softmax(float scale, const float* scores, const Matrices& size, const StepMask& mask, E* p,
             E* masked, cudaStream_t stream);

// The scores' gradient from that of the masked probabilities: with g = dp * mask,
// ds = scale * p * (g - sum(g * p)), row by row, zero where a row does not see.
template <class E>
void softmax_gradient(float scale, const E* p, const float* dp, const Matrices& size,
                      const StepMask& mask, E* ds, cudaStream_t stream);

}  // namespace weir::cuda
