// Attention product by product on one core, its probabilities kept for the backward.
//
//   dP = (dc v') mask   dS = p (dP - sum(p dP)) scale
//   dq = dS k           dk = dS' q     dv = (p mask)' dc
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cpu/kernels/attention_size.hpp"
#include "exec/cpu/kernels/matmul.hpp"
#include "exec/training/philox.hpp"

namespace weir::cpu {

struct UnfusedAttention {
  AttentionSize size;
  DropoutMask mask;            // of the probabilities, numbered row-major in [batch, heads, s, s]
  const float* qkv = nullptr;  // [batch, s, heads + 2 kv_heads, d]
  float* context = nullptr;    // [batch, s, heads, d]
  float* probabilities = nullptr;  // [batch, heads, s, s]
  float* scratch = nullptr;        // s x s with dropout; backward two of them
};

void prepare_unfused(const AttentionSize& size, Matmul& matmul);
// Writes context and probabilities.
void unfused_forward(const UnfusedAttention& attention, Matmul& matmul);
// Writes the probabilities alone, to the same bits.
void unfused_probabilities(const UnfusedAttention& attention, Matmul& matmul);
// From the context's gradient to that of qkv, which is overwritten; reads the probabilities.
void unfused_backward(const UnfusedAttention& attention, const float* d_context, float* d_qkv,
                      Matmul& matmul);

}  // namespace weir::cpu
