// The pre-norm GPT-2 block on the CPU.
//
//   n1 = norm(x)    qkv = n1 Wqkv + b   p = softmax(q k' / sqrt d)   c = drop(p) v
//   y1 = x + drop(c Wo + b)
//   n2 = norm(y1)   u = n2 Wup + b      g = gelu(u)                  y = y1 + drop(g Wdown + b)
//
// Fused, the attention keeps the log-sum-exp of each row of scores in the place of p
// (exec/cpu/fused_attention). T = batch * tokens rows; attention runs head by head on strided views
// of qkv. A weight is [out, in], so x W' is a gemm with the weight's strides exchanged, dx = dy
// W is plain, and dW = dy' x has dy's exchanged.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "exec/cpu/fused_attention.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/layers.hpp"
#include "exec/rank/block_places.hpp"

namespace weir::cpu {
namespace {

using namespace block_places;

struct Sizes {
  std::int64_t rows, batch, s, h, f, heads, d;
  Sizes(const TransformerShape& shape, std::int64_t b, std::int64_t seq)
      : rows(b * seq),
        batch(b),
        s(seq),
        h(shape.hidden),
        f(shape.ffn),
        heads(shape.heads),
        d(shape.head_dim) {}
};

Gemm times_weight(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = rows,
          .n = out,
          .k = in,
          .a_row = in,
          .b_row = 1,
          .b_column = in,
          .c_row = out,
          .bias = true};
}
Gemm gradient_times_weight(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = rows, .n = in, .k = out, .a_row = out, .b_row = in, .c_row = in};
}
Gemm weight_gradient(std::int64_t rows, std::int64_t in, std::int64_t out, bool accumulate) {
  return {.m = out,
          .n = in,
          .k = rows,
          .a_row = 1,
          .a_column = out,
          .b_row = in,
          .c_row = in,
          .accumulate = accumulate};
}

// One head's gemms on views of qkv (row stride 3h) and of the context (row stride h).
struct HeadGemms {
  Gemm scores, mix, d_probabilities, d_value, d_query, d_key;
  explicit HeadGemms(const Sizes& z) {
    const std::int64_t s = z.s, d = z.d, q = 3 * z.h;
    scores = {.m = s, .n = s, .k = d, .a_row = q, .b_row = 1, .b_column = q, .c_row = s};  // q k'
    mix = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = z.h};                  // p v
    d_probabilities = {
        .m = s, .n = s, .k = d, .a_row = z.h, .b_row = 1, .b_column = q, .c_row = s};  // dc v'
    d_value = {
        .m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = z.h, .c_row = q};     // p' dc
    d_query = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = q};               // ds k
    d_key = {.m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = q, .c_row = q};  // ds' q
  }
};

// Calls visit(head's q offset in qkv, its context offset, its place among the s x s matrices).
template <class Visit>
void for_heads(const Sizes& z, Visit visit) {
  for (std::int64_t b = 0; b < z.batch; ++b) {
    for (std::int64_t head = 0; head < z.heads; ++head) {
      visit(b * z.s * 3 * z.h + head * z.d, b * z.s * z.h + head * z.d, b * z.heads + head);
    }
  }
}

AttentionSize attention_size(const Sizes& z) { return {z.batch, z.s, z.heads, z.d}; }

FusedAttention fused_attention(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                               float* tiles) {
  return {attention_size(z),
          mask_of(call, shape.attention_dropout, DropoutSite::attention),
          call.saved[qkv].floats(),
          call.saved[context].floats(),
          call.saved[probabilities].floats(),
          tiles};
}

void attend(const TransformerShape& shape, const LayerCall& call, const Sizes& z, Matmul& matmul) {
  if (shape.attention == AttentionKind::fused) {
    // The output is written last: until then its memory serves as the tiles.
    return fused_forward(fused_attention(shape, call, z, call.output.floats()), matmul);
  }
  const HeadGemms gemms(z);
  const DropoutMask mask = mask_of(call, shape.attention_dropout, DropoutSite::attention);
  const float* q = call.saved[qkv].floats();
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(z.d)));
  for_heads(z, [&](std::int64_t from, std::int64_t to, std::int64_t matrix) {
    float* p = call.saved[probabilities].floats() + matrix * z.s * z.s;
    matmul.run(gemms.scores, q + from, q + from + z.h, nullptr, p);
    causal_softmax(scale, z.s, p);
    const float* mixed = p;
    if (mask.active()) {
      dropout(mask, static_cast<std::uint64_t>(matrix * z.s * z.s), p, z.s * z.s,
              call.workspace.floats());
      mixed = call.workspace.floats();
    }
    matmul.run(gemms.mix, mixed, q + from + 2 * z.h, nullptr, call.saved[context].floats() + to);
  });
}

// From the context's gradient to qkv's. Scratch: two s x s matrices; fused, a sample's s x h.
void attend_gradient(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                     const float* d_context, float* scratch, Matmul& matmul) {
  if (shape.attention == AttentionKind::fused) {
    return fused_backward(fused_attention(shape, call, z, scratch), d_context,
                          call.carried[qkv_gradient].floats(), matmul);
  }
  const HeadGemms gemms(z);
  const DropoutMask mask = mask_of(call, shape.attention_dropout, DropoutSite::attention);
  const float* q = call.saved[qkv].floats();
  float* dq = call.carried[qkv_gradient].floats();
  float* ds = scratch;
  float* masked = scratch + z.s * z.s;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(z.d)));
  for_heads(z, [&](std::int64_t from, std::int64_t to, std::int64_t matrix) {
    const float* p = call.saved[probabilities].floats() + matrix * z.s * z.s;
    const auto first = static_cast<std::uint64_t>(matrix * z.s * z.s);
    const float* mixed = p;
    if (mask.active()) {
      dropout(mask, first, p, z.s * z.s, masked);
      mixed = masked;
    }
    matmul.run(gemms.d_value, mixed, d_context + to, nullptr, dq + from + 2 * z.h);
    matmul.run(gemms.d_probabilities, d_context + to, q + from + 2 * z.h, nullptr, ds);
    if (mask.active()) dropout(mask, first, ds, z.s * z.s, ds);
    softmax_gradient(p, z.s, ds);
    for (std::int64_t i = 0; i < z.s * z.s; ++i) ds[i] *= scale;
    matmul.run(gemms.d_query, ds, q + from + z.h, nullptr, dq + from);
    matmul.run(gemms.d_key, ds, q + from, nullptr, dq + from + z.h);
  });
}

}  // namespace

void prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length,
             Matmul& matmul) {
  const Sizes z(shape, batch, seq_length);
  const std::int64_t matrices[][2] = {{z.h, 3 * z.h}, {z.h, z.h}, {z.h, z.f}, {z.f, z.h}};
  for (const auto& [in, out] : matrices) {
    matmul.prepare(times_weight(z.rows, in, out));
    matmul.prepare(gradient_times_weight(z.rows, in, out));
    for (const bool accumulate : {false, true})
      matmul.prepare(weight_gradient(z.rows, in, out, accumulate));
  }
  if (shape.attention == AttentionKind::fused) return prepare_fused(attention_size(z), matmul);
  const HeadGemms p(z);
  for (const Gemm& gemm : {p.scores, p.mix, p.d_probabilities, p.d_value, p.d_query, p.d_key}) {
    matmul.prepare(gemm);
  }
}

void forward(const TransformerShape& shape, const LayerCall& call, Matmul& matmul) {
  const Sizes z(shape, call.batch, call.seq_length);
  const auto w = [&call](Weight which) { return call.weights[which].floats(); };
  const auto saved = [&call](Saved which) { return call.saved[which].floats(); };
  const auto epsilon = static_cast<float>(shape.norm_epsilon);
  const float* x = call.input.floats();
  layer_norm(x, w(norm1_gain), w(norm1_shift), z.rows, z.h, epsilon, saved(normed1),
             saved(statistics1));
  matmul.run(times_weight(z.rows, z.h, 3 * z.h), saved(normed1), w(qkv_w), w(qkv_b), saved(qkv));
  attend(shape, call, z, matmul);
  matmul.run(times_weight(z.rows, z.h, z.h), saved(context), w(out_w), w(out_b), saved(mlp_input));
  dropout_add(mask_of(call, shape.residual_dropout, DropoutSite::attention_output), x, z.rows * z.h,
              saved(mlp_input));
  layer_norm(saved(mlp_input), w(norm2_gain), w(norm2_shift), z.rows, z.h, epsilon, saved(normed2),
             saved(statistics2));
  matmul.run(times_weight(z.rows, z.h, z.f), saved(normed2), w(up_w), w(up_b), saved(up));
  activate(shape.activation, saved(up), z.rows * z.f, saved(activated));
  matmul.run(times_weight(z.rows, z.f, z.h), saved(activated), w(down_w), w(down_b),
             call.output.floats());
  dropout_add(mask_of(call, shape.residual_dropout, DropoutSite::mlp_output), saved(mlp_input),
              z.rows * z.h, call.output.floats());
}

void backward_input(const TransformerShape& shape, const LayerCall& call, Matmul& matmul) {
  const Sizes z(shape, call.batch, call.seq_length);
  const auto w = [&call](Weight which) { return call.weights[which].floats(); };
  const auto saved = [&call](Saved which) { return call.saved[which].floats(); };
  const auto carried = [&call](Carried which) { return call.carried[which].floats(); };
  const std::int64_t n = z.rows * z.h;
  const float* dy = call.output_gradient.floats();
  float* dx = call.input_gradient.floats();
  float* a = call.workspace.floats();
  float* b = a + n;
  float* norm1 = carried(norm_gradients);
  float* norm2 = norm1 + 2 * z.h;

  dropout(mask_of(call, shape.residual_dropout, DropoutSite::mlp_output), 0, dy, n, a);
  matmul.run(gradient_times_weight(z.rows, z.f, z.h), a, w(down_w), nullptr, carried(up_gradient));
  activate_gradient(shape.activation, saved(up), z.rows * z.f, carried(up_gradient));
  matmul.run(gradient_times_weight(z.rows, z.h, z.f), carried(up_gradient), w(up_w), nullptr, b);
  std::copy(dy, dy + n, dx);  // dx holds y1's gradient from here on
  layer_norm_gradient(saved(mlp_input), saved(statistics2), w(norm2_gain), b, z.rows, z.h,
                      Beta::one, dx, norm2, norm2 + z.h);
  dropout(mask_of(call, shape.residual_dropout, DropoutSite::attention_output), 0, dx, n,
          carried(out_gradient));
  matmul.run(gradient_times_weight(z.rows, z.h, z.h), carried(out_gradient), w(out_w), nullptr, a);
  attend_gradient(shape, call, z, a, shape.attention == AttentionKind::fused ? b : b + n, matmul);
  matmul.run(gradient_times_weight(z.rows, z.h, 3 * z.h), carried(qkv_gradient), w(qkv_w), nullptr,
             b);
  layer_norm_gradient(call.input.floats(), saved(statistics1), w(norm1_gain), b, z.rows, z.h,
                      Beta::one, dx, norm1, norm1 + z.h);
}

void backward_weight(const TransformerShape& shape, const LayerCall& call, Matmul& matmul) {
  const Sizes z(shape, call.batch, call.seq_length);
  const auto saved = [&call](Saved which) { return call.saved[which].floats(); };
  const auto carried = [&call](Carried which) { return call.carried[which].floats(); };
  const Beta beta = call.accumulate ? Beta::one : Beta::zero;
  const auto linear = [&](const float* dy, const float* x, std::int64_t in, std::int64_t out,
                          Weight weight, Weight bias) {
    matmul.run(weight_gradient(z.rows, in, out, call.accumulate), dy, x, nullptr,
               call.gradients[weight].floats());
    column_sum(dy, z.rows, out, beta, call.gradients[bias].floats());
  };
  float* masked = call.workspace.floats();
  dropout(mask_of(call, shape.residual_dropout, DropoutSite::mlp_output), 0,
          call.output_gradient.floats(), z.rows * z.h, masked);
  linear(masked, saved(activated), z.f, z.h, down_w, down_b);
  linear(carried(up_gradient), saved(normed2), z.h, z.f, up_w, up_b);
  linear(carried(out_gradient), saved(context), z.h, z.h, out_w, out_b);
  linear(carried(qkv_gradient), saved(normed1), z.h, 3 * z.h, qkv_w, qkv_b);
  const float* norm1 = carried(norm_gradients);
  const Weight norms[] = {norm1_gain, norm1_shift, norm2_gain, norm2_shift};
  for (std::int64_t i = 0; i < 4; ++i)
    column_sum(norm1 + i * z.h, 1, z.h, beta, call.gradients[norms[i]].floats());
}

}  // namespace weir::cpu
