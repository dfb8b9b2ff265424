// What the passes of a transformer block share on CUDA: its sizes, its products, and the lists of a
// call by name. T = batch * tokens rows; a weight is [out, in], so x W' is a gemm with the weight's
// strides exchanged, dx = dy W is plain, and dW = dy' x has dy's exchanged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/kernels/norms.hpp"
#include "exec/cuda/layers.hpp"
#include "exec/rank/block_places.hpp"
#include "plan/model/model.hpp"

namespace weir::cuda {

struct BlockSize {
  std::int64_t rows, batch, s, h, f, heads, kv_heads, d;
  std::int64_t window;  // keys that a query sees; 0: all up to itself
  int place, places;    // among the devices that divide the block
  RowRun own;           // of the residual stream, the rows that the device has
  std::int64_t room;    // numbers at the workspace's begin where all rows are gathered: none where
                        // the device has them
  BlockSize(const TransformerShape& shape, std::int64_t batch_size, std::int64_t seq_length,
            const Group& group)
      : rows(batch_size * seq_length),
        batch(batch_size),
        s(seq_length),
        h(shape.hidden),
        f(shape.ffn),
        heads(shape.heads),
        kv_heads(shape.kv_heads),
        d(shape.head_dim),
        window(shape.window < seq_length ? shape.window : 0),
        place(group.place),
        places(group.places),
        own(group.own_rows(rows)),
        room(group.divides_rows ? rows * h : 0) {}
  [[nodiscard]] std::int64_t q() const { return heads * d; }
  [[nodiscard]] std::int64_t qkv() const { return (heads + 2 * kv_heads) * d; }
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }  // queries to a key
  [[nodiscard]] std::int64_t matrices() const { return heads * s * s; }  // elements of one sample's
  [[nodiscard]] std::int64_t elements() const { return rows * h; }  // of all rows' residual stream
  // The device's of the residual stream, and where these begin among all rows' numbers.
  [[nodiscard]] Rows residual() const { return {own.count, h}; }
  [[nodiscard]] std::int64_t first_number() const { return own.first * h; }
  // Where a sample's matrices begin among those of all devices.
  [[nodiscard]] std::int64_t first_matrix(std::int64_t sample) const {
    return (sample * places + place) * matrices();
  }
  // Of I's workspace, behind the room: first the context's gradient, for which there is room beside
  // the residual stream's; behind both, fused, the row sums of the attention's backward.
  [[nodiscard]] std::int64_t first() const { return room; }
  [[nodiscard]] std::int64_t second() const { return room + rows * std::max(h, q()); }
  [[nodiscard]] std::int64_t third() const { return second() + elements(); }
};

// What a call's lists hold, by name; null where the block has no such weight. E: the type of
// activations and working weights.
template <class E>
struct BlockCall {
  const TransformerShape& shape;
  const LayerCall& call;
  const Workbench& on;
  block_places::WeightPlaces at{shape};
  BlockSize size{shape, call.batch, call.seq_length, on.group};
  BlockProducts products = block_products(shape, size.rows);

  [[nodiscard]] E* weight(int place) const {
    if (place == block_places::WeightPlaces::kAbsent) return nullptr;
    return elements<E>(call.weights[static_cast<std::size_t>(place)]);
  }
  [[nodiscard]] E* saved(block_places::Saved which) const { return elements<E>(call.saved[which]); }
  [[nodiscard]] E* carried(block_places::Carried which) const {
    return elements<E>(call.carried[which]);
  }
  [[nodiscard]] E* workspace() const { return elements<E>(call.workspace); }
  [[nodiscard]] StepMask mask(double probability, DropoutSite site, std::int64_t first = 0) const {
    return on.mask(call, probability, site, first);
  }
  // Of the residual stream, of the device's rows.
  [[nodiscard]] StepMask residual_mask(DropoutSite site) const {
    return mask(shape.residual_dropout, site, size.first_number());
  }
  // All rows of what the device has its own of, at the workspace's begin, or at `place` in it.
  [[nodiscard]] const E* all_rows(const E* own, std::int64_t place = 0) const {
    return on.group.all_rows<E>(own, size.elements(), workspace() + place);
  }
};

}  // namespace weir::cuda
