// What the passes of a transformer block share on CUDA: its products, and the lists of a
// call by name. T = batch * tokens rows; a weight is [out, in], so x W' is a gemm with the weight's
// strides exchanged, dx = dy W is plain, and dW = dy' x has dy's exchanged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/kernels/norms.hpp"
#include "exec/cuda/layers.hpp"
#include "exec/rank/block_places.hpp"
#include "exec/rank/block_size.hpp"
#include "plan/model/model.hpp"

namespace weir::cuda {

// Of the residual stream, those that the device has.
[[nodiscard]] inline Rows residual_rows(const BlockSize& size) { return {size.own.count, size.h}; }

// What a call's lists hold, by name; null where the block has no such weight. E: the type of
// activations and working weights.
template <class E>
struct BlockCall {
  const TransformerShape& shape;
  const LayerCall& call;
  const Workbench& on;
  block_places::WeightPlaces at{shape};
  BlockSize size{shape, call.batch, call.seq_length, on.group.at()};
  BlockProducts products = block_products(shape, size.rows);

  [[nodiscard]] E* weight(int place) const {
    if (place == block_places::WeightPlaces::kAbsent) return nullptr;
    return elements<E>(call.weights[static_cast<std::size_t>(place)]);
  }
  [[nodiscard]] E* saved(block_places::Saved which) const { return elements<E>(call.saved[which]); }
  [[nodiscard]] E* carried(block_places::Carried which) const {
    return elements<E>(call.carried[which]);
  }
  // What the products of the attention and of the MLP read: in front of each is a norm, or behind
  // each sum.
  [[nodiscard]] E* attention_read() const {
    return shape.pre_norm ? saved(block_places::normed1) : elements<E>(call.input);
  }
  [[nodiscard]] E* mlp_read() const {
    return saved(shape.pre_norm ? block_places::normed2 : block_places::mlp_input);
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
