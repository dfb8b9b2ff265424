// What stands where in LayerCall's lists for a transformer block: the order of
// plan/model/layer_tensors, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weir::block_places {

enum Weight : std::uint8_t {
  norm1_gain,
  norm1_shift,
  qkv_w,
  qkv_b,
  out_w,
  out_b,
  norm2_gain,
  norm2_shift,
  up_w,
  up_b,
  down_w,
  down_b
};
enum Saved : std::uint8_t {
  statistics1,
  normed1,
  qkv,
  probabilities,
  context,
  mlp_input,
  statistics2,
  normed2,
  up,
  activated
};
enum Carried : std::uint8_t { up_gradient, out_gradient, qkv_gradient, norm_gradients };

}  // namespace weir::block_places
