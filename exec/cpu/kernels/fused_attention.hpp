// Attention without its s x s probabilities (FlashAttention: Dao et al., NeurIPS 2022), on
// one core: a tile of query rows at a time against all the keys they see, so a row's softmax needs
// no second pass. Forward keeps of each row L = log sum_j exp(scale q k_j'); the backward makes p_j
// = exp(scale q k_j' - L) again.
//
//   dP = (dc v') mask   D = sum(c dc)   dS = p (dP - D) scale
//   dq = dS k           dk += dS' q     dv += (p mask)' dc
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/attention_size.hpp"
#include "exec/cpu/kernels/matmul.hpp"
#include "exec/training/philox.hpp"

namespace weir::cpu {

struct FusedAttention {
  AttentionSize size;
  DropoutMask mask;             // of the probabilities, numbered row-major in [batch, heads, s, s]
  const float* qkv = nullptr;   // [batch, s, heads + 2 kv_heads, d]
  float* context = nullptr;     // [batch, s, heads, d]
  float* statistics = nullptr;  // [batch, heads, s]: L
  float* tiles = nullptr;       // scratch: 2 tile_rows() x s
};

void prepare_fused(const AttentionSize& size, Matmul& matmul);
// Writes context and statistics.
void fused_forward(const FusedAttention& attention, Matmul& matmul);
// From the context's gradient to that of qkv, which is overwritten; reads context and statistics.
void fused_backward(const FusedAttention& attention, const float* d_context, float* d_qkv,
                    Matmul& matmul);

}  // namespace weir::cpu
