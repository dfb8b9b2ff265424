// A block's attention on the CPU, between its products: heads to their positions, then the
// attention itself, and both backwards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cpu/block.hpp"
#include "exec/cpu/workbench.hpp"

namespace weir::cpu {

// Makes the kernels of a block's attention ready.
void prepare_attention(const TransformerShape& shape, const BlockSize& size, Workbench& on);

// From what is saved as qkv to what is saved as the context: norms of heads, their turn to
// positions, attention. Overwrites the call's output and workspace.
void attend(const BlockCall& block, const BlockSize& size, Workbench& on);

// What is saved of the attention's core again, from what is saved as qkv, before the backward; to
// the same bits. Scratch as the backward's.
void attend_again(const BlockCall& block, const BlockSize& size, float* scratch, Workbench& on);

// From the context's gradient to what is carried as qkv's. Scratch: two s x s matrices; fused, a
// sample's s x h.
void attend_gradient(const BlockCall& block, const BlockSize& size, const float* d_context,
                     float* scratch, Workbench& on);

}  // namespace weir::cpu
