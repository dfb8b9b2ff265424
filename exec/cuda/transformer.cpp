// The pre-norm GPT-2 block on CUDA.
//
//   n1 = norm(x)    qkv = n1 Wqkv + b   p = softmax(q k' / sqrt d)   c = drop(p) v
//   y1 = x + drop(c Wo + b)
//   n2 = norm(y1)   u = n2 Wup + b      g = gelu(u)                  y = y1 + drop(g Wdown + b)
//
// Fused, the attention keeps the log-sum-exp of each row of scores in the place of p
// (exec/cuda/attention). T = batch * tokens rows; attention is one batch of gemms a sample, over
// its heads, on strided views of qkv. A weight is [out, in], so x W' is a gemm with the weight's
// strides exchanged, dx = dy W is plain, and dW = dy' x has dy's exchanged.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/kernels/activation.hpp"
#include "exec/cuda/kernels/dropout.hpp"
#include "exec/cuda/kernels/norms.hpp"
#include "exec/cuda/kernels/softmax.hpp"
#include "exec/cuda/kernels/sums.hpp"
#include "exec/cuda/layers.hpp"
#include "exec/rank/block_places.hpp"
#include "plan/model/layer_tensors.hpp"

namespace weir::cuda {
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
  [[nodiscard]] std::int64_t matrices() const { return heads * s * s; }  // elements of one sample's
  [[nodiscard]] std::int64_t elements() const { return rows * h; }       // of the residual stream
  [[nodiscard]] Rows residual() const { return {rows, h}; }
  [[nodiscard]] Linear qkv() const { return {rows, h, 3 * h}; }
  [[nodiscard]] Linear out() const { return {rows, h, h}; }
  [[nodiscard]] Linear up() const { return {rows, h, f}; }
  [[nodiscard]] Linear down() const { return {rows, f, h}; }
};

// All heads of one sample, on views of qkv (row stride 3h) and of the context (row stride h). What
// a softmax reads, or its gradient, is not rounded.
struct HeadsGemms {
  Gemm scores, mix, d_probabilities, d_value, d_query, d_key;
  explicit HeadsGemms(const Sizes& z) {
    const std::int64_t s = z.s, d = z.d, q = 3 * z.h, ss = z.s * z.s;
    scores = {.m = s, .n = s, .k = d, .a_row = q, .b_row = 1, .b_column = q, .c_row = s};  // q k'
    mix = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = z.h};                  // p v
    d_probabilities = {
        .m = s, .n = s, .k = d, .a_row = z.h, .b_row = 1, .b_column = q, .c_row = s};  // dc v'
    d_value = {
        .m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = z.h, .c_row = q};     // p' dc
    d_query = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = q};               // ds k
    d_key = {.m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = q, .c_row = q};  // ds' q
    const auto steps = [&z](Gemm& p, std::int64_t a, std::int64_t b, std::int64_t c) {
      p.batch = z.heads;
      p.a_step = a;
      p.b_step = b;
      p.c_step = c;
    };
    steps(scores, d, d, ss);
    steps(mix, ss, d, d);
    steps(d_probabilities, d, d, ss);
    for (Gemm* p : {&d_value, &d_query, &d_key}) steps(*p, ss, d, d);
    scores.fp32_result = d_probabilities.fp32_result = true;
  }
};

float score_scale(const Sizes& z) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(z.d)));
}

AttentionMask attention_mask(const TransformerShape& shape, const LayerCall& call,
                             const Workbench& on) {
  const StepMask mask = on.mask(call, shape.attention_dropout, DropoutSite::attention);
  return {mask.mask, mask.numbers == nullptr ? nullptr : &mask.numbers->step};
}

template <class E>
void attend(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
            const Workbench& on) {
  if (shape.attention == AttentionKind::fused) {
    return on.fused->forward(attention_shape(shape, z.batch, z.s, on.matmul->element()),
                             {call.saved[qkv].data, attention_mask(shape, call, on),
                              call.saved[context].data, call.saved[probabilities].floats()},
                             on.fused_scratch, on.stream);
  }
  const HeadsGemms gemms(z);
  const StepMask mask = on.mask(call, shape.attention_dropout, DropoutSite::attention);
  E* masked = mask.mask.active() ? static_cast<E*>(on.masked) : nullptr;
  for (std::int64_t b = 0; b < z.batch; ++b) {
    const E* q = elements<E>(call.saved[qkv]) + b * z.s * 3 * z.h;
    E* p = elements<E>(call.saved[probabilities]) + b * z.matrices();
    on.multiply(gemms.scores, {q, q + z.h, on.scores});
    causal_softmax<E>(score_scale(z), on.scores, {z.heads, z.s, b * z.matrices()}, mask, p, masked,
                      on.stream);
    on.multiply(gemms.mix, {masked != nullptr ? masked : p, q + 2 * z.h,
                            elements<E>(call.saved[context]) + b * z.s * z.h});
  }
}

// From the context's gradient to qkv's. Fused, the row sums lie behind what the block itself uses
// of its workspace.
template <class E>
void attend_gradient(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                     const E* d_context, const Workbench& on) {
  if (shape.attention == AttentionKind::fused) {
    auto* row_sums = reinterpret_cast<float*>(elements<E>(call.workspace) + 2 * z.elements());
    return on.fused->backward(
        attention_shape(shape, z.batch, z.s, on.matmul->element()),
        {call.saved[qkv].data, call.saved[context].data, call.saved[probabilities].floats(),
         d_context, attention_mask(shape, call, on), call.carried[qkv_gradient].data, row_sums},
        on.fused_scratch, on.stream);
  }
  const HeadsGemms gemms(z);
  const StepMask mask = on.mask(call, shape.attention_dropout, DropoutSite::attention);
  E* scratch = static_cast<E*>(
      on.masked);  // the masked probabilities, and when they are used up the scores' gradient
  for (std::int64_t b = 0; b < z.batch; ++b) {
    const E* q = elements<E>(call.saved[qkv]) + b * z.s * 3 * z.h;
    E* dq = elements<E>(call.carried[qkv_gradient]) + b * z.s * 3 * z.h;
    const E* dc = d_context + b * z.s * z.h;
    const E* p = elements<E>(call.saved[probabilities]) + b * z.matrices();
    const E* mixed = p;
    if (mask.mask.active()) {
      dropout<E>(mask, static_cast<std::uint64_t>(b * z.matrices()), p, z.matrices(), scratch,
                 on.stream);
      mixed = scratch;
    }
    on.multiply(gemms.d_value, {mixed, dc, dq + 2 * z.h});
    on.multiply(gemms.d_probabilities, {dc, q + 2 * z.h, on.scores});
    softmax_gradient<E>(score_scale(z), p, on.scores, {z.heads, z.s, b * z.matrices()}, mask,
                        scratch, on.stream);
    on.multiply(gemms.d_query, {scratch, q + z.h, dq});
    on.multiply(gemms.d_key, {scratch, q, dq + z.h});
  }
}

static_assert(Additions::kMost >= 8, "four biases, two gains and two shifts");
static_assert(static_cast<int>(Activation::gelu) == static_cast<int>(Curve::gelu) &&
              static_cast<int>(Activation::gelu_tanh) == static_cast<int>(Curve::gelu_tanh) &&
              static_cast<int>(Activation::relu) == static_cast<int>(Curve::relu) &&
              static_cast<int>(Activation::silu) == static_cast<int>(Curve::silu));
Curve curve_of(Activation activation) { return static_cast<Curve>(activation); }

// u = n2 Wup + b and g = gelu(u).
template <class E>
void up_and_activate(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                     const Workbench& on) {
  const void *x = call.saved[normed2].data, *w = call.weights[up_w].data;
  void *bias = call.weights[up_b].data, *u = call.saved[up].data, *g = call.saved[activated].data;
  const Gemm fused = z.up().forward(Epilogue::bias_gelu);
  if (on.matmul->ready(fused)) {
    on.multiply(fused, {x, w, g, bias, u});
    return;
  }
  on.multiply(z.up().forward(Epilogue::bias), {x, w, u, bias});
  activate<E>(curve_of(shape.activation), static_cast<const E*>(u), z.rows * z.f,
              static_cast<E*>(g), on.stream);
}

// u's gradient from that of the gemm down, before its dropout.
template <class E>
void activate_and_up_gradient(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                              const E* d_down, const Workbench& on) {
  const Gemm fused = z.down().input(Epilogue::gelu_gradient);
  const void* w = call.weights[down_w].data;
  void *u = call.saved[up].data, *du = call.carried[up_gradient].data;
  if (on.matmul->ready(fused)) {
    on.multiply(fused, {d_down, w, du, nullptr, u});
    return;
  }
  on.multiply(z.down().input(Epilogue::none), {d_down, w, du});
  activate_gradient<E>(curve_of(shape.activation), static_cast<const E*>(u), z.rows * z.f,
                       static_cast<E*>(du), on.stream);
}

// x * mask, in `place`; without an active mask x itself.
template <class E>
const E* dropped(const StepMask& mask, const E* x, std::int64_t n, E* place, cudaStream_t stream) {
  if (!mask.mask.active()) return x;
  dropout<E>(mask, 0, x, n, place, stream);
  return place;
}

// Whether residual adds can be left to the gemms: without dropout in between.
bool adds_in_gemms(const TransformerShape& shape, const Sizes& z, const Matmul& matmul) {
  return shape.residual_dropout == 0 && matmul.ready(z.out().forward_onto()) &&
         matmul.ready(z.down().forward_onto());
}

// From the context and x to y1 and its norm.
template <class E>
void add_attention(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
                   const Norm<E>& norm, const Workbench& on) {
  const void *c = call.saved[Saved::context].data, *w = call.weights[out_w].data;
  void *bias = call.weights[out_b].data, *sum = call.saved[mlp_input].data;
  const E* x = elements<E>(call.input);
  if (adds_in_gemms(shape, z, *on.matmul)) {
    on.multiply(z.out().forward_onto(), {c, w, sum, bias, nullptr, x});
    layer_norm<E>(static_cast<const E*>(sum), norm, z.residual(), on.stream);
    return;
  }
  on.multiply(z.out().forward(Epilogue::bias), {c, w, sum, bias});
  residual_layer_norm<E>(x, on.mask(call, shape.residual_dropout, DropoutSite::attention_output),
                         static_cast<E*>(sum), norm, z.residual(), on.stream);
}

// From gelu(u) and y1 to y.
template <class E>
void add_mlp(const TransformerShape& shape, const LayerCall& call, const Sizes& z,
             const Workbench& on) {
  const void *x = call.saved[activated].data, *w = call.weights[down_w].data;
  void *bias = call.weights[down_b].data, *y = call.output.data;
  const E* before = elements<E>(call.saved[mlp_input]);
  if (adds_in_gemms(shape, z, *on.matmul)) {
    on.multiply(z.down().forward_onto(), {x, w, y, bias, nullptr, before});
    return;
  }
  on.multiply(z.down().forward(Epilogue::bias), {x, w, y, bias});
  dropout_add<E>(on.mask(call, shape.residual_dropout, DropoutSite::mlp_output), before,
                 z.elements(), static_cast<E*>(y), on.stream);
}

template <class E>
void run_forward(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  const Sizes z(shape, call.batch, call.seq_length);
  const auto w = [&call](Weight which) { return elements<E>(call.weights[which]); };
  const auto saved = [&call](Saved which) { return elements<E>(call.saved[which]); };
  const auto epsilon = static_cast<float>(shape.norm_epsilon);
  const Norm<E> norm1{w(norm1_gain), w(norm1_shift), epsilon, saved(normed1),
                      call.saved[statistics1].floats()};
  const Norm<E> norm2{w(norm2_gain), w(norm2_shift), epsilon, saved(normed2),
                      call.saved[statistics2].floats()};

  layer_norm<E>(elements<E>(call.input), norm1, z.residual(), on.stream);
  on.multiply(z.qkv().forward(Epilogue::bias), {saved(normed1), w(qkv_w), saved(qkv), w(qkv_b)});
  attend<E>(shape, call, z, on);
  add_attention<E>(shape, call, z, norm2, on);
  up_and_activate<E>(shape, call, z, on);
  add_mlp<E>(shape, call, z, on);
}

// What both norms of a block have in common: `b`, their output's gradient, and where the rest lies.
template <class E>
NormGradient<E> norm_gradient(const Tensor& x, const Tensor& statistics, const Tensor& weight,
                              const E* b, float* gradients, const Sizes& z, const Workbench& on) {
  return {.x = elements<E>(x),
          .statistics = statistics.floats(),
          .weight = elements<E>(weight),
          .dy = b,
          .weight_gradient = gradients,
          .bias_gradient = gradients + z.h,
          .partials = on.partials};
}

template <class E>
void run_backward_input(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  const Sizes z(shape, call.batch, call.seq_length);
  const auto w = [&call](Weight which) { return elements<E>(call.weights[which]); };
  const E* dy = elements<E>(call.output_gradient);
  E* dx = elements<E>(call.input_gradient);
  E* a = elements<E>(call.workspace);
  E* b = a + z.elements();
  E* d_out = elements<E>(call.carried[out_gradient]);
  float* norm1 = call.carried[norm_gradients].floats();
  float* norm2 = norm1 + 2 * z.h;

  const StepMask mlp_mask = on.mask(call, shape.residual_dropout, DropoutSite::mlp_output);
  activate_and_up_gradient<E>(shape, call, z, dropped<E>(mlp_mask, dy, z.elements(), a, on.stream),
                              on);
  on.multiply(z.up().input(Epilogue::none), {call.carried[up_gradient].data, w(up_w), b});
  auto second = norm_gradient<E>(call.saved[mlp_input], call.saved[statistics2],
                                 call.weights[norm2_gain], b, norm2, z, on);
  second.residual = dy;
  second.mask = on.mask(call, shape.residual_dropout, DropoutSite::attention_output);
  // y1's gradient: what W needs of it is masked; without a mask it is the same, and made once.
  const bool masked = second.mask.mask.active();
  E* d_sum = masked ? dx : d_out;
  second.dx = d_sum;
  second.dropped = masked ? d_out : nullptr;
  layer_norm_gradient<E>(second, z.residual(), on.stream);
  on.multiply(z.out().input(Epilogue::none), {d_out, w(out_w), a});
  attend_gradient<E>(shape, call, z, a, on);
  on.multiply(z.qkv().input(Epilogue::none), {call.carried[qkv_gradient].data, w(qkv_w), b});
  auto first = norm_gradient<E>(call.input, call.saved[statistics1], call.weights[norm1_gain], b,
                                norm1, z, on);
  first.residual = d_sum;
  first.dx = dx;
  layer_norm_gradient<E>(first, z.residual(), on.stream);
}

// Floats up to where the next tensor would begin: algorithms are chosen for sums that begin as
// tensors do.
std::int64_t whole_lines(std::int64_t floats) { return aligned_bytes(floats * 4) / 4; }

// The vectors that a block's W adds to gradients, all in one launch at its end.
struct VectorGradients {
  float* place;  // of the next sum to be kept until then
  Additions additions;

  void add(const float* from, const Tensor& to, std::int64_t n) {
    additions.of[additions.count++] = {from, to.floats(), n};
  }
};

// dw (+)= dy' x and db (+)= dy summed over its rows.
template <class E>
void linear_gradient(const Linear& linear, const E* dy, const Tensor& x, const LayerCall& call,
                     Weight weight, Weight bias, const Workbench& on, VectorGradients& vectors) {
  float *dw = call.gradients[weight].floats(), *db = call.gradients[bias].floats();
  const Gemm fused = linear.weight(call.accumulate, Epilogue::row_sums_of_a);
  if (!on.matmul->ready(fused)) {
    on.multiply(linear.weight(call.accumulate, Epilogue::none), {dy, x.data, dw});
    column_sum<E>(dy, {linear.rows, linear.out}, call.accumulate ? Beta::one : Beta::zero,
                  on.partials, db, on.stream);
  } else if (!call.accumulate) {
    on.multiply(fused, {dy, x.data, dw, db});
  } else {
    on.multiply(fused, {dy, x.data, dw, vectors.place});
    vectors.add(vectors.place, call.gradients[bias], linear.out);
    vectors.place += whole_lines(linear.out);
  }
}

template <class E>
void run_backward_weight(const TransformerShape& shape, const LayerCall& call,
                         const Workbench& on) {
  const Sizes z(shape, call.batch, call.seq_length);
  const auto carried = [&call](Carried which) { return elements<E>(call.carried[which]); };
  const E* d_down = dropped<E>(on.mask(call, shape.residual_dropout, DropoutSite::mlp_output),
                               elements<E>(call.output_gradient), z.elements(),
                               elements<E>(call.workspace), on.stream);
  VectorGradients vectors{on.row_sums, {}};
  linear_gradient<E>(z.down(), d_down, call.saved[activated], call, down_w, down_b, on, vectors);
  linear_gradient<E>(z.up(), carried(up_gradient), call.saved[normed2], call, up_w, up_b, on,
                     vectors);
  linear_gradient<E>(z.out(), carried(out_gradient), call.saved[context], call, out_w, out_b, on,
                     vectors);
  linear_gradient<E>(z.qkv(), carried(qkv_gradient), call.saved[normed1], call, qkv_w, qkv_b, on,
                     vectors);
  const float* norms = call.carried[norm_gradients].floats();
  for (const Weight which : {norm1_gain, norm1_shift, norm2_gain, norm2_shift}) {
    vectors.add(norms, call.gradients[which], z.h);
    norms += z.h;
  }
  accumulate(vectors.additions, call.accumulate ? Beta::one : Beta::zero, on.stream);
}

}  // namespace

AttentionShape attention_shape(const TransformerShape& shape, std::int64_t batch,
                               std::int64_t seq_length, Element element) {
  const Dtype dtype = element == Element::bf16 ? Dtype::bf16 : Dtype::fp32;
  return {batch, seq_length, shape.heads, shape.head_dim, dtype, shape.attention_dropout > 0};
}

ScratchNeeds prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length,
                     Matmul& matmul) {
  const Sizes z(shape, batch, seq_length);
  const BlockEpilogues epilogues = block_epilogues(shape, matmul.element());
  for (const Linear& linear : {z.qkv(), z.out(), z.up(), z.down()}) {
    matmul.prepare(linear.forward(Epilogue::bias));
    matmul.prepare(linear.input(Epilogue::none));
    for (const bool accumulate : {false, true}) {
      matmul.prepare(linear.weight(accumulate, Epilogue::none));
      if (epilogues.bias_gradient)
        matmul.try_prepare(linear.weight(accumulate, Epilogue::row_sums_of_a));
    }
  }
  if (epilogues.gelu) matmul.try_prepare(z.up().forward(Epilogue::bias_gelu));
  if (shape.residual_dropout == 0) {
    for (const Linear& linear : {z.out(), z.down()}) matmul.try_prepare(linear.forward_onto());
  }
  const std::int64_t widest = std::max(3 * z.h, z.f),
                     sums = 2 * whole_lines(z.h) + whole_lines(z.f) +
                            whole_lines(3 * z.h);  // biases' gradients
  if (shape.attention == AttentionKind::fused) {
    return {.partials = widest * partials_of(z.rows), .row_sums = sums};
  }
  const HeadsGemms p(z);
  for (const Gemm& gemm : {p.scores, p.mix, p.d_probabilities, p.d_value, p.d_query, p.d_key}) {
    matmul.prepare(gemm);
  }
  return {.partials = widest * partials_of(z.rows),
          .row_sums = sums,
          .scores = z.matrices(),
          .masked_bytes = z.matrices() * bytes_of(matmul.element())};
}

void forward(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) { run_forward<decltype(element)>(shape, call, on); });
}
void backward_input(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) { run_backward_input<decltype(element)>(shape, call, on); });
}
void backward_weight(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) { run_backward_weight<decltype(element)>(shape, call, on); });
}

}  // namespace weir::cuda
