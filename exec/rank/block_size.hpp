// The sizes of a transformer block as a device of those that divide it computes it, and where its
// parts of rows, of heads' matrices and of I's workspace begin.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "exec/device/tensor_group.hpp"
#include "plan/model/layer_shape.hpp"

namespace weir {

struct BlockSize {
  std::int64_t rows, batch, s, h, f, heads, kv_heads, d;
  std::int64_t window;  // keys that a query sees; 0: all up to itself
  bool causal;          // false: each query sees all keys
  int place, places;    // among the devices that divide the block
  RowRun own;           // of the residual stream, the rows that the device has
  std::int64_t room;    // numbers at the workspace's begin where all rows are gathered: none where
                        // the device has them
  BlockSize(const TransformerShape& shape, std::int64_t batch_size, std::int64_t seq_length,
            const DevicePlace& at)
      : rows(batch_size * seq_length),
        batch(batch_size),
        s(seq_length),
        h(shape.hidden),
        f(shape.ffn),
        heads(shape.heads),
        kv_heads(shape.kv_heads),
        d(shape.head_dim),
        window(shape.window < seq_length ? shape.window : 0),
        causal(shape.causal),
        place(at.place),
        places(at.places),
        own(at.own_rows(rows)),
        room(at.divides_rows ? rows * h : 0) {}
  [[nodiscard]] std::int64_t q() const { return heads * d; }
  [[nodiscard]] std::int64_t qkv() const { return (heads + 2 * kv_heads) * d; }
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }  // queries to a key
  [[nodiscard]] std::int64_t matrices() const { return heads * s * s; }  // elements of one sample's
  [[nodiscard]] std::int64_t elements() const { return rows * h; }  // of all rows' residual stream
  // Where the device's of the residual stream begin among all rows' numbers: masks are drawn by it.
  [[nodiscard]] std::int64_t first_number() const { return own.first * h; }
  // Among the heads of all devices.
  [[nodiscard]] std::int64_t first_head() const { return place * heads; }
  [[nodiscard]] std::int64_t all_heads() const { return places * heads; }
  // Where a sample's matrices begin among those of all devices.
  [[nodiscard]] std::int64_t first_matrix(std::int64_t sample) const {
    return (sample * places + place) * matrices();
  }
  // Of I's workspace, behind the room: first the context's gradient, for which there is room beside
  // the residual stream's; behind both, what the attention's backward works in.
  [[nodiscard]] std::int64_t first() const { return room; }
  [[nodiscard]] std::int64_t second() const { return room + rows * std::max(h, q()); }
  [[nodiscard]] std::int64_t third() const { return second() + elements(); }
};

}  // namespace weir
