// What stands where in LayerCall's lists for a transformer block: the order of
// plan/model/layer_transformer, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/model/layer_shape.hpp"

namespace weir::block_places {

enum Saved : std::uint8_t {
  statistics1,
  normed1,  // and `normed2`: of a post-norm block the sums that its norms read
  qkv,
  probabilities,
  context,
  mlp_input,
  statistics2,
  normed2,
  up,
  activated,
  query_key,  // with norms of queries and keys
  query_key_statistics
};
enum Carried : std::uint8_t {
  up_gradient,
  out_gradient,
  qkv_gradient,
  norm_gradients,
  query_key_norm_gradients,                 // with norms of queries and keys
  down_gradient = query_key_norm_gradients  // of a post-norm block, which has no such norms
};

// Of its weights, those that the block has.
struct WeightPlaces {
  static constexpr int kAbsent = -1;
  int norm1_gain, norm1_shift, qkv_w, qkv_b, query_gain, key_gain, out_w, out_b, norm2_gain,
      norm2_shift, up_w, up_b, down_w, down_b;

  explicit WeightPlaces(const TransformerShape& shape) {
    int next = 0;
    const auto place = [&next](bool there) { return there ? next++ : kAbsent; };
    const bool shift = shape.norm == NormKind::layer_norm;
    norm1_gain = place(true);
    norm1_shift = place(shift);
    qkv_w = place(true);
    qkv_b = place(shape.qkv_bias);
    query_gain = place(shape.qk_norm);
    key_gain = place(shape.qk_norm);
    out_w = place(true);
    out_b = place(shape.output_bias);
    norm2_gain = place(true);
    norm2_shift = place(shift);
    up_w = place(true);
    up_b = place(shape.mlp_bias);
    down_w = place(true);
    down_b = place(shape.mlp_bias);
  }
};

}  // namespace weir::block_places
