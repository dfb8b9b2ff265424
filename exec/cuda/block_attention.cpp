// Attention of a block by its tensors' names. Queries and keys are turned by their positions where
// these are rotary, after norms of each head's where there are such. Fused, the attention keeps the
// log-sum-exp of each row of scores in the place of p (exec/cuda/attention). Unfused it is a batch
// of gemms a sample, over its heads, on strided views of qkv.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/block_attention.hpp"

#include <cmath>

#include "exec/cuda/kernels/dropout.hpp"
#include "exec/cuda/kernels/heads.hpp"
#include "exec/cuda/kernels/softmax.hpp"

namespace weir::cuda {
namespace {

using block_places::Carried;
using block_places::Saved;

// One head of queries of every group of one sample, on views of qkv and of the context: the batch
// goes over the heads of keys. Gradients of keys and values are sums over the group: its first
// heads overwrite them, the others add. What a softmax reads, or its gradient, is not rounded.
struct HeadsGemms {
  Gemm scores, mix, d_probabilities, d_value, d_query, d_key;
  explicit HeadsGemms(const BlockSize& z, bool adds = false) {
    const std::int64_t s = z.s, d = z.d, q = z.qkv(), c = z.q(), ss = z.s * z.s;
    scores = {.m = s, .n = s, .k = d, .a_row = q, .b_row = 1, .b_column = q, .c_row = s};  // q k'
    mix = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = c};                    // p v
    d_probabilities = {
        .m = s, .n = s, .k = d, .a_row = c, .b_row = 1, .b_column = q, .c_row = s};         // dc v'
    d_value = {.m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = c, .c_row = q};  // p' dc
    d_query = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = q};                 // ds k
    d_key = {.m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = q, .c_row = q};    // ds' q
    // A batch runs over the heads of keys. The queries that share one come a head at a time,
    // `group` products in all.
    const std::int64_t group = z.group(), matrix = group * ss, query = group * d, key = d;
    const auto steps = [&z](Gemm& p, std::int64_t of_a, std::int64_t of_b, std::int64_t of_c) {
      p.batch = z.kv_heads;
      p.a_step = of_a;
      p.b_step = of_b;
      p.c_step = of_c;
      // The later heads of a group begin d numbers further on: the library may only count on that
      // alignment.
      if (z.group() > 1) p.begins = z.d;
    };
    steps(scores, query, key, matrix);
    steps(mix, matrix, key, query);
    steps(d_probabilities, query, key, matrix);
    steps(d_value, matrix, query, key);
    steps(d_query, matrix, key, query);
    steps(d_key, matrix, query, key);
    // Softmax takes its scores, and their gradient, before they are rounded to bf16.
    scores.fp32_result = d_probabilities.fp32_result = true;
    // The heads of a group add to the one head of keys that they share.
    d_value.accumulate = d_key.accumulate = adds;
  }
};

float score_scale(const BlockSize& z) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(z.d)));
}

Matrices matrices_of(const BlockSize& z, std::int64_t sample) {
  return {z.heads, z.s, z.first_matrix(sample), z.window, z.causal};
}

template <class E>
StepMask attention_mask(const BlockCall<E>& block) {
  return block.mask(block.shape.attention_dropout, DropoutSite::attention);
}
AttentionMask fused_mask(const StepMask& mask) {
  return {mask.mask, mask.numbers == nullptr ? nullptr : &mask.numbers->step};
}

template <class E>
AttentionShape fused_shape(const BlockCall<E>& block) {
  return attention_shape(block.shape, block.size.batch, block.size.s, block.on);
}

template <class E>
Heads heads_of(const BlockCall<E>& block) {
  const BlockSize& z = block.size;
  const RotaryTables& tables = block.on.rotary;
  return {z.rows,  z.s,
          z.heads, z.kv_heads,
          z.d,     block.shape.rotary ? tables.table(block.shape.angles, z.d, z.s) : nullptr};
}

template <class E>
HeadNorms<E> norms_of(const BlockCall<E>& block) {
  return {block.weight(block.at.query_gain), block.weight(block.at.key_gain),
          static_cast<float>(block.shape.norm_epsilon), block.saved(Saved::query_key),
          block.call.saved[Saved::query_key_statistics].floats()};
}

template <class E>
void place_heads(const BlockCall<E>& block) {
  E* qkv = block.saved(Saved::qkv);
  if (block.shape.qk_norm) {
    norm_heads<E>(heads_of(block), norms_of(block), qkv, block.on.stream);
  } else if (block.shape.rotary) {
    turn_heads<E>(heads_of(block), Turn::forth, qkv, block.on.stream);
  }
}

template <class E>
void place_heads_gradient(const BlockCall<E>& block) {
  E* d_qkv = block.carried(Carried::qkv_gradient);
  if (block.shape.qk_norm) {
    float* gains = block.call.carried[Carried::query_key_norm_gradients].floats();
    norm_heads_gradient<E>(heads_of(block),
                           {norms_of(block), gains, gains + block.size.d, block.on.partials}, d_qkv,
                           block.on.stream);
  } else if (block.shape.rotary) {
    turn_heads<E>(heads_of(block), Turn::back, d_qkv, block.on.stream);
  }
}

// A sample's, and masked where that is asked for.
template <class E>
void make_probabilities(const BlockCall<E>& block, const HeadsGemms& gemms, std::int64_t sample,
                        E* masked) {
  const BlockSize& z = block.size;
  const Workbench& on = block.on;
  const E* q = block.saved(Saved::qkv) + sample * z.s * z.qkv();
  for (std::int64_t r = 0; r < z.group(); ++r)
    on.multiply(gemms.scores, {q + r * z.d, q + z.q(), on.scores + r * z.s * z.s});
  softmax<E>(score_scale(z), on.scores, matrices_of(z, sample), attention_mask(block),
             block.saved(Saved::probabilities) + sample * z.matrices(), masked, on.stream);
}

template <class E>
void attend_unfused(const BlockCall<E>& block) {
  const BlockSize& z = block.size;
  const Workbench& on = block.on;
  const HeadsGemms gemms(z);
  const std::int64_t ss = z.s * z.s, group = z.group();
  E* masked = attention_mask(block).mask.active() ? static_cast<E*>(on.masked) : nullptr;
  // A sample at a time: the scratch has room for the scores of one.
  for (std::int64_t b = 0; b < z.batch; ++b) {
    make_probabilities<E>(block, gemms, b, masked);
    const E* v = block.saved(Saved::qkv) + b * z.s * z.qkv() + z.q() + z.kv_heads * z.d;
    E* c = block.saved(Saved::context) + b * z.s * z.q();
    const E* mixed =
        masked != nullptr ? masked : block.saved(Saved::probabilities) + b * z.matrices();
    for (std::int64_t r = 0; r < group; ++r)
      on.multiply(gemms.mix, {mixed + r * ss, v, c + r * z.d});
  }
}

template <class E>
void unfused_gradient(const BlockCall<E>& block, const E* d_context) {
  const BlockSize& z = block.size;
  const Workbench& on = block.on;
  const HeadsGemms first(z), others(z, true);
  const StepMask mask = attention_mask(block);
  const std::int64_t ss = z.s * z.s, group = z.group();
  E* scratch = static_cast<E*>(
      on.masked);  // the masked probabilities, and when they are used up the scores' gradient
  for (std::int64_t b = 0; b < z.batch; ++b) {
    const std::int64_t at = b * z.s * z.qkv(), keys = z.q(), values = keys + z.kv_heads * z.d;
    const E* q = block.saved(Saved::qkv) + at;
    E* dq = block.carried(Carried::qkv_gradient) + at;
    const E* dc = d_context + b * z.s * z.q();
    const E* p = block.saved(Saved::probabilities) + b * z.matrices();
    const E* mixed = p;
    if (mask.mask.active()) {
      dropout<E>(mask, static_cast<std::uint64_t>(z.first_matrix(b)), p, z.matrices(), scratch,
                 on.stream);
      mixed = scratch;
    }
    // dv first: it is the last to read the masked probabilities, whose place ds takes.
    for (std::int64_t r = 0; r < group; ++r) {
      // The group's first head overwrites dk and dv, the others add to them.
      const HeadsGemms& gemms = r == 0 ? first : others;
      on.multiply(gemms.d_value, {mixed + r * ss, dc + r * z.d, dq + values});
      on.multiply(gemms.d_probabilities, {dc + r * z.d, q + values, on.scores + r * ss});
    }
    softmax_gradient<E>(score_scale(z), p, on.scores, matrices_of(z, b), mask, scratch, on.stream);
    for (std::int64_t r = 0; r < group; ++r) {
      const HeadsGemms& gemms = r == 0 ? first : others;
      on.multiply(gemms.d_query, {scratch + r * ss, q + keys, dq + r * z.d});
      on.multiply(gemms.d_key, {scratch + r * ss, q + r * z.d, dq + keys});
    }
  }
}

}  // namespace

AttentionShape attention_shape(const TransformerShape& shape, std::int64_t batch,
                               std::int64_t seq_length, const Workbench& on) {
  const BlockSize z(shape, batch, seq_length, on.group.at());
  const Dtype dtype = on.matmul->element() == Element::bf16 ? Dtype::bf16 : Dtype::fp32;
  return {.batch = z.batch,
          .s = z.s,
          .heads = z.heads,
          .d = z.d,
          .dtype = dtype,
          .dropout = shape.attention_dropout > 0,
          .kv_heads = z.kv_heads,
          .window = z.window,
          .first_head = z.first_head(),
          .all_heads = z.all_heads(),
          .causal = z.causal};
}

ScratchNeeds prepare_attention(const TransformerShape& shape, const BlockSize& size,
                               Matmul& matmul) {
  const std::int64_t partials = shape.qk_norm ? 2 * size.d * partials_of(size.rows) : 0;
  if (shape.attention == AttentionKind::fused) return {.partials = partials};
  for (const bool adds : {false, true}) {
    // Heads with keys of their own never add.
    if (adds && size.group() == 1) continue;
    const HeadsGemms p(size, adds);
    for (const Gemm& gemm : {p.scores, p.mix, p.d_probabilities, p.d_value, p.d_query, p.d_key})
      matmul.prepare(gemm);
  }
  return {.partials = partials,
          .scores = size.matrices(),
          .masked_bytes = size.matrices() * bytes_of(matmul.element())};
}

namespace {

template <class E>
void attend_fused(const BlockCall<E>& block) {
  block.on.fused->forward(
      fused_shape(block),
      {block.saved(Saved::qkv), fused_mask(attention_mask(block)), block.saved(Saved::context),
       block.call.saved[Saved::probabilities].floats()},
      block.on.fused_scratch, block.on.stream);
}

// What F dropped of the attention's core, made by the same kernels: fused it is one, which makes
// the context again too; apart the context's product is not.
template <class E>
void attend_again(const BlockCall<E>& block) {
  if (block.shape.attention == AttentionKind::fused) return attend_fused<E>(block);
  const HeadsGemms gemms(block.size);
  for (std::int64_t b = 0; b < block.size.batch; ++b)
    make_probabilities<E>(block, gemms, b, nullptr);
}

}  // namespace

template <class E>
void attend(const BlockCall<E>& block) {
  place_heads<E>(block);
  if (block.shape.attention == AttentionKind::unfused) return attend_unfused<E>(block);
  attend_fused<E>(block);
}
template void attend(const BlockCall<float>&);
template void attend(const BlockCall<Bf16>&);

template <class E>
void attend_gradient(const BlockCall<E>& block, const E* d_context) {
  if (block.call.core_dropped) attend_again<E>(block);
  if (block.shape.attention == AttentionKind::unfused) {
    unfused_gradient<E>(block, d_context);
  } else {
    auto* row_sums = reinterpret_cast<float*>(block.workspace() + block.size.third());
    block.on.fused->backward(
        fused_shape(block),
        {block.saved(Saved::qkv), block.saved(Saved::context),
         block.call.saved[Saved::probabilities].floats(), d_context,
         fused_mask(attention_mask(block)), block.carried(Carried::qkv_gradient), row_sums},
        block.on.fused_scratch, block.on.stream);
  }
  place_heads_gradient<E>(block);
}
template void attend_gradient(const BlockCall<float>&, const float*);
template void attend_gradient(const BlockCall<Bf16>&, const Bf16*);

}  // namespace weir::cuda
