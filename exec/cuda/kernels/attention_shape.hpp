// What the attention of one block is given and gives: shapes and the tensors of its two passes.
// Read by nvcc too: C++17.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "exec/training/philox.hpp"
#include "plan/words/dtype.hpp"

namespace weir::cuda {

// A row of qkv [batch, s, (heads + 2 kv_heads) d]: the queries' heads, the keys' and the values'.
// Query head i reads keys and values i / group().
struct AttentionShape {
  std::int64_t batch = 1, s = 1, heads = 1, d = 1;
  Dtype dtype = Dtype::fp32;      // of qkv, context and their gradients
  bool dropout = false;           // of the probabilities
  std::int64_t kv_heads = heads;  // divides heads
  std::int64_t window = 0;        // keys that a query sees, itself the last; 0: all up to it
  // Where devices divide a block's heads: how many come before these, and how many it has.
  std::int64_t first_head = 0, all_heads = heads;
  bool causal = true;  // false: each query sees all keys, without a window
  [[nodiscard]] std::int64_t width() const { return heads * d; }
  [[nodiscard]] std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * d; }
  [[nodiscard]] std::int64_t keys_at() const { return width(); }  // in a row
  [[nodiscard]] std::int64_t values_at() const { return (heads + kv_heads) * d; }
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(d)); }
  [[nodiscard]] std::int64_t rows() const { return batch * heads * s; }  // floats of the statistics
};

// Which of the probabilities are dropped: a mask numbered row-major in [batch, all_heads, s, s].
// `step`, in device memory, takes the place of the mask's own where it is not null, so that a
// captured graph stays right at every later step.
struct AttentionMask {
  DropoutMask mask;
  const std::uint32_t* step = nullptr;
};

// Device memory.
struct AttentionForward {
  const void* qkv = nullptr;
  AttentionMask mask;
  void* context = nullptr;      // [batch, s, heads, d]
  float* statistics = nullptr;  // [batch, heads, s]: log sum_j exp(q k_j' / sqrt d)
};
struct AttentionBackward {
  const void* qkv = nullptr;
  const void* context = nullptr;
  const float* statistics = nullptr;
  const void* d_context = nullptr;
  AttentionMask mask;
  void* d_qkv = nullptr;
  float* row_sums = nullptr;  // scratch, [batch, heads, s]: sum(context x its gradient) over d
};

}  // namespace weir::cuda
