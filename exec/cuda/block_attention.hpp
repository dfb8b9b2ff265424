// A block's attention on CUDA, between its products: heads to their positions, then the attention
// itself, and both backwards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/block.hpp"

namespace weir::cuda {

// Makes the products of a block's unfused attention ready, and says what scratch memory its
// attention needs.
[[nodiscard]] ScratchNeeds prepare_attention(const TransformerShape& shape, const BlockSize& size,
                                             Matmul& matmul);

// From what is saved as qkv to what is saved as the context: norms of heads, their turn to
// positions, attention.
template <class E>
void attend(const BlockCall<E>& block);

// From the context's gradient to what is carried as qkv's.
template <class E>
void attend_gradient(const BlockCall<E>& block, const E* d_context);

}  // namespace weir::cuda
