// Sums over rows, in two stages: kRowsPerPartial rows each, then the partial sums. fp32, in an
// order given by the shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

constexpr std::int64_t kRowsPerPartial = 32;
constexpr std::int64_t partials_of(std::int64_t rows) {
  return (rows + kRowsPerPartial - 1) / kRowsPerPartial;
}

// Some vectors of one length, where sums go.
struct Vectors {
  float* of[4];
  int count;
};

// y[j] (+)= sum over rows of x[row, j]. partials: width * partials_of(rows).
template <class E>
void column_sum(const E* x, Rows size, Beta beta, float* partials, float* y, cudaStream_t stream);

// The second stage alone: y.of[v][j] (+)= sum over rows of partials[v, row, j].
void sum_partials(const float* partials, Rows size, Beta beta, const Vectors& y,
                  cudaStream_t stream);

// Vectors added to others, each of its own length.
struct Additions {
  struct One {
    const float* from;
    float* to;
    std::int64_t n;
  };
  static constexpr int kMost = 10;
  One of[kMost];
  int count;
};

// to[j] (+)= from[j] of each.
void accumulate(const Additions& additions, Beta beta, cudaStream_t stream);

}  // namespace weir::cuda
