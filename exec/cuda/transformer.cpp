// The pre-norm block on CUDA (GPT-2's and OPT's, Llama's and those that share it):
//
//   n1 = norm(x)    qkv = turn(n1 Wqkv + b)  p = softmax(q k' / sqrt d)   c = drop(p) v
//   y1 = x + drop(c Wo + b)
//   n2 = norm(y1)   u = n2 Wup + b           g = act(u)              y = y1 + drop(g Wdown + b)
//
// Norms are layer norms or RMS norms, biases may be absent; a gated MLP's u is two halves and
// g = act(first) second. Attention is exec/cuda/block_attention's.
//
// Where devices divide the block (Shoeybi et al. 2019, section 3) each has a part of the heads and
// of f. What ends in the residual stream, (c Wo) and (g Wdown) forwards, the gradients of n1 and n2
// backwards, is then summed over the devices; the rest of the stream each has whole. Under sequence
// parallelism (Korthikanti et al. 2022, section 4.2) each has its rows of that rest: what a product
// reads is gathered, and the sums are scattered.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exec/cuda/block.hpp"
#include "exec/cuda/block_attention.hpp"
#include "exec/cuda/kernels/activation.hpp"
#include "exec/cuda/kernels/dropout.hpp"
#include "exec/cuda/kernels/sums.hpp"
#include "exec/cuda/norms.hpp"
#include "plan/model/layer_tensors.hpp"

namespace weir::cuda {
namespace {

using block_places::Carried;
using block_places::Saved;
using block_places::WeightPlaces;

static_assert(Additions::kMost >= 10, "four biases, four gains and two shifts");
static_assert(static_cast<int>(Activation::gelu) == static_cast<int>(Curve::gelu) &&
              static_cast<int>(Activation::gelu_tanh) == static_cast<int>(Curve::gelu_tanh) &&
              static_cast<int>(Activation::relu) == static_cast<int>(Curve::relu) &&
              static_cast<int>(Activation::silu) == static_cast<int>(Curve::silu));
Curve curve_of(Activation activation) { return static_cast<Curve>(activation); }

// u = n2 Wup + b and g = act(u).
template <class E>
void up_and_activate(const BlockCall<E>& block) {
  const auto& [shape, call, on, at, z, products] = block;
  const E *x = block.all_rows(block.saved(Saved::normed2)), *w = block.weight(at.up_w);
  E *bias = block.weight(at.up_b), *u = block.saved(Saved::up), *g = block.saved(Saved::activated);
  const Gemm fused = products.up.forward(Epilogue::bias_gelu);
  if (on.matmul->ready(fused)) return on.multiply(fused, {x, w, g, bias, u});
  on.multiply(products.up.forward(), {x, w, u, bias});
  if (shape.gated) return gate<E>(curve_of(shape.activation), u, {z.rows, z.f}, g, on.stream);
  activate<E>(curve_of(shape.activation), u, z.rows * z.f, g, on.stream);
}

// The gradient of what the activation gave; of a gated MLP it is put where u's second half has its
// place.
Gemm activated_gradient(const TransformerShape& shape, const Linear& down) {
  Gemm gemm = down.input(Epilogue::none);
  if (shape.gated) gemm.c_row = 2 * (gemm.begins = shape.ffn);
  return gemm;
}

// u's gradient from that of the gemm down, before its dropout.
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

// x * mask, in `place`; without an active mask x itself.
template <class E>
const E* dropped(const StepMask& mask, const E* x, std::int64_t n, E* place, cudaStream_t stream) {
  if (!mask.mask.active()) return x;
  dropout<E>(mask, 0, x, n, place, stream);
  return place;
}

// Whether residual adds can be left to the gemms: without dropout in between.
bool adds_in_gemms(const TransformerShape& shape, const BlockProducts& products,
                   const Matmul& matmul) {
  return shape.residual_dropout == 0 && matmul.ready(products.out.forward_onto()) &&
         matmul.ready(products.down.forward_onto());
}

// A product that ends in the residual stream: each device multiplies its part, the first adds the
// bias, and all add up; y has the device's rows.
template <class E>
void shared_product(const BlockCall<E>& block, Linear product, const E* x, const E* w, E* bias,
                    E* y) {
  const Group& group = block.on.group;
  product.bias = product.bias && group.place == 0;
  E* const part = group.divides_rows ? block.workspace() : y;
  block.on.multiply(product.forward(), {x, w, part, product.bias ? bias : nullptr});
  group.sum_parts(part, block.size.elements(), y);
}

// From the context and x to y1 and its norm.
template <class E>
void add_attention(const BlockCall<E>& block, const Norm<E>& norm) {
  const auto& [shape, call, on, at, z, products] = block;
  const E *c = block.saved(Saved::context), *w = block.weight(at.out_w);
  E *bias = block.weight(at.out_b), *sum = block.saved(Saved::mlp_input);
  const E* x = elements<E>(call.input);
  // Without dropout x + c Wo is one product, which adds to x as it stores.
  if (adds_in_gemms(shape, products, *on.matmul)) {
    on.multiply(products.out.forward_onto(), {c, w, sum, bias, nullptr, x});
    return norm_rows<E>(shape.norm, sum, norm, residual_rows(z), on.stream);
  }
  shared_product<E>(block, products.out, c, w, bias, sum);
  residual_norm_rows<E>(shape.norm, x, block.residual_mask(DropoutSite::attention_output), sum,
                        norm, residual_rows(z), on.stream);
}

// From g and y1 to y.
template <class E>
void add_mlp(const BlockCall<E>& block) {
  const auto& [shape, call, on, at, z, products] = block;
  const E *x = block.saved(Saved::activated), *w = block.weight(at.down_w);
  E *bias = block.weight(at.down_b), *y = elements<E>(call.output);
  const E* before = block.saved(Saved::mlp_input);
  if (adds_in_gemms(shape, products, *on.matmul))
    return on.multiply(products.down.forward_onto(), {x, w, y, bias, nullptr, before});
  shared_product<E>(block, products.down, x, w, bias, y);
  dropout_add<E>(block.residual_mask(DropoutSite::mlp_output), before, z.own.count * z.h, y,
                 on.stream);
}

template <class E>
void run_forward(const BlockCall<E>& block) {
  const auto& [shape, call, on, at, z, products] = block;
  const auto epsilon = static_cast<float>(shape.norm_epsilon);
  const Norm<E> norm1{block.weight(at.norm1_gain), block.weight(at.norm1_shift), epsilon,
                      block.saved(Saved::normed1), call.saved[Saved::statistics1].floats()};
  const Norm<E> norm2{block.weight(at.norm2_gain), block.weight(at.norm2_shift), epsilon,
                      block.saved(Saved::normed2), call.saved[Saved::statistics2].floats()};

  norm_rows<E>(shape.norm, elements<E>(call.input), norm1, residual_rows(z), on.stream);
  on.multiply(products.qkv.forward(), {block.all_rows(norm1.y), block.weight(at.qkv_w),
                                       block.saved(Saved::qkv), block.weight(at.qkv_b)});
  attend<E>(block);
  add_attention<E>(block, norm2);
  up_and_activate<E>(block);
  add_mlp<E>(block);
}

// What both norms of a block have in common: `b`, their output's gradient, and where the rest lies.
template <class E>
NormGradient<E> norm_gradient(const BlockCall<E>& block, const Tensor& x, Saved statistics,
                              int gain, const E* b, float* gradients) {
  return {.x = elements<E>(x),
          .statistics = block.call.saved[statistics].floats(),
          .weight = block.weight(gain),
          .dy = b,
          .weight_gradient = gradients,
          .bias_gradient = gradients + block.size.h,
          .partials = block.on.partials};
}

template <class E>
void run_backward_input(const BlockCall<E>& block) {
  const auto& [shape, call, on, at, z, products] = block;
  const E* dy = elements<E>(call.output_gradient);
  E* dx = elements<E>(call.input_gradient);
  E* a = block.workspace() + z.first();
  E* b = block.workspace() + z.second();
  // The device's rows of what was found of all in b: where they are divided, in what was gathered.
  E* summed = on.group.divides_rows ? block.workspace() : b;
  E* d_out = block.carried(Carried::out_gradient);
  float* norm1 = call.carried[Carried::norm_gradients].floats();
  float* norm2 = norm1 + 2 * z.h;

  const StepMask mlp_mask = block.residual_mask(DropoutSite::mlp_output);
  // Phase 1: back through the MLP. The mask that the forward drew is drawn again.
  activate_and_up_gradient<E>(
      block, block.all_rows(dropped<E>(mlp_mask, dy, z.own.count * z.h, a, on.stream)));
  on.multiply(products.up.input(Epilogue::none),
              {block.carried(Carried::up_gradient), block.weight(at.up_w), b});
  on.group.sum_parts(b, z.elements(), summed);
  // Phase 2: the second norm. dy reaches y1 past the MLP too, as the norm's residual.
  auto second = norm_gradient<E>(block, call.saved[Saved::mlp_input], Saved::statistics2,
                                 at.norm2_gain, summed, norm2);
  second.residual = dy;
  second.mask = block.residual_mask(DropoutSite::attention_output);
  // y1's gradient: what W needs of it is masked; without a mask it is the same, and made once.
  const bool masked = second.mask.mask.active();
  E* d_sum = masked ? dx : d_out;
  second.dx = d_sum;
  second.dropped = masked ? d_out : nullptr;
  norm_rows_gradient<E>(shape.norm, second, residual_rows(z), on.stream);
  // Phase 3: back through attention's output, attention and qkv. The workspace's a and b are used
  // in turn.
  on.multiply(products.out.input(Epilogue::none),
              {block.all_rows(d_out), block.weight(at.out_w), a});
  attend_gradient<E>(block, a);
  on.multiply(products.qkv.input(Epilogue::none),
              {block.carried(Carried::qkv_gradient), block.weight(at.qkv_w), b});
  on.group.sum_parts(b, z.elements(), summed);
  // Phase 4: the first norm, with y1's gradient as the residual: dx is complete.
  auto first =
      norm_gradient<E>(block, call.input, Saved::statistics1, at.norm1_gain, summed, norm1);
  first.residual = d_sum;
  first.dx = dx;
  norm_rows_gradient<E>(shape.norm, first, residual_rows(z), on.stream);
}

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
void linear_gradient(const Linear& linear, const E* dy, const E* read, int weight, int bias,
                     const BlockCall<E>& block, VectorGradients& vectors) {
  const LayerCall& call = block.call;
  const Workbench& on = block.on;
  const auto gradient = [&call](int place) {
    return call.gradients[static_cast<std::size_t>(place)];
  };
  float* dw = gradient(weight).floats();
  const Gemm plain = linear.weight(call.accumulate, Epilogue::none),
             fused = linear.weight(call.accumulate, Epilogue::row_sums_of_a);
  // Without a bias there is nothing to sum.
  if (bias == WeightPlaces::kAbsent) return on.multiply(plain, {dy, read, dw});
  float* db = gradient(bias).floats();
  // The library may have no such epilogue for this shape: the sums are then a kernel of their own.
  if (!on.matmul->ready(fused)) {
    on.multiply(plain, {dy, read, dw});
    column_sum<E>(dy, {linear.rows, linear.out}, call.accumulate ? Beta::one : Beta::zero,
                  on.partials, db, on.stream);
  } else if (!call.accumulate) {
    on.multiply(fused, {dy, read, dw, db});
  } else {
    // The epilogue overwrites its sums even where the product adds, so they go to scratch and are
    // added with the norms' at the end.
    on.multiply(fused, {dy, read, dw, vectors.place});
    vectors.add(vectors.place, gradient(bias), linear.out);
    vectors.place += whole_lines(linear.out);
  }
}

template <class E>
void run_backward_weight(const BlockCall<E>& block) {
  const auto& [shape, call, on, at, z, products] = block;
  // The masked gradient of I is gone by now: the mask is drawn again.
  const E* d_down =
      dropped<E>(block.residual_mask(DropoutSite::mlp_output), elements<E>(call.output_gradient),
                 z.own.count * z.h, block.workspace() + z.room, on.stream);
  VectorGradients vectors{on.row_sums, {}};
  // Gradients are gathered in the first part of the workspace, what they multiply in the second:
  // the masked gradient there was gathered before.
  linear_gradient<E>(products.down, block.all_rows(d_down), block.saved(Saved::activated),
                     at.down_w, at.down_b, block, vectors);
  linear_gradient<E>(products.up, block.carried(Carried::up_gradient),
                     block.all_rows(block.saved(Saved::normed2), z.room), at.up_w, at.up_b, block,
                     vectors);
  linear_gradient<E>(products.out, block.all_rows(block.carried(Carried::out_gradient)),
                     block.saved(Saved::context), at.out_w, at.out_b, block, vectors);
  linear_gradient<E>(products.qkv, block.carried(Carried::qkv_gradient),
                     block.all_rows(block.saved(Saved::normed1), z.room), at.qkv_w, at.qkv_b, block,
                     vectors);
  const auto add = [&, &gradients = call.gradients](const float* from, int place, std::int64_t n) {
    if (place != WeightPlaces::kAbsent)
      vectors.add(from, gradients[static_cast<std::size_t>(place)], n);
  };
  const float* norms = call.carried[Carried::norm_gradients].floats();
  // As the pass I has left them: of each norm h gains, then h shifts.
  for (const int place : {at.norm1_gain, at.norm1_shift, at.norm2_gain, at.norm2_shift}) {
    add(norms, place, z.h);
    norms += z.h;
  }
  if (shape.qk_norm) {
    const float* gains = call.carried[Carried::query_key_norm_gradients].floats();
    add(gains, at.query_gain, z.d);
    add(gains + z.d, at.key_gain, z.d);
  }
  // All vectors in one launch: each is too short to fill the device.
  accumulate(vectors.additions, call.accumulate ? Beta::one : Beta::zero, on.stream);
}

}  // namespace

ScratchNeeds prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on) {
  Matmul& matmul = *on.matmul;
  const BlockSize z(shape, batch, seq_length, on.group.at());
  const BlockProducts products = block_products(shape, z.rows);
  const BlockEpilogues epilogues = block_epilogues(shape, matmul.element());
  std::int64_t widest = 2 * z.h, sums = 0;
  // Nothing is chosen while a step runs: every product of every pass is prepared here.
  for (const Gemm& gemm :
       {products.qkv.input(Epilogue::none), products.out.input(Epilogue::none),
        products.up.input(Epilogue::none), activated_gradient(shape, products.down)}) {
    matmul.prepare(gemm);
  }
  for (const Linear& linear : {products.qkv, products.out, products.up, products.down}) {
    matmul.prepare(linear.forward());
    for (const bool accumulate : {false, true}) {
      matmul.prepare(linear.weight(accumulate, Epilogue::none));
      // Tried, not demanded: where the library has none, the plain product and a kernel do it.
      if (epilogues.bias_gradient && linear.bias)
        matmul.try_prepare(linear.weight(accumulate, Epilogue::row_sums_of_a));
    }
    if (!linear.bias) continue;
    widest = std::max(widest, linear.out);
    sums += whole_lines(linear.out);  // biases' gradients
  }
  if (epilogues.gelu) matmul.try_prepare(products.up.forward(Epilogue::bias_gelu));
  // Of a product that devices share one adds the bias, and the residual stream comes behind the
  // sum. Residuals can be added within a product only where no mask comes between.
  for (Linear linear : {products.out, products.down}) {
    if (!on.group.divided() && shape.residual_dropout == 0)
      matmul.try_prepare(linear.forward_onto());
    if (on.group.place > 0) matmul.prepare(linear.forward(Epilogue::none));
  }
  ScratchNeeds needs = prepare_attention(shape, z, matmul);
  needs.cover({.partials = widest * partials_of(z.rows),
               .row_sums = sums,
               .group_bytes = on.group.room_bytes(z.elements(), bytes_of(matmul.element()))});
  return needs;
}

void forward(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) { run_forward(BlockCall<decltype(element)>{shape, call, on}); });
}
void backward_input(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    run_backward_input(BlockCall<decltype(element)>{shape, call, on});
  });
}
void backward_weight(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    run_backward_weight(BlockCall<decltype(element)>{shape, call, on});
  });
}

}  // namespace weir::cuda
