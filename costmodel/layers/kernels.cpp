// Where to start: `Kernels` lists what each kind of layer launches in F, I and W. Fused as
// frameworks do it: a norm, an activation, a residual with its dropout, a rotation, a softmax with
// its mask are one kernel each.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/kernels.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "costmodel/layers/fp8_casts.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "plan/job/stack_part.hpp"

namespace weir {
namespace {

// Of a product's x and of its result's gradient, where they are cast: what x comes out of, and
// which share of either the device holds itself, the rest being gathered; 0: cast with other work.
struct Factors {
  CastOf x_of = CastOf::other;
  double x_held = 1, dy_held = 1;
};

// Times of one layer: start an empty sum for each pass, add kernels, read the times.
struct Passes {
  const Device& device;
  KernelSum f, i, w, core;
  // Of f and i, what grows with the square of a sequence.
  Seconds squared_f{0}, squared_i{0};
  ProductPrecision precision = ProductPrecision::plan;  // of the weights' products
  bool trained = true;                                  // those weights
  Fp8Casts casts;                                       // of what is multiplied in 8 bits
  AttentionLibrary attention;
  Passes(const Device& of, Dtype dtype, const StackTime& stack)
      : device(of),
        f(of, dtype, stack),
        i(of, dtype, stack),
        w(of, dtype, stack),
        core(of, dtype, stack),
        attention(stack.attention) {}

  // y[m, n] = x[m, k] w: F; then dx[m, k] = dy w' and dw[k, n] = x' dy.
  void product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1,
               const Factors& factors = {}) {
    f.matmul({m, n, k, batch}, {.precision = precision});
    i.matmul({m, k, n, batch}, {.precision = precision});
    if (precision == ProductPrecision::fp8) {
      cast(f, static_cast<double>(batch * m * k), factors.x_held, factors.x_of);
      cast(i, static_cast<double>(batch * m * n), factors.dy_held, CastOf::other);
    }
    if (!trained) return;
    w.matmul({k, n, m, batch}, {.precision = precision, .target = ProductTarget::accumulated});
  }
  // Of `numbers` that a product reads the device casts those it holds; W alone reads columns.
  void cast(KernelSum& pass, double numbers, double held, CastOf from) {
    const bool gathered = held < 1;
    const double turned = gathered && trained ? turn_bytes(casts) : 0;
    const bool rows_alone = !trained || (gathered && columns_of_gathered_rows(casts));
    const int copies = rows_alone ? 1 : casts.copies;
    const double bytes = cast_bytes(casts, from, copies) * numbers * held;
    if (bytes > 0) pass.move(bytes);
    if (turned > 0) w.move(turned * numbers);
  }
  // Element-wise: numbers read and written in F; I also reads what F had.
  void each(std::int64_t forward, std::int64_t backward) {
    f.stream(forward);
    i.stream(backward);
  }
  void in_graph(bool graphed) {
    for (KernelSum* pass : {&f, &i, &w, &core}) pass->in_graph(graphed);
  }
};

// Legend as in plan/model/layer_tensors: tokens x of a device, rows x of what tp leaves whole, keys
// attended to.
struct Kernels {
  Passes& p;
  std::int64_t tokens, rows, keys, samples;
  const StackTime& stack;
  std::int64_t parameters;  // the device's of this layer
  CudaGraphs graphs = {};

  // What comes next is of this part of a block.
  void of_part(GraphPart part) const { p.in_graph(graphs.has(part)); }

  void operator()(const EmbeddingShape& e) const {
    if (e.patch > 0) p.product(tokens * samples, e.hidden, e.patch);
    p.f.stream(2 * rows * samples * e.hidden);
    if (p.trained) p.w.stream(2 * rows * samples * e.hidden);
    // A gradient as large as the table, however few of its rows were looked up.
    if (stack.embedding > 0 && parameters > 0)
      p.w.move(stack.embedding * static_cast<double>(parameters));
    if (e.norm) norm(e.hidden);
  }
  void operator()(const TransformerShape& b) const {
    const std::int64_t m = tokens * samples, q = b.heads * b.head_dim, kv = b.kv_heads * b.head_dim;
    if (predicts(b)) prediction(b);
    of_part(GraphPart::attn);
    norm(b.hidden);
    if (b.latent.key_value > 0) {
      latent_products(b);
    } else {
      p.product(m, q + (b.values_are_keys ? 1 : 2) * kv, b.hidden, 1, behind_norm(b));
    }
    if (b.qk_norm) normalise(m * (q + kv));
    // A turn reads and writes each number once.
    if (b.rotary) p.each(2 * m * (q + kv), 2 * m * (q + kv));
    attention(b, b.causal);
    p.product(m, b.hidden, b.heads * value_dim(b), 1, {.dy_held = held()});
    if (b.post_norms) norm(b.hidden);
    residual(b.hidden);
    if (b.cross_attention) {
      norm(b.hidden);
      p.product(m, q, b.hidden);
      p.product(m, 2 * kv, b.hidden);
      attention(b, false);
      p.product(m, b.hidden, q);
      residual(b.hidden);
    }
    const bool experts = b.experts > 1,
               whole = graphs.has(experts ? GraphPart::moe : GraphPart::mlp);
    p.in_graph(whole || (experts && graphs.has(GraphPart::moe_router)));
    if (!b.single_norm) norm(b.hidden);
    p.in_graph(whole);
    mlp(b, m);
    if (b.post_norms) norm(b.hidden);
    residual(b.hidden);
    p.in_graph(whole && graphs.has(GraphPart::attn));
    if (predicts(b)) norm(b.hidden);
  }
  // The table's rows, two norms side by side, their product; and what the block gives, and before
  // the first what came in, copied behind each other for the head.
  void prediction(const TransformerShape& b) const {
    const std::int64_t numbers = rows * samples * b.hidden;
    p.f.stream(2 * numbers);
    if (p.trained) p.w.stream(2 * numbers);
    if (p.trained && stack.embedding > 0)
      p.w.move(stack.embedding * static_cast<double>(b.prediction.vocabulary * b.hidden));
    norm(b.hidden);
    norm(b.hidden);
    p.each(4 * numbers, 4 * numbers);
    p.product(tokens * samples, b.prediction.projected, 2 * b.hidden);
    const std::int64_t copied = b.prediction.ahead == 1 ? 2 : 1;
    p.each(2 * copied * numbers, 2 * copied * numbers);
  }
  void operator()(const NormShape& n) const { norm(n.hidden); }
  void operator()(const HeadShape& head) const {
    const std::int64_t m = (head.pooled ? 1 : tokens) * samples;
    if (head.dense != HeadDense::none) p.product(m, head.hidden, head.hidden);
    if (head.vocabulary == 0) return;
    for (std::int64_t ahead = 0; ahead <= head.predictions; ++ahead) {
      p.product(m, head.vocabulary, head.hidden);
      loss(m * head.vocabulary);
    }
  }
  // The maximum and the sum in one reading; the gradient in place of the logits.
  void loss(std::int64_t logits) const {
    p.f.stream(3 * logits);
    const auto all = static_cast<double>(logits);
    if (stack.logits > 0) p.f.move(stack.logits * all);
    if (stack.logits_backward > 0) p.i.move(stack.logits_backward * all);
  }
  void operator()(const CellShape&) const {
    assert(false && "a cell's costs are shares of the rates");
  }
  void operator()(const TimedShape&) const { assert(false && "a timed layer says its own times"); }
  void operator()(const SizedShape&) const {
    assert(false && "a sized layer has no kernels that are known");
  }

  // Of tokens under sequence parallelism, until they are gathered.
  [[nodiscard]] double held() const {
    return static_cast<double>(rows) / static_cast<double>(tokens);
  }
  // What attention and a dense MLP read.
  [[nodiscard]] Factors behind_norm(const TransformerShape& b) const {
    return {b.pre_norm ? CastOf::norm : CastOf::other, held()};
  }

  void norm(std::int64_t hidden) const { normalise(rows * samples * hidden); }
  // One kernel that reads and writes; its backward reads the gradient too.
  void normalise(std::int64_t numbers) const {
    if (in_steps(stack.norm)) return steps(stack.norm, numbers);
    p.each(2 * numbers, 3 * numbers);
  }
  [[nodiscard]] bool in_steps(const StepwiseKernels& of) const {
    return of.forward > 0 && (of.with_fp8 || p.casts.recipe == Fp8Recipe::none);
  }
  void steps(const StepwiseKernels& of, std::int64_t numbers) const {
    p.f.steps(of.forward * static_cast<double>(numbers), of.kernels_forward);
    p.i.steps(of.backward * static_cast<double>(numbers), of.kernels_backward);
  }
  void residual(std::int64_t hidden) const {
    p.each(3 * rows * samples * hidden, 2 * rows * samples * hidden);
  }

  // What is narrow is made of tokens that tensor parallelism leaves whole, on each of its devices
  // (Megatron's duplicated down projections); queries, keys and values of a device's heads.
  void latent_products(const TransformerShape& b) const {
    const LatentAttention& l = b.latent;
    const std::int64_t m = tokens * samples, narrow = rows * samples;
    const std::int64_t queries = b.heads * b.head_dim;
    if (l.query > 0) {
      p.product(narrow, l.query, b.hidden);
      norm(l.query);
    }
    // What is narrow stays divided until the products behind its norm gather it
    // (NVIDIA/Megatron-LM@d98e8a64ddf3:megatron/core/models/gpt/gpt_layer_specs.py:106-122): those
    // normalise, cast and gather in one. Queries made at once are of a product without a norm.
    const Factors behind_own_norm{CastOf::norm, held()}, at_once{CastOf::other, held()};
    p.product(m, queries, l.query > 0 ? l.query : b.hidden, 1,
              l.query > 0 ? behind_own_norm : at_once);
    p.product(narrow, l.key_value + l.rotary, b.hidden);
    norm(l.key_value);
    p.product(m, b.heads * (b.head_dim - l.rotary + l.value), l.key_value, 1, behind_own_norm);
  }

  // Scores = q k', softmax, times v; backward: the gradients of probabilities and values, of the
  // softmax, of q and k. Selective re-materialisation makes scores and probabilities again.
  void attention(const TransformerShape& b, bool causal) const {
    if (b.attention == AttentionKind::fused) return fused_attention(b, causal);
    const std::int64_t heads = b.heads * samples, scores = heads * tokens * keys;
    const MatmulShape wide{tokens, keys, b.head_dim, heads},
        deep{tokens, value_dim(b), keys, heads};
    const Seconds f_before = p.f.device_time(), i_before = p.i.device_time();
    p.f.matmul(wide).matmul(deep);
    p.core.matmul(wide);
    p.i.matmul(wide).matmul(deep).matmul(deep).matmul(deep);
    softmax(scores);
    p.squared_f += p.f.device_time() - f_before;
    p.squared_i += p.i.device_time() - i_before;
  }

  // One kernel with its mask, which reads and writes; its backward reads the gradient too.
  void softmax(std::int64_t scores) const {
    const StepwiseKernels& of = stack.softmax;
    if (in_steps(of)) {
      steps(of, scores);
      p.core.steps(of.forward * static_cast<double>(scores), of.kernels_forward);
      return;
    }
    p.each(2 * scores, 3 * scores);
    p.core.stream(2 * scores);
  }

  // One kernel forward: reads queries, keys and values, writes the context. Backward: the row sums
  // of the context times its gradient, then one kernel that reads all of these and writes the three
  // gradients. No pass over the scores.
  void fused_attention(const TransformerShape& b, bool causal) const {
    const std::int64_t queries = tokens * samples * b.heads, all_keys = keys * samples * b.kv_heads,
                       deep = value_dim(b);
    const std::int64_t moved = queries * (b.head_dim + deep) + all_keys * (b.head_dim + deep);
    // Of heads whose values are narrower than their keys, the mean over the products. A window
    // leaves every query as many keys, so there is no mask's half.
    FusedCore core{tokens, keys, (b.head_dim + deep) / 2, b.heads * samples, causal, 2, moved};
    const bool windowed = b.window > 0 && b.window < keys;
    if (windowed) {
      core.keys = static_cast<std::int64_t>(keys_seen(b, static_cast<double>(keys)) / 2);
      core.causal = false;
    }
    core.library = p.attention;
    const Seconds f_before = p.f.device_time();
    p.f.fused(core);
    p.core.fused(core);
    // A window leaves each query as many keys, however long its sequence is.
    if (!windowed) p.squared_f += p.f.device_time() - f_before;
    // Backward has five products: scores and dp, and of them dv, dq and dk.
    core.products = 5;
    core.d = (3 * b.head_dim + 2 * deep) / 5;
    core.moved = 2 * moved;
    p.i.stream(2 * queries * deep);
    const Seconds i_before = p.i.device_time();
    p.i.fused(core);
    if (!windowed) p.squared_i += p.i.device_time() - i_before;
  }

  void mlp(const TransformerShape& b, std::int64_t m) const {
    const std::int64_t width = (b.gated ? 2 : 1) * b.ffn;
    const bool whole = graphs.has(GraphPart::moe);
    if (b.experts > 1) {
      p.in_graph(whole || graphs.has(GraphPart::moe_router));
      router(m, b);
      m = visits(b, m);
      p.in_graph(whole || graphs.has(GraphPart::moe_preprocess));
      p.each(2 * m * b.hidden, 2 * m * b.hidden);  // to the experts and back
      p.in_graph(whole);
      p.each(2 * m * b.hidden, 2 * m * b.hidden);
    }
    // Tokens are spread evenly over the local experts: products of equal size.
    const std::int64_t local = local_experts(b), each = ceil_div(m, local);
    // Experts read tokens that were sorted for them, and what they give is gathered elsewhere.
    const bool sorted = b.experts > 1;
    const Factors up = sorted ? Factors{} : behind_norm(b), down{.dy_held = sorted ? 1 : held()};
    p.product(each, width, b.hidden, local, up);
    p.each(m * (width + b.ffn), m * (2 * width + b.ffn));
    p.product(each, b.hidden, b.ffn, local, down);
    if (b.shared_ffn == 0) return;
    p.in_graph(whole || graphs.has(GraphPart::moe_router));
    shared_experts(b);
    p.in_graph(whole);
  }

  // Its products stay in the number format where those of the blocks run in FP8.
  void router(std::int64_t m, const TransformerShape& b) const {
    const ProductPrecision blocks = std::exchange(p.precision, ProductPrecision::plan);
    p.product(m, b.experts, b.hidden);
    p.precision = blocks;
  }

  void shared_experts(const TransformerShape& b) const {
    const std::int64_t m = tokens * samples, width = (b.gated ? 2 : 1) * b.shared_ffn;
    p.product(m, width, b.hidden, 1, {.x_held = held()});
    p.each(m * (width + b.shared_ffn), m * (2 * width + b.shared_ffn));
    p.product(m, b.hidden, b.shared_ffn, 1, {.dy_held = held()});
    p.each((b.shared_gate ? 3 : 2) * m * b.hidden, 2 * m * b.hidden);  // added to the others'
  }
};

// Of adapters: x A' B' as two narrow products in the number format, alpha / r times it, and the sum
// with the product beside; backward the same, and the sum of both gradients of x.
void add_adapters(Passes& p, const Layer& layer, const Split& split, const LayerShape& part,
                  std::int64_t tokens) {
  const auto& block = std::get<TransformerShape>(part);
  p.precision = ProductPrecision::plan;
  p.trained = true;
  for (const AdapterPart& adapter :
       adapters_of(block, layer.treated.adapters, split.tp, split.expert_tp())) {
    const std::int64_t m = adapter.tokens == AdapterTokens::visits ? visits(block, tokens) : tokens;
    // Gathered, and under sequence parallelism the device's tokens again, or of its own outputs.
    const std::int64_t answers =
        adapter.input_divided ? m * adapter.whole_out / (split.sequence_parallel ? split.tp : 1)
                              : m * adapter.out;
    if (layer.treated.adapters.dropout > 0) p.each(2 * m * adapter.in, 2 * m * adapter.in);
    p.product(m, adapter.made, adapter.in);
    p.product(m, adapter.out, adapter.rank);
    p.each(2 * answers, 2 * answers);
    p.each(3 * answers, 3 * m * adapter.in);
  }
}

// What a stack's blocks do beside the kernels above. With tensor parallelism F and I have a
// collective for each half of the block, under sequence parallelism two, and I as many again where
// it gathers kept shards.
void add_stack(Passes& p, const TransformerShape& block, const Split& split, std::int64_t keys,
               std::int64_t tokens, const StackTime& stack) {
  for (const ExtraStream& extra : stack.block) {
    if (!is_of(extra.blocks, block)) continue;
    if (!extra.with_fp8 && p.casts.recipe != Fp8Recipe::none) continue;
    const double numbers =
        width_of(extra.width, extra.share, block, split, keys) * static_cast<double>(tokens);
    if (numbers == 0) continue;  // a block without such a tensor launches nothing for it
    const auto experts = static_cast<int>((block.experts + split.ep - 1) / split.ep);
    const auto pass = [&](KernelSum& sum, double bytes) {
      if (bytes == 0) return;
      if (extra.each_expert) {
        sum.steps(bytes * numbers, extra.kernels * experts);
      } else {
        sum.move(bytes * numbers, extra.kernels);
      }
    };
    pass(p.f, extra.forward);
    pass(p.i, extra.backward);
  }
  p.f.small(stack.block_kernels_forward);
  p.i.small(stack.block_kernels_backward);
  if (split.tp == 1) return;
  const double collectives = split.sequence_parallel ? 4 : 2;
  p.f.small(collectives * stack.tensor_kernels);
  p.i.small((collectives + (stack.regathers ? 2 : 0)) * stack.tensor_kernels);
}

// What a layer is computed with, and how much of it.
struct LayerWork {
  std::int64_t seq_length;
  Dtype dtype;
  Split split;
  int batch;
  CudaGraphs graphs = {};
};

void add_layer(Passes& passes, const Layer& layer, const LayerWork& work, const Stack& stack,
               std::int64_t parameters) {
  const auto [seq_length, dtype, split, batch, graphs] = work;
  const Kernels kernels{passes,
                        split.tokens(seq_length),
                        split.rows(seq_length),
                        seq_length,
                        batch,
                        stack.time,
                        parameters,
                        graphs};
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  // Parts of a block are told by the kernels themselves; both of them are all of it.
  const bool whole = block != nullptr && graphs.has(GraphPart::attn) &&
                     graphs.has(block->experts > 1 ? GraphPart::moe : GraphPart::mlp);
  passes.in_graph(graphs.whole_step() || whole);
  if (block != nullptr) {
    const Fp8Recipe recipe = products_recipe(layer, stack, passes.device);
    if (recipe != Fp8Recipe::none) passes.precision = ProductPrecision::fp8;
    passes.casts = fp8_casts(recipe, passes.device);
    add_stack(passes, *block, split, seq_length, split.tokens(seq_length) * batch, stack.time);
  }
  passes.trained = !layer.treated.frozen;
  const LayerShape part = shard(layer.shape, split);
  std::visit(kernels, part);
  if (layer.treated.adapters.rank > 0)
    add_adapters(passes, layer, split, part, split.tokens(seq_length) * batch);
  if (stack.time.accumulate > 0 && parameters > 0)
    passes.w.move(stack.time.accumulate * static_cast<double>(parameters));
}

}  // namespace

LayerTime kernel_times(const Layer& layer, std::int64_t seq_length, Dtype dtype, const Split& split,
                       int batch, const Device& device, const Stack& stack,
                       std::int64_t parameters) {
  Passes passes(device, dtype, stack.time);
  add_layer(passes, layer, {seq_length, dtype, split, batch}, stack, parameters);
  LayerTime time;
  time.f = passes.f.time();
  // Nothing below this layer is trained: its input's gradient is not asked for.
  if (layer.treated.backward) time.i = passes.i.time();
  if (layer.treated.trains()) time.w = passes.w.time();
  time.b = time.i + time.w;
  time.core = passes.core.time();
  return time;
}

LayerKernels layer_kernels(const Layer& layer, const Plan& plan, const Device& device,
                           const Stack& stack, std::int64_t parameters) {
  Passes passes(device, plan.dtype, stack.time);
  add_layer(passes, layer,
            {plan.seq_length, plan.dtype, plan.split(), plan.micro_batch_size, plan.cuda_graphs},
            stack, parameters);
  const auto of = [](const KernelSum& sum, Seconds squared) {
    return PassKernels{sum.device_time(), squared, sum.kernels(), sum.outside_graphs()};
  };
  LayerKernels all{of(passes.f, passes.squared_f), of(passes.i, passes.squared_i),
                   of(passes.w, Seconds(0))};
  // A graph is a launch itself: one forward and one backward, but where the step is one.
  for (PassKernels* pass : {&all.f, &all.i}) {
    if (pass->launched < pass->kernels && !plan.cuda_graphs.whole_step()) ++pass->launched;
  }
  if (!layer.treated.backward) all.i = {};
  if (!layer.treated.trains()) all.w = {};
  return all;
}

}  // namespace weir
