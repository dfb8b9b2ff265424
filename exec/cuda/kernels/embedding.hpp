// Tables of tokens, positions and token types: looking rows up, and adding their gradients without
// atomics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/kernels/types.hpp"

namespace weir::cuda {

// Tokens whose rows a table has, the first of them in its first row.
struct TableRows {
  std::int64_t first = 0, count = 0;
};

template <class E>
struct EmbeddingTables {
  const E* token;
  const E *position = nullptr, *type = nullptr;  // may be null
};

// y = (token[id] + position[place] + type[its type]) * mask, with zeros for the row of a token that
// the table does not have.
template <class E>
void embed(Tokens tokens, TableRows has, const EmbeddingTables<E>& tables, std::int64_t width,
           const StepMask& mask, E* y, cudaStream_t stream);

// y = (y + position[place]) * mask of the rows from `first` on among those of all samples; position
// may be null.
template <class E>
void add_positions(const E* position, std::int64_t first, std::int64_t seq_length,
                   const StepMask& mask, Rows size, E* y, cudaStream_t stream);

// token_gradient[id] += dy * mask in ascending row order, of the tokens that the table has;
// position_gradient may be null. The gradients are fp32.
template <class E>
void embed_gradient(Tokens tokens, TableRows has, const E* dy, std::int64_t width,
                    const StepMask& mask, float* token_gradient, float* position_gradient,
                    cudaStream_t stream);

// gradient[type] (+)= dy * mask of that type's rows, for each of the table's `types`. partials:
// types * width * partials_of(rows) (exec/cuda/kernels/sums).
template <class E>
void type_gradient(Tokens tokens, const E* dy, Rows types, const StepMask& mask, Beta beta,
                   float* partials, float* gradient, cudaStream_t stream);

}  // namespace weir::cuda
