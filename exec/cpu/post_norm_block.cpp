// Passes of the post-norm block.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/post_norm_block.hpp"

#include "exec/cpu/block_attention.hpp"
#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/layers.hpp"

namespace weir::cpu {

using block_places::Carried;
using block_places::Saved;

void post_norm_forward(const BlockCall& block, const BlockSize& z, Workbench& on) {
  const TransformerShape& shape = block.shape;
  const auto& at = block.at;
  const float* x = block.call.input.floats();
  const std::int64_t n = z.rows * z.h;
  // Attention reads x itself: the norm follows the sum.
  block.product(on.matmul, x, z.h, z.qkv(), at.qkv_w, at.qkv_b, block.saved(Saved::qkv));
  attend(block, z, on);
  float* sum1 = block.saved(Saved::normed1);
  block.product(on.matmul, block.saved(Saved::context), z.q(), z.h, at.out_w, at.out_b, sum1);
  dropout_add(mask_of(block.call, shape.residual_dropout, DropoutSite::attention_output), 0, x, n,
              sum1);
  float* mlp_input = block.saved(Saved::mlp_input);
  block.norm1().forward(sum1, z.rows, mlp_input);
  block.product(on.matmul, mlp_input, z.h, up_width(shape), at.up_w, at.up_b,
                block.saved(Saved::up));
  block.activate_up(z.rows);
  // Both sums are kept: the norms' backward starts from them.
  float* sum2 = block.saved(Saved::normed2);
  block.product(on.matmul, block.saved(Saved::activated), z.f, z.h, at.down_w, at.down_b, sum2);
  dropout_add(mask_of(block.call, shape.residual_dropout, DropoutSite::mlp_output), 0, mlp_input, n,
              sum2);
  block.norm2().forward(sum2, z.rows, block.call.output.floats());
}

void post_norm_backward_input(const BlockCall& block, const BlockSize& z, Workbench& on) {
  const TransformerShape& shape = block.shape;
  const auto& at = block.at;
  const std::int64_t n = z.rows * z.h;
  float* dx = block.call.input_gradient.floats();
  float* b = block.call.workspace.floats();
  float* a = b + n;  // also the context's gradient, which may be wider than the residual stream
  float* norm1 = block.carried(Carried::norm_gradients);
  float* norm2 = norm1 + 2 * z.h;
  float* d_down = block.carried(Carried::down_gradient);
  float* d_out = block.carried(Carried::out_gradient);

  // b: the second sum's gradient, which its two terms share.
  block.norm2().backward(block.saved(Saved::normed2), block.call.output_gradient.floats(), z.rows,
                         Beta::zero, b, norm2);
  dropout(mask_of(block.call, shape.residual_dropout, DropoutSite::mlp_output), 0, b, n, d_down);
  block.up_gradient(on.matmul, z.rows, d_down);
  on.matmul.run(gradient_times_weight(z.rows, z.h, up_width(shape)),
                block.carried(Carried::up_gradient), block.weight(at.up_w), nullptr, a);
  add(b, n, a);  // a: y1's gradient
  // dx: the first sum's gradient, and so x's part of it.
  block.norm1().backward(block.saved(Saved::normed1), a, z.rows, Beta::zero, dx, norm1);
  // Dropout lay on the attention's term alone, so dx stays as it is.
  dropout(mask_of(block.call, shape.residual_dropout, DropoutSite::attention_output), 0, dx, n,
          d_out);
  on.matmul.run(gradient_times_weight(z.rows, z.q(), z.h), d_out, block.weight(at.out_w), nullptr,
                a);
  attend_gradient(block, z, a, block.attention_scratch(z), on);
  on.matmul.run(gradient_times_weight(z.rows, z.h, z.qkv()), block.carried(Carried::qkv_gradient),
                block.weight(at.qkv_w), nullptr, b);
  // x was read twice: by the sum and by qkv.
  add(b, n, dx);
}

}  // namespace weir::cpu
