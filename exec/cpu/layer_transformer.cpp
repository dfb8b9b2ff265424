// The pre-norm decoder block on the CPU: GPT-2's and OPT's, Llama's and those that share it.
//
//   n1 = norm(x)    qkv = turn(n1 Wqkv + b)  p = softmax(q k' / sqrt d)   c = drop(p) v
//   y1 = x + drop(c Wo + b)
//   n2 = norm(y1)   u = n2 Wup + b           g = act(u)                   y = y1 + drop(g Wdown +
//   b)
//
// Norms are layer norms or RMS norms, biases may be absent; a gated MLP's u is two halves and g =
// act(first) second. Queries and keys are turned by their positions where these are rotary, after
// norms of each head's where there are such. Fused, the attention keeps the log-sum-exp of each row
// of scores in the place of p (exec/cpu/fused_attention). T = batch * tokens rows; attention runs
// head by head on strided views of qkv, where a group of query heads shares a key and a value. A
// weight is [out, in], so x W' is a gemm with the weight's strides exchanged, dx = dy W is plain,
// and dW = dy' x has dy's exchanged.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exec/cpu/fused_attention.hpp"
#include "exec/cpu/head_norms.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/layers.hpp"
#include "exec/cpu/unfused_attention.hpp"
#include "exec/rank/block_places.hpp"

namespace weir::cpu {
namespace {

using block_places::Carried;
using block_places::Saved;
using block_places::WeightPlaces;

struct Sizes {
  std::int64_t rows, batch, s, h, f, heads, kv_heads, d;
  Sizes(const TransformerShape& shape, std::int64_t b, std::int64_t seq)
      : rows(b * seq),
        batch(b),
        s(seq),
        h(shape.hidden),
        f(shape.ffn),
        heads(shape.heads),
        kv_heads(shape.kv_heads),
        d(shape.head_dim) {}
  [[nodiscard]] std::int64_t q() const { return heads * d; }
  [[nodiscard]] std::int64_t qkv() const { return (heads + 2 * kv_heads) * d; }
  // Two tiles of rows of scores fit into a sample of the residual stream.
  [[nodiscard]] AttentionSize attention() const { return {batch, s, heads, d, kv_heads, h}; }
};

std::int64_t up_width(const TransformerShape& shape) { return (shape.gated ? 2 : 1) * shape.ffn; }

Gemm times_weight(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias) {
  return {.m = rows,
          .n = out,
          .k = in,
          .a_row = in,
          .b_row = 1,
          .b_column = in,
          .c_row = out,
          .bias = bias};
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
// Of a gated MLP the gradient of g is put where u's second half has its place.
Gemm activated_gradient(const TransformerShape& shape, std::int64_t rows) {
  Gemm gemm = gradient_times_weight(rows, shape.ffn, shape.hidden);
  gemm.c_row = up_width(shape);
  return gemm;
}

FusedAttention fused_attention(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                               float* tiles) {
  return {z.attention(),
          mask_of(call, shape.attention_dropout, DropoutSite::attention),
          call.saved[Saved::qkv].floats(),
          call.saved[Saved::context].floats(),
          call.saved[Saved::probabilities].floats(),
          tiles};
}

// Scratch: two s x s matrices.
UnfusedAttention unfused_attention(const TransformerShape& shape, const LayerCall& call,
                                   const Sizes& z, float* scratch) {
  return {z.attention(),
          mask_of(call, shape.attention_dropout, DropoutSite::attention),
          call.saved[Saved::qkv].floats(),
          call.saved[Saved::context].floats(),
          call.saved[Saved::probabilities].floats(),
          scratch};
}

void attend(const TransformerShape& shape, const LayerCall& call, const Sizes& z, Matmul& matmul) {
  if (shape.attention == AttentionKind::fused) {
    // The output is written last: until then its memory serves as the tiles.
    return fused_forward(fused_attention(shape, call, z, call.output.floats()), matmul);
  }
  unfused_forward(unfused_attention(shape, call, z, call.workspace.floats()), matmul);
}

// From the context's gradient to qkv's. Scratch: two s x s matrices; fused, a sample's s x h.
void attend_gradient(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                     const float* d_context, float* scratch, Matmul& matmul) {
  float* d_qkv = call.carried[Carried::qkv_gradient].floats();
  if (shape.attention == AttentionKind::fused)
    return fused_backward(fused_attention(shape, call, z, scratch), d_context, d_qkv, matmul);
  unfused_backward(unfused_attention(shape, call, z, scratch), d_context, d_qkv, matmul);
}

// The queries, or the keys, of every row of qkv.
HeadRows queries(const Sizes& z) { return {z.rows, z.s, z.heads, z.d, z.qkv()}; }
HeadRows keys(const Sizes& z) { return {z.rows, z.s, z.kv_heads, z.d, z.qkv()}; }

// Of one row the queries' heads stand before the keys'.
struct KeptQueriesAndKeys {
  KeptHeads query, key;
  KeptQueriesAndKeys(const LayerCall& call, const Sizes& z) {
    const std::int64_t heads = z.heads + z.kv_heads;
    query = {call.saved[Saved::query_key].floats(),
             call.saved[Saved::query_key_statistics].floats(), heads * z.d, heads};
    key = {query.raw + z.q(), query.statistics + z.heads, query.raw_stride,
           query.statistics_stride};
  }
};

// Between the product and the attention: norms of heads, then their turn to positions.
void place_heads(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                 const Workbench& on) {
  float* qkv = call.saved[Saved::qkv].floats();
  if (shape.qk_norm) {
    const WeightPlaces w(shape);
    const auto epsilon = static_cast<float>(shape.norm_epsilon);
    const KeptQueriesAndKeys kept(call, z);
    norm_heads(queries(z), call.weights[w.query_gain].floats(), epsilon, kept.query, qkv);
    norm_heads(keys(z), call.weights[w.key_gain].floats(), epsilon, kept.key, qkv + z.q());
  }
  if (!shape.rotary) return;
  // Queries and keys are neighbours and turn alike.
  HeadRows both = queries(z);
  both.heads += z.kv_heads;
  rotate(on.rotary.table(shape.angles, z.d, z.s), both, Turn::forth, qkv);
}

void place_heads_gradient(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                          const Workbench& on) {
  float* d_qkv = call.carried[Carried::qkv_gradient].floats();
  if (shape.rotary) {
    HeadRows both = queries(z);
    both.heads += z.kv_heads;
    rotate(on.rotary.table(shape.angles, z.d, z.s), both, Turn::back, d_qkv);
  }
  if (!shape.qk_norm) return;
  const WeightPlaces w(shape);
  const KeptQueriesAndKeys kept(call, z);
  float* gains = call.carried[Carried::query_key_norm_gradients].floats();
  norm_heads_gradient(queries(z), call.weights[w.query_gain].floats(), kept.query, d_qkv, gains);
  norm_heads_gradient(keys(z), call.weights[w.key_gain].floats(), kept.key, d_qkv + z.q(),
                      gains + z.d);
}

// A norm of the residual stream; the shift is null of an RMS norm.
struct BlockNorm {
  const TransformerShape& shape;
  const float* gain;
  const float* shift;
  float* statistics;

  void forward(const float* x, std::int64_t rows, float* y) const {
    const auto epsilon = static_cast<float>(shape.norm_epsilon);
    if (shape.norm == NormKind::rms_norm)
      return rms_norm(x, gain, rows, shape.hidden, epsilon, y, statistics);
    layer_norm(x, gain, shift, rows, shape.hidden, epsilon, y, statistics);
  }
  // dx += the norm's gradient; gradients: the gain's, and a layer norm's shift's.
  void backward(const float* x, const float* dy, std::int64_t rows, float* dx,
                float* gradients) const {
    if (shape.norm == NormKind::rms_norm)
      return rms_norm_gradient(x, statistics, gain, dy, rows, shape.hidden, Beta::one, dx,
                               gradients);
    layer_norm_gradient(x, statistics, gain, dy, rows, shape.hidden, Beta::one, dx, gradients,
                        gradients + shape.hidden);
  }
};

// What a call's lists hold, by name; null where the block has no such weight.
struct BlockCall {
  const TransformerShape& shape;
  const LayerCall& call;
  WeightPlaces at{shape};
  [[nodiscard]] const float* weight(int place) const {
    return place == WeightPlaces::kAbsent ? nullptr : call.weights[place].floats();
  }
  [[nodiscard]] float* saved(Saved which) const { return call.saved[which].floats(); }
  [[nodiscard]] float* carried(Carried which) const { return call.carried[which].floats(); }
  [[nodiscard]] BlockNorm norm1() const {
    return {shape, weight(at.norm1_gain), weight(at.norm1_shift), saved(Saved::statistics1)};
  }
  [[nodiscard]] BlockNorm norm2() const {
    return {shape, weight(at.norm2_gain), weight(at.norm2_shift), saved(Saved::statistics2)};
  }
};

}  // namespace

void prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length,
             Workbench& on) {
  const Sizes z(shape, batch, seq_length);
  const struct {
    std::int64_t in, out;
    bool bias;
  } products[] = {{z.h, z.qkv(), shape.qkv_bias},
                  {z.q(), z.h, shape.output_bias},
                  {z.h, up_width(shape), shape.mlp_bias},
                  {z.f, z.h, shape.mlp_bias}};
  for (const auto& [in, out, bias] : products) {
    on.matmul.prepare(times_weight(z.rows, in, out, bias));
    on.matmul.prepare(gradient_times_weight(z.rows, in, out));
    for (const bool accumulate : {false, true})
      on.matmul.prepare(weight_gradient(z.rows, in, out, accumulate));
  }
  on.matmul.prepare(activated_gradient(shape, z.rows));
  if (shape.rotary) on.rotary.prepare(shape.angles, z.d, z.s);
  if (shape.attention == AttentionKind::fused) return prepare_fused(z.attention(), on.matmul);
  prepare_unfused(z.attention(), on.matmul);
}

void forward(const TransformerShape& shape, const LayerCall& call, Workbench& on) {
  const Sizes z(shape, call.batch, call.seq_length);
  const BlockCall block{shape, call};
  const WeightPlaces& at = block.at;
  const float* x = call.input.floats();
  const auto product = [&](const float* from, std::int64_t in, std::int64_t out, int weight,
                           int bias, float* to) {
    on.matmul.run(times_weight(z.rows, in, out, bias != WeightPlaces::kAbsent), from,
                  block.weight(weight), block.weight(bias), to);
  };
  block.norm1().forward(x, z.rows, block.saved(Saved::normed1));
  product(block.saved(Saved::normed1), z.h, z.qkv(), at.qkv_w, at.qkv_b, block.saved(Saved::qkv));
  place_heads(shape, call, z, on);
  attend(shape, call, z, on.matmul);
  float* mlp_input = block.saved(Saved::mlp_input);
  product(block.saved(Saved::context), z.q(), z.h, at.out_w, at.out_b, mlp_input);
  dropout_add(mask_of(call, shape.residual_dropout, DropoutSite::attention_output), x, z.rows * z.h,
              mlp_input);
  block.norm2().forward(mlp_input, z.rows, block.saved(Saved::normed2));
  const float* up = block.saved(Saved::up);
  float* activated = block.saved(Saved::activated);
  product(block.saved(Saved::normed2), z.h, up_width(shape), at.up_w, at.up_b,
          block.saved(Saved::up));
  if (shape.gated) {
    gate(shape.activation, up, z.rows, z.f, activated);
  } else {
    activate(shape.activation, up, z.rows * z.f, activated);
  }
  product(activated, z.f, z.h, at.down_w, at.down_b, call.output.floats());
  dropout_add(mask_of(call, shape.residual_dropout, DropoutSite::mlp_output), mlp_input,
              z.rows * z.h, call.output.floats());
}

void backward_input(const TransformerShape& shape, const LayerCall& call, Workbench& on) {
  const Sizes z(shape, call.batch, call.seq_length);
  const BlockCall block{shape, call};
  const WeightPlaces& at = block.at;
  const std::int64_t n = z.rows * z.h;
  const float* dy = call.output_gradient.floats();
  float* dx = call.input_gradient.floats();
  float* b = call.workspace.floats();
  float* a = b + n;  // also the context's gradient, which may be wider than the residual stream
  float* norm1 = block.carried(Carried::norm_gradients);
  float* norm2 = norm1 + 2 * z.h;
  float* d_up = block.carried(Carried::up_gradient);

  dropout(mask_of(call, shape.residual_dropout, DropoutSite::mlp_output), 0, dy, n, a);
  on.matmul.run(activated_gradient(shape, z.rows), a, block.weight(at.down_w), nullptr,
                shape.gated ? d_up + z.f : d_up);
  if (shape.gated) {
    gate_gradient(shape.activation, block.saved(Saved::up), z.rows, z.f, d_up);
  } else {
    activate_gradient(shape.activation, block.saved(Saved::up), z.rows * z.f, d_up);
  }
  on.matmul.run(gradient_times_weight(z.rows, z.h, up_width(shape)), d_up, block.weight(at.up_w),
                nullptr, b);
  std::copy(dy, dy + n, dx);  // dx holds y1's gradient from here on
  block.norm2().backward(block.saved(Saved::mlp_input), b, z.rows, dx, norm2);
  dropout(mask_of(call, shape.residual_dropout, DropoutSite::attention_output), 0, dx, n,
          block.carried(Carried::out_gradient));
  on.matmul.run(gradient_times_weight(z.rows, z.q(), z.h), block.carried(Carried::out_gradient),
                block.weight(at.out_w), nullptr, a);
  const bool fused = shape.attention == AttentionKind::fused;
  attend_gradient(shape, call, z, a, fused ? b : a + z.rows * std::max(z.h, z.q()), on.matmul);
  place_heads_gradient(shape, call, z, on);
  on.matmul.run(gradient_times_weight(z.rows, z.h, z.qkv()), block.carried(Carried::qkv_gradient),
                block.weight(at.qkv_w), nullptr, b);
  block.norm1().backward(call.input.floats(), b, z.rows, dx, norm1);
}

void backward_weight(const TransformerShape& shape, const LayerCall& call, Workbench& on) {
  const Sizes z(shape, call.batch, call.seq_length);
  const BlockCall block{shape, call};
  const WeightPlaces& at = block.at;
  const Beta beta = call.accumulate ? Beta::one : Beta::zero;
  const auto linear = [&](const float* dy, const float* x, std::int64_t in, std::int64_t out,
                          int weight, int bias) {
    on.matmul.run(weight_gradient(z.rows, in, out, call.accumulate), dy, x, nullptr,
                  call.gradients[weight].floats());
    if (bias != WeightPlaces::kAbsent)
      column_sum(dy, z.rows, out, beta, call.gradients[bias].floats());
  };
  float* masked = call.workspace.floats();
  dropout(mask_of(call, shape.residual_dropout, DropoutSite::mlp_output), 0,
          call.output_gradient.floats(), z.rows * z.h, masked);
  linear(masked, block.saved(Saved::activated), z.f, z.h, at.down_w, at.down_b);
  linear(block.carried(Carried::up_gradient), block.saved(Saved::normed2), z.h, up_width(shape),
         at.up_w, at.up_b);
  linear(block.carried(Carried::out_gradient), block.saved(Saved::context), z.q(), z.h, at.out_w,
         at.out_b);
  linear(block.carried(Carried::qkv_gradient), block.saved(Saved::normed1), z.h, z.qkv(), at.qkv_w,
         at.qkv_b);
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
