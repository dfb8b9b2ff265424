// A block's MLP on CUDA, between its products: the curve, in the product or behind it, and its
// slope.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/block_mlp.hpp"

#include "exec/cuda/kernels/activation.hpp"

namespace weir::cuda {

using block_places::Carried;
using block_places::Saved;

static_assert(static_cast<int>(Activation::gelu) == static_cast<int>(Curve::gelu) &&
              static_cast<int>(Activation::gelu_tanh) == static_cast<int>(Curve::gelu_tanh) &&
              static_cast<int>(Activation::relu) == static_cast<int>(Curve::relu) &&
              static_cast<int>(Activation::silu) == static_cast<int>(Curve::silu));
Curve curve_of(Activation activation) { return static_cast<Curve>(activation); }

template <class E>
void up_and_activate(const BlockCall<E>& block) {
  const auto& [shape, call, on, at, z, products] = block;
  const E *x = block.all_rows(block.mlp_read()), *w = block.weight(at.up_w);
  E *bias = block.weight(at.up_b), *u = block.saved(Saved::up), *g = block.saved(Saved::activated);
  const Gemm fused = products.up.forward(Epilogue::bias_gelu);
  if (on.matmul->ready(fused)) return on.multiply(fused, {x, w, g, bias, u});
  on.multiply(products.up.forward(), {x, w, u, bias});
  if (shape.gated) return gate<E>(curve_of(shape.activation), u, {z.rows, z.f}, g, on.stream);
  activate<E>(curve_of(shape.activation), u, z.rows * z.f, g, on.stream);
}
template void up_and_activate(const BlockCall<float>&);
template void up_and_activate(const BlockCall<Bf16>&);

Gemm activated_gradient(const TransformerShape& shape, const Linear& down) {
  Gemm gemm = down.input(Epilogue::none);
  if (shape.gated) gemm.c_row = 2 * (gemm.begins = shape.ffn);
  return gemm;
}

template <class E>
void activate_and_up_gradient(const BlockCall<E>& block, const E* d_down) {
  const auto& [shape, call, on, at, z, products] = block;
  const E* w = block.weight(at.down_w);
  E *u = block.saved(Saved::up), *du = block.carried(Carried::up_gradient);
  const Gemm fused = products.down.input(Epilogue::gelu_gradient);
  if (on.matmul->ready(fused)) return on.multiply(fused, {d_down, w, du, nullptr, u});
  on.multiply(activated_gradient(shape, products.down), {d_down, w, shape.gated ? du + z.f : du});
  const Curve curve = curve_of(shape.activation);
  if (shape.gated) return gate_gradient<E>(curve, u, {z.rows, z.f}, du, on.stream);
  activate_gradient<E>(curve, u, z.rows * z.f, du, on.stream);
}
template void activate_and_up_gradient(const BlockCall<float>&, const float*);
template void activate_and_up_gradient(const BlockCall<Bf16>&, const Bf16*);

}  // namespace weir::cuda
