// The transformer block on the CPU. Pre-norm (GPT-2's and OPT's, Llama's and those that share it):
//
//   n1 = norm(x)    qkv = turn(n1 Wqkv + b)  p = softmax(q k' / sqrt d)   c = drop(p) v
//   y1 = x + drop(c Wo + b)
//   n2 = norm(y1)   u = n2 Wup + b           g = act(u)                   y = y1 + drop(g Wdown +
//   b)
//
// Post-norm is exec/cpu/post_norm_block's. Norms are layer norms or RMS norms, biases may be
// absent; a gated MLP's u is two halves and g = act(first) second. Attention
// (exec/cpu/block_attention) runs head by head on strided views of qkv, where a group of query
// heads shares a key and a value.
//
// Where devices divide the block (Shoeybi et al. 2019, section 3) each has a part of the heads and
// of f. What ends in the residual stream, (c Wo) and (g Wdown) forwards, the gradients of n1 and n2
// backwards, is then summed over the devices; the rest of the stream each has whole. Under sequence
// parallelism (Korthikanti et al. 2022, section 4.2) each has its rows of that rest: what a product
// reads is gathered, and the sums are scattered.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exec/cpu/block.hpp"
#include "exec/cpu/block_attention.hpp"
#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/layers.hpp"
#include "exec/cpu/post_norm_block.hpp"

namespace weir::cpu {
namespace {

using block_places::Carried;
using block_places::Saved;
using block_places::WeightPlaces;

// A product that ends in the residual stream: each device multiplies its part, the first adds the
// bias, and all add up; y has the device's rows.
struct SharedProduct {
  const float* x;
  std::int64_t in;
  int weight, bias;
};
void shared_product(const BlockCall& block, const BlockSize& z, const SharedProduct& product,
                    float* y, Workbench& on) {
  float* part = on.divides_rows ? block.call.workspace.floats() : y;
  block.product(on.matmul, product.x, product.in, z.h, product.weight,
                z.place == 0 ? product.bias : WeightPlaces::kAbsent, part);
  on.sum_parts(part, z.rows * z.h, y);
}

// As masks of the residual stream take it.
std::uint64_t first_number(const BlockSize& z) {
  return static_cast<std::uint64_t>(z.first_number());
}

void pre_norm_forward(const BlockCall& block, const BlockSize& z, Workbench& on) {
  const TransformerShape& shape = block.shape;
  const WeightPlaces& at = block.at;
  const float* x = block.call.input.floats();
  float* room = block.call.workspace.floats();
  const std::int64_t n = z.own.count * z.h, all = z.rows * z.h;
  // n1 and qkv. A product needs all rows, of which a device may have kept a part.
  block.norm1().forward(x, z.own.count, block.saved(Saved::normed1));
  block.product(on.matmul, on.all_rows(block.saved(Saved::normed1), all, room), z.h, z.qkv(),
                at.qkv_w, at.qkv_b, block.saved(Saved::qkv));
  attend(block, z, on);
  // y1: the products' parts are summed over devices before residual and dropout, which are whole.
  float* mlp_input = block.saved(Saved::mlp_input);
  shared_product(block, z, {block.saved(Saved::context), z.q(), at.out_w, at.out_b}, mlp_input, on);
  dropout_add(mask_of(block.call, shape.residual_dropout, DropoutSite::attention_output),
              first_number(z), x, n, mlp_input);
  // n2, u and g.
  block.norm2().forward(mlp_input, z.own.count, block.saved(Saved::normed2));
  block.product(on.matmul, on.all_rows(block.saved(Saved::normed2), all, room), z.h,
                up_width(shape), at.up_w, at.up_b, block.saved(Saved::up));
  block.activate_up(z.rows);
  // y.
  float* y = block.call.output.floats();
  shared_product(block, z, {block.saved(Saved::activated), z.f, at.down_w, at.down_b}, y, on);
  dropout_add(mask_of(block.call, shape.residual_dropout, DropoutSite::mlp_output), first_number(z),
              mlp_input, n, y);
}

void pre_norm_backward_input(const BlockCall& block, const BlockSize& z, Workbench& on) {
  const TransformerShape& shape = block.shape;
  const WeightPlaces& at = block.at;
  const std::int64_t n = z.own.count * z.h, all = z.rows * z.h;
  const float* dy = block.call.output_gradient.floats();
  float* dx = block.call.input_gradient.floats();
  float* room = block.call.workspace.floats();
  float* b = room + z.room;
  float* a = b + all;  // also the context's gradient, which may be wider than the residual stream
  float* norm1 = block.carried(Carried::norm_gradients);
  float* norm2 = norm1 + 2 * z.h;
  float* d_out = block.carried(Carried::out_gradient);
  // The device's rows of what was found of all in b: where they are divided, in what was gathered.
  float* summed = on.divides_rows ? room : b;

  // Back through the MLP: dy is masked as the forward's output was.
  dropout(mask_of(block.call, shape.residual_dropout, DropoutSite::mlp_output), first_number(z), dy,
          n, a);
  block.up_gradient(on.matmul, z.rows, on.all_rows(a, all, room));
  on.matmul.run(gradient_times_weight(z.rows, z.h, up_width(shape)),
                block.carried(Carried::up_gradient), block.weight(at.up_w), nullptr, b);
  on.sum_parts(b, all, summed);
  std::copy(dy, dy + n, dx);  // dx holds y1's gradient from here on
  block.norm2().backward(block.saved(Saved::mlp_input), summed, z.own.count, Beta::one, dx, norm2);
  // d_out is kept for W; dx stays unmasked, as the residual has no mask.
  dropout(mask_of(block.call, shape.residual_dropout, DropoutSite::attention_output),
          first_number(z), dx, n, d_out);
  on.matmul.run(gradient_times_weight(z.rows, z.q(), z.h), on.all_rows(d_out, all, room),
                block.weight(at.out_w), nullptr, a);
  attend_gradient(block, z, a, block.attention_scratch(z), on);
  // Back through qkv to n1, and through the first norm to x.
  on.matmul.run(gradient_times_weight(z.rows, z.h, z.qkv()), block.carried(Carried::qkv_gradient),
                block.weight(at.qkv_w), nullptr, b);
  on.sum_parts(b, all, summed);
  block.norm1().backward(block.call.input.floats(), summed, z.own.count, Beta::one, dx, norm1);
}

// What the gradients of the weights multiply, of the rows that the device has: the MLP's answer's
// gradient, and what the first products of attention and MLP read.
struct WeightOperands {
  const float* d_down;
  const float* attention_input;
  const float* mlp_input;
  WeightOperands(const BlockCall& block, const BlockSize& z) {
    if (!block.shape.pre_norm) {
      d_down = block.carried(Carried::down_gradient);
      attention_input = block.call.input.floats();
      mlp_input = block.saved(Saved::mlp_input);
      return;
    }
    float* masked = block.call.workspace.floats() + z.room;
    dropout(mask_of(block.call, block.shape.residual_dropout, DropoutSite::mlp_output),
            first_number(z), block.call.output_gradient.floats(), z.own.count * z.h, masked);
    d_down = masked;
    attention_input = block.saved(Saved::normed1);
    mlp_input = block.saved(Saved::normed2);
  }
};

}  // namespace

void prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length,
             Workbench& on) {
  const BlockSize z(shape, batch, seq_length, on.at());
  const struct {
    std::int64_t in, out;
    bool bias;
  } products[] = {{z.h, z.qkv(), shape.qkv_bias},
                  {z.q(), z.h, shape.output_bias},
                  {z.h, up_width(shape), shape.mlp_bias},
                  {z.f, z.h, shape.mlp_bias}};
  for (const auto& [in, out, bias] : products) {
    on.matmul.prepare(times_weight(z.rows, in, out, bias));
    // Of a product that devices share one adds the bias.
    if (z.places > 1) on.matmul.prepare(times_weight(z.rows, in, out, false));
    on.matmul.prepare(gradient_times_weight(z.rows, in, out));
    for (const bool accumulate : {false, true})
      on.matmul.prepare(weight_gradient(z.rows, in, out, accumulate));
  }
  on.matmul.prepare(activated_gradient(shape, z.rows));
  prepare_attention(shape, z, on);
}

void forward(const TransformerShape& shape, const LayerCall& call, Workbench& on) {
  const BlockSize z(shape, call.batch, call.seq_length, on.at());
  if (shape.pre_norm) return pre_norm_forward({shape, call}, z, on);
  post_norm_forward({shape, call}, z, on);
}

void backward_input(const TransformerShape& shape, const LayerCall& call, Workbench& on) {
  const BlockSize z(shape, call.batch, call.seq_length, on.at());
  const BlockCall block{shape, call};
  if (call.core_dropped) attend_again(block, z, block.attention_scratch(z), on);
  if (shape.pre_norm) return pre_norm_backward_input({shape, call}, z, on);
  post_norm_backward_input({shape, call}, z, on);
}

void backward_weight(const TransformerShape& shape, const LayerCall& call, Workbench& on) {
  const BlockSize z(shape, call.batch, call.seq_length, on.at());
  const BlockCall block{shape, call};
  const WeightPlaces& at = block.at;
  const WeightOperands of(block, z);
  const Beta beta = call.accumulate ? Beta::one : Beta::zero;
  const auto linear = [&](const float* dy, const float* x, std::int64_t in, std::int64_t out,
                          int weight, int bias) {
    on.matmul.run(weight_gradient(z.rows, in, out, call.accumulate), dy, x, nullptr,
                  call.gradients[weight].floats());
    if (bias != WeightPlaces::kAbsent)
      column_sum(dy, z.rows, out, beta, call.gradients[bias].floats());
  };
  // Gradients are gathered in the first part of the workspace, what they multiply in the second:
  // the masked gradient there was gathered before.
  const auto all_rows = [&](const float* own, std::int64_t room) {
    return on.all_rows(own, z.rows * z.h, call.workspace.floats() + room);
  };
  // All four products' gradients, then the norms', which I has summed over rows.
  linear(all_rows(of.d_down, 0), block.saved(Saved::activated), z.f, z.h, at.down_w, at.down_b);
  linear(block.carried(Carried::up_gradient), all_rows(of.mlp_input, z.room), z.h, up_width(shape),
         at.up_w, at.up_b);
  linear(all_rows(block.carried(Carried::out_gradient), 0), block.saved(Saved::context), z.q(), z.h,
         at.out_w, at.out_b);
  linear(block.carried(Carried::qkv_gradient), all_rows(of.attention_input, z.room), z.h, z.qkv(),
         at.qkv_w, at.qkv_b);
  const auto norm = [&](const float* gradient, std::int64_t width, int weight) {
    if (weight != WeightPlaces::kAbsent)
      column_sum(gradient, 1, width, beta, call.gradients[weight].floats());
  };
  const float* norms = block.carried(Carried::norm_gradients);
  norm(norms, z.h, at.norm1_gain);
  norm(norms + z.h, z.h, at.norm1_shift);
  norm(norms + 2 * z.h, z.h, at.norm2_gain);
  norm(norms + 3 * z.h, z.h, at.norm2_shift);
  if (!shape.qk_norm) return;
  const float* heads = block.carried(Carried::query_key_norm_gradients);
  norm(heads, z.d, at.query_gain);
  norm(heads + z.d, z.d, at.key_gain);
}

}  // namespace weir::cpu
