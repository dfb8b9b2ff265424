// The transformer block on CUDA. Pre-norm (GPT-2's and OPT's, ViT's, Llama's and those that share
// it):
//
//   n1 = norm(x)    qkv = turn(n1 Wqkv + b)  p = softmax(q k' / sqrt d)   c = drop(p) v
//   y1 = x + drop(c Wo + b)
//   n2 = norm(y1)   u = n2 Wup + b           g = act(u)              y = y1 + drop(g Wdown + b)
//
// Post-norm (BERT): the products read x and y1 themselves, and the norms the sums,
//
//   y1 = norm(x + drop(c Wo + b))            y = norm(y1 + drop(g Wdown + b))
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
#include "exec/cuda/block_mlp.hpp"
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

// A product that ends in the residual stream, and what it is added to there.
template <class E>
struct Addend {
  Linear product;
  const E *x, *w;
  E* bias;
  const E* residual;
  DropoutSite site;
};
template <class E>
Addend<E> attention_addend(const BlockCall<E>& block) {
  return {
      block.products.out,           block.saved(Saved::context),   block.weight(block.at.out_w),
      block.weight(block.at.out_b), elements<E>(block.call.input), DropoutSite::attention_output};
}
template <class E>
Addend<E> mlp_addend(const BlockCall<E>& block) {
  return {block.products.down,           block.saved(Saved::activated),
          block.weight(block.at.down_w), block.weight(block.at.down_b),
          block.saved(Saved::mlp_input), DropoutSite::mlp_output};
}

// The sum, and its norm.
template <class E>
void add_and_norm(const BlockCall<E>& block, const Addend<E>& of, E* sum, const Norm<E>& norm) {
  const auto& [shape, call, on, at, z, products] = block;
  // Without dropout x + c Wo is one product, which adds to x as it stores.
  if (adds_in_gemms(shape, products, *on.matmul)) {
    on.multiply(of.product.forward_onto(), {of.x, of.w, sum, of.bias, nullptr, of.residual});
    return norm_rows<E>(shape.norm, sum, norm, residual_rows(z), on.stream);
  }
  shared_product<E>(block, of.product, of.x, of.w, of.bias, sum);
  residual_norm_rows<E>(shape.norm, of.residual, block.residual_mask(of.site), sum, norm,
                        residual_rows(z), on.stream);
}

// The sum alone.
template <class E>
void add_residual(const BlockCall<E>& block, const Addend<E>& of, E* sum) {
  const auto& [shape, call, on, at, z, products] = block;
  if (adds_in_gemms(shape, products, *on.matmul))
    return on.multiply(of.product.forward_onto(), {of.x, of.w, sum, of.bias, nullptr, of.residual});
  shared_product<E>(block, of.product, of.x, of.w, of.bias, sum);
  dropout_add<E>(block.residual_mask(of.site), of.residual, z.own.count * z.h, sum, on.stream);
}

template <class E>
void run_forward(const BlockCall<E>& block) {
  const auto& [shape, call, on, at, z, products] = block;
  const bool pre = shape.pre_norm;
  const auto epsilon = static_cast<float>(shape.norm_epsilon);
  E *x = elements<E>(call.input), *y = elements<E>(call.output);
  const Norm<E> norm1{block.weight(at.norm1_gain), block.weight(at.norm1_shift), epsilon,
                      pre ? block.saved(Saved::normed1) : block.saved(Saved::mlp_input),
                      call.saved[Saved::statistics1].floats()};
  const Norm<E> norm2{block.weight(at.norm2_gain), block.weight(at.norm2_shift), epsilon,
                      pre ? block.saved(Saved::normed2) : y,
                      call.saved[Saved::statistics2].floats()};

  if (pre) norm_rows<E>(shape.norm, x, norm1, residual_rows(z), on.stream);
  on.multiply(products.qkv.forward(),
              {block.all_rows(block.attention_read()), block.weight(at.qkv_w),
               block.saved(Saved::qkv), block.weight(at.qkv_b)});
  attend<E>(block);
  // Where the norm stands behind the sum, the sum is kept: its backward starts from it.
  add_and_norm<E>(block, attention_addend(block),
                  pre ? block.saved(Saved::mlp_input) : block.saved(Saved::normed1),
                  pre ? norm2 : norm1);
  up_and_activate<E>(block);
  if (pre) return add_residual<E>(block, mlp_addend(block), y);
  add_and_norm<E>(block, mlp_addend(block), block.saved(Saved::normed2), norm2);
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

// Back through the norm of a sum whose second term had been masked: that term's gradient is put in
// `kept`, as W needs it, and the unmasked sum's, which is the first term's, is returned: it stands
// in `place`, or without a mask in `kept` too.
template <class E>
const E* sum_gradient(const BlockCall<E>& block, NormGradient<E> norm, DropoutSite site, E* place,
                      E* kept) {
  norm.mask = block.residual_mask(site);
  const bool masked = norm.mask.mask.active();
  norm.dx = masked ? place : kept;
  norm.dropped = masked ? kept : nullptr;
  norm_rows_gradient<E>(block.shape.norm, norm, residual_rows(block.size), block.on.stream);
  return norm.dx;
}

template <class E>
void pre_norm_backward_input(const BlockCall<E>& block) {
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
  // y1's gradient.
  const E* d_sum = sum_gradient<E>(block, second, DropoutSite::attention_output, dx, d_out);
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

template <class E>
void post_norm_backward_input(const BlockCall<E>& block) {
  const auto& [shape, call, on, at, z, products] = block;
  E* dx = elements<E>(call.input_gradient);
  E* a = block.workspace() + z.first();
  E* b = block.workspace() + z.second();
  E *d_down = block.carried(Carried::down_gradient), *d_out = block.carried(Carried::out_gradient);
  float* norm1 = call.carried[Carried::norm_gradients].floats();
  float* norm2 = norm1 + 2 * z.h;
  const auto add_to = [&](const E* more, E* sum) {
    dropout_add<E>({}, more, z.elements(), sum, on.stream);
  };

  // Phase 1: the second norm, and back through the MLP. y1 was read by the sum and by the MLP.
  const auto second = norm_gradient<E>(block, call.saved[Saved::normed2], Saved::statistics2,
                                       at.norm2_gain, elements<E>(call.output_gradient), norm2);
  const E* d_sum2 = sum_gradient<E>(block, second, DropoutSite::mlp_output, b, d_down);
  activate_and_up_gradient<E>(block, d_down);
  on.multiply(products.up.input(Epilogue::none),
              {block.carried(Carried::up_gradient), block.weight(at.up_w), a});
  add_to(d_sum2, a);
  // Phase 2: the first norm, and back through the attention. b is free again.
  const auto first = norm_gradient<E>(block, call.saved[Saved::normed1], Saved::statistics1,
                                      at.norm1_gain, a, norm1);
  const E* d_sum1 = sum_gradient<E>(block, first, DropoutSite::attention_output, b, d_out);
  on.multiply(products.out.input(Epilogue::none), {d_out, block.weight(at.out_w), a});
  attend_gradient<E>(block, a);
  // x was read by the sum and by qkv.
  on.multiply(products.qkv.input(Epilogue::none),
              {block.carried(Carried::qkv_gradient), block.weight(at.qkv_w), dx});
  add_to(d_sum1, dx);
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
    column_sum<E>(dy, {linear.rows, linear.out}, beta(call), on.partials, db, on.stream);
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

// Of the MLP's last product.
template <class E>
const E* mlp_gradient(const BlockCall<E>& block) {
  const BlockSize& z = block.size;
  if (!block.shape.pre_norm) return block.carried(Carried::down_gradient);
  // The masked gradient of I is gone by now: the mask is drawn again.
  return dropped<E>(block.residual_mask(DropoutSite::mlp_output),
                    elements<E>(block.call.output_gradient), z.own.count * z.h,
                    block.workspace() + z.room, block.on.stream);
}

template <class E>
void run_backward_weight(const BlockCall<E>& block) {
  const auto& [shape, call, on, at, z, products] = block;
  const E* d_down = mlp_gradient(block);
  VectorGradients vectors{on.row_sums, {}};
  // Gradients are gathered in the first part of the workspace, what they multiply in the second:
  // the masked gradient there was gathered before.
  linear_gradient<E>(products.down, block.all_rows(d_down), block.saved(Saved::activated),
                     at.down_w, at.down_b, block, vectors);
  linear_gradient<E>(products.up, block.carried(Carried::up_gradient),
                     block.all_rows(block.mlp_read(), z.room), at.up_w, at.up_b, block, vectors);
  linear_gradient<E>(products.out, block.all_rows(block.carried(Carried::out_gradient)),
                     block.saved(Saved::context), at.out_w, at.out_b, block, vectors);
  linear_gradient<E>(products.qkv, block.carried(Carried::qkv_gradient),
                     block.all_rows(block.attention_read(), z.room), at.qkv_w, at.qkv_b, block,
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
  accumulate(vectors.additions, beta(call), on.stream);
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
    const BlockCall<decltype(element)> block{shape, call, on};
    shape.pre_norm ? pre_norm_backward_input(block) : post_norm_backward_input(block);
  });
}
void backward_weight(const TransformerShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    run_backward_weight(BlockCall<decltype(element)>{shape, call, on});
  });
}

}  // namespace weir::cuda
