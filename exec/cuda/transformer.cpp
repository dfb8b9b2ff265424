// The pre-norm GPT-2 block on CUDA.
//
//   n1 = norm(x)   qkv = n1 Wqkv + b   p = softmax(q k' / sqrt d)   c = drop(p) v   y1 = x + drop(c Wo + b)
//   n2 = norm(y1)  u = n2 Wup + b      g = gelu(u)                                  y = y1 + drop(g Wdown + b)
//
// Fused, the attention keeps the log-sum-exp of each row of scores in the place of p (exec/cuda/attention).
// T = batch * tokens rows; attention is one batch of products a sample, over its heads, on strided views of qkv. A
// weight is [out, in], so x W' is a product with the weight's strides exchanged, dx = dy W is plain, and dW = dy' x has
// dy's exchanged. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "exec/cuda/layers.hpp"

namespace weir::cuda {
namespace {

// Places in LayerCall's lists; the order of plan/layer_tensors.
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

struct Sizes {
  std::int64_t rows, batch, s, h, f, heads, d;
  Sizes(const TransformerShape& shape, std::int64_t b, std::int64_t seq)
      : rows(b * seq), batch(b), s(seq), h(shape.hidden), f(shape.ffn), heads(shape.heads), d(shape.head_dim) {}
  [[nodiscard]] std::int64_t matrices() const { return heads * s * s; }  // elements of one sample's
};

Product times_weight(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = rows, .n = out, .k = in, .a_row = in, .b_row = 1, .b_column = in, .c_row = out, .bias = true};
}
Product gradient_times_weight(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = rows, .n = in, .k = out, .a_row = out, .b_row = in, .c_row = in};
}
Product weight_gradient(std::int64_t rows, std::int64_t in, std::int64_t out, bool accumulate) {
  return {
      .m = out, .n = in, .k = rows, .a_row = 1, .a_column = out, .b_row = in, .c_row = in, .accumulate = accumulate};
}

// All heads of one sample, on views of qkv (row stride 3h) and of the context (row stride h).
struct HeadsProducts {
  Product scores, mix, d_probabilities, d_value, d_query, d_key;
  explicit HeadsProducts(const Sizes& z) {
    const std::int64_t s = z.s, d = z.d, q = 3 * z.h, ss = z.s * z.s;
    scores = {.m = s, .n = s, .k = d, .a_row = q, .b_row = 1, .b_column = q, .c_row = s};             // q k'
    mix = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = z.h};                             // p v
    d_probabilities = {.m = s, .n = s, .k = d, .a_row = z.h, .b_row = 1, .b_column = q, .c_row = s};  // dc v'
    d_value = {.m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = z.h, .c_row = q};          // p' dc
    d_query = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = q};                           // ds k
    d_key = {.m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = q, .c_row = q};              // ds' q
    const auto steps = [&z](Product& p, std::int64_t a, std::int64_t b, std::int64_t c) {
      p.batch = z.heads;
      p.a_step = a;
      p.b_step = b;
      p.c_step = c;
    };
    steps(scores, d, d, ss);
    steps(mix, ss, d, d);
    steps(d_probabilities, d, d, ss);
    for (Product* p : {&d_value, &d_query, &d_key}) steps(*p, ss, d, d);
  }
};

float score_scale(const Sizes& z) { return static_cast<float>(1 / std::sqrt(static_cast<double>(z.d))); }

AttentionMask attention_mask(const TransformerShape& shape, const LayerCall& call) {
  return {mask_of(call, shape.attention_dropout, DropoutSite::attention), nullptr};
}

void attend(const TransformerShape& shape, const LayerCall& call, const Sizes& z, const Workbench& on) {
  if (shape.attention == AttentionKind::fused) {
    return on.fused->forward(attention_shape(shape, z.batch, z.s),
                             {call.saved[qkv].data, attention_mask(shape, call), call.saved[context].data,
                              call.saved[probabilities].floats()},
                             on.fused_scratch, on.stream);
  }
  const HeadsProducts products(z);
  const DropoutMask mask = mask_of(call, shape.attention_dropout, DropoutSite::attention);
  for (std::int64_t b = 0; b < z.batch; ++b) {
    const float* q = call.saved[qkv].floats() + b * z.s * 3 * z.h;
    float* p = call.saved[probabilities].floats() + b * z.matrices();
    on.multiply(products.scores, q, q + z.h, nullptr, p);
    causal_softmax(score_scale(z), z.heads, z.s, p, on.stream);
    const float* mixed = p;
    if (mask.active()) {
      dropout(mask, static_cast<std::uint64_t>(b * z.matrices()), p, z.matrices(), on.attention, on.stream);
      mixed = on.attention;
    }
    on.multiply(products.mix, mixed, q + 2 * z.h, nullptr, call.saved[context].floats() + b * z.s * z.h);
  }
}

// From the context's gradient to qkv's. Fused, it needs the row sums behind what the block itself uses of its
// workspace.
void attend_gradient(const TransformerShape& shape, const LayerCall& call, const Sizes& z, const float* d_context,
                     const Workbench& on) {
  if (shape.attention == AttentionKind::fused) {
    float* row_sums = call.workspace.floats() + 2 * z.rows * z.h;
    return on.fused->backward(attention_shape(shape, z.batch, z.s),
                              {call.saved[qkv].data, call.saved[context].data, call.saved[probabilities].floats(),
                               d_context, attention_mask(shape, call), call.carried[qkv_gradient].data, row_sums},
                              on.fused_scratch, on.stream);
  }
  const HeadsProducts products(z);
  const DropoutMask mask = mask_of(call, shape.attention_dropout, DropoutSite::attention);
  float* ds = on.attention;
  float* masked = on.attention + z.matrices();
  for (std::int64_t b = 0; b < z.batch; ++b) {
    const float* q = call.saved[qkv].floats() + b * z.s * 3 * z.h;
    float* dq = call.carried[qkv_gradient].floats() + b * z.s * 3 * z.h;
    const float* dc = d_context + b * z.s * z.h;
    const float* p = call.saved[probabilities].floats() + b * z.matrices();
    const auto first = static_cast<std::uint64_t>(b * z.matrices());
    const float* mixed = p;
    if (mask.active()) {
      dropout(mask, first, p, z.matrices(), masked, on.stream);
      mixed = masked;
    }
    on.multiply(products.d_value, mixed, dc, nullptr, dq + 2 * z.h);
    on.multiply(products.d_probabilities, dc, q + 2 * z.h, nullptr, ds);
    if (mask.active()) dropout(mask, first, ds, z.matrices(), ds, on.stream);
    softmax_gradient(p, score_scale(z), z.heads, z.s, ds, on.stream);
    on.multiply(products.d_query, ds, q + z.h, nullptr, dq);
    on.multiply(products.d_key, ds, q, nullptr, dq + z.h);
  }
}

static_assert(static_cast<int>(Activation::gelu) == static_cast<int>(Curve::gelu) &&
              static_cast<int>(Activation::gelu_tanh) == static_cast<int>(Curve::gelu_tanh) &&
              static_cast<int>(Activation::relu) == static_cast<int>(Curve::relu) &&
              static_cast<int>(Activation::silu) == static_cast<int>(Curve::silu));
Curve curve_of(Activation activation) { return static_cast<Curve>(activation); }

}  // namespace

AttentionShape attention_shape(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length) {
  return {batch, seq_length, shape.heads, shape.head_dim, Dtype::fp32, shape.attention_dropout > 0};
}

ScratchNeeds prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul) {
  const Sizes z(shape, batch, seq_length);
  const std::int64_t matrices[][2] = {{z.h, 3 * z.h}, {z.h, z.h}, {z.h, z.f}, {z.f, z.h}};
  for (const auto& [in, out] : matrices) {
    matmul.prepare(times_weight(z.rows, in, out));
    matmul.prepare(gradient_times_weight(z.rows, in, out));
    for (const bool accumulate : {false, true}) matmul.prepare(weight_gradient(z.rows, in, out, accumulate));
  }
  const std::int64_t partials = std::max(3 * z.h, z.f) * partials_of(z.rows);
  if (shape.attention == AttentionKind::fused) return {.partials = partials};
  const HeadsProducts p(z);
  for (const Product& product : {p.scores, p.mix, p.d_probabilities, p.d_value, p.d_query, p.d_key}) {
    matmul.prepare(product);
  }
  return {.partials = partials, .attention = 2 * z.matrices()};
}

void forward(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  const Sizes z(shape, call.batch, call.seq_length);
  const auto w = [&call](Weight which) { return call.weights[which].floats(); };
  const auto saved = [&call](Saved which) { return call.saved[which].floats(); };
  const auto epsilon = static_cast<float>(shape.norm_epsilon);
  const float* x = call.input.floats();
  const Rows size{z.rows, z.h};
  layer_norm(x, w(norm1_gain), w(norm1_shift), size, epsilon, saved(normed1), saved(statistics1), on.stream);
  on.multiply(times_weight(z.rows, z.h, 3 * z.h), saved(normed1), w(qkv_w), w(qkv_b), saved(qkv));
  attend(shape, call, z, on);
  on.multiply(times_weight(z.rows, z.h, z.h), saved(context), w(out_w), w(out_b), saved(mlp_input));
  dropout_add(mask_of(call, shape.residual_dropout, DropoutSite::attention_output), x, z.rows * z.h, saved(mlp_input),
              on.stream);
  layer_norm(saved(mlp_input), w(norm2_gain), w(norm2_shift), size, epsilon, saved(normed2), saved(statistics2),
             on.stream);
  on.multiply(times_weight(z.rows, z.h, z.f), saved(normed2), w(up_w), w(up_b), saved(up));
  activate(curve_of(shape.activation), saved(up), z.rows * z.f, saved(activated), on.stream);
  on.multiply(times_weight(z.rows, z.f, z.h), saved(activated), w(down_w), w(down_b), call.output.floats());
  dropout_add(mask_of(call, shape.residual_dropout, DropoutSite::mlp_output), saved(mlp_input), z.rows * z.h,
              call.output.floats(), on.stream);
}

void backward_input(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  const Sizes z(shape, call.batch, call.seq_length);
  const auto w = [&call](Weight which) { return call.weights[which].floats(); };
  const auto saved = [&call](Saved which) { return call.saved[which].floats(); };
  const auto carried = [&call](Carried which) { return call.carried[which].floats(); };
  const std::int64_t n = z.rows * z.h;
  const Rows size{z.rows, z.h};
  const float* dy = call.output_gradient.floats();
  float* dx = call.input_gradient.floats();
  float* a = call.workspace.floats();
  float* b = a + n;
  float* norm1 = carried(norm_gradients);
  float* norm2 = norm1 + 2 * z.h;

  dropout(mask_of(call, shape.residual_dropout, DropoutSite::mlp_output), 0, dy, n, a, on.stream);
  on.multiply(gradient_times_weight(z.rows, z.f, z.h), a, w(down_w), nullptr, carried(up_gradient));
  activate_gradient(curve_of(shape.activation), saved(up), z.rows * z.f, carried(up_gradient), on.stream);
  on.multiply(gradient_times_weight(z.rows, z.h, z.f), carried(up_gradient), w(up_w), nullptr, b);
  // dx holds y1's gradient from here on.
  CUDA_CHECK(cudaMemcpyAsync(dx, dy, static_cast<std::size_t>(n) * 4, cudaMemcpyDeviceToDevice, on.stream));
  layer_norm_gradient({saved(mlp_input), saved(statistics2), w(norm2_gain), b, dx, norm2, norm2 + z.h, on.partials},
                      size, Into::add, on.stream);
  dropout(mask_of(call, shape.residual_dropout, DropoutSite::attention_output), 0, dx, n, carried(out_gradient),
          on.stream);
  on.multiply(gradient_times_weight(z.rows, z.h, z.h), carried(out_gradient), w(out_w), nullptr, a);
  attend_gradient(shape, call, z, a, on);
  on.multiply(gradient_times_weight(z.rows, z.h, 3 * z.h), carried(qkv_gradient), w(qkv_w), nullptr, b);
  layer_norm_gradient({call.input.floats(), saved(statistics1), w(norm1_gain), b, dx, norm1, norm1 + z.h, on.partials},
                      size, Into::add, on.stream);
}

void backward_weight(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  const Sizes z(shape, call.batch, call.seq_length);
  const auto saved = [&call](Saved which) { return call.saved[which].floats(); };
  const auto carried = [&call](Carried which) { return call.carried[which].floats(); };
  const Into into = call.accumulate ? Into::add : Into::overwrite;
  const auto linear = [&](const float* dy, const float* x, std::int64_t in, std::int64_t out, Weight weight,
                          Weight bias) {
    on.multiply(weight_gradient(z.rows, in, out, call.accumulate), dy, x, nullptr, call.gradients[weight].floats());
    column_sum(dy, {z.rows, out}, into, on.partials, call.gradients[bias].floats(), on.stream);
  };
  float* masked = call.workspace.floats();
  dropout(mask_of(call, shape.residual_dropout, DropoutSite::mlp_output), 0, call.output_gradient.floats(),
          z.rows * z.h, masked, on.stream);
  linear(masked, saved(activated), z.f, z.h, down_w, down_b);
  linear(carried(up_gradient), saved(normed2), z.h, z.f, up_w, up_b);
  linear(carried(out_gradient), saved(context), z.h, z.h, out_w, out_b);
  linear(carried(qkv_gradient), saved(normed1), z.h, 3 * z.h, qkv_w, qkv_b);
  const float* norm1 = carried(norm_gradients);
  const Weight norms[] = {norm1_gain, norm1_shift, norm2_gain, norm2_shift};
  for (std::int64_t i = 0; i < 4; ++i) {
    column_sum(norm1 + i * z.h, {1, z.h}, into, on.partials, call.gradients[norms[i]].floats(), on.stream);
  }
}

}  // namespace weir::cuda
