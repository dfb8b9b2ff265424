// Attention of a block by its tensors' names. Queries and keys are turned by their positions where
// these are rotary, after norms of each head's where there are such. Fused, the attention keeps the
// log-sum-exp of each row of scores in the place of the probabilities.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/block_attention.hpp"

#include "exec/cpu/kernels/fused_attention.hpp"
#include "exec/cpu/kernels/head_norms.hpp"
#include "exec/cpu/kernels/unfused_attention.hpp"
#include "exec/cpu/layers.hpp"

namespace weir::cpu {
namespace {

using block_places::Carried;
using block_places::Saved;

FusedAttention fused_attention(const BlockCall& block, const BlockSize& z, float* tiles) {
  return {attention_size(block.shape, z),
          mask_of(block.call, block.shape.attention_dropout, DropoutSite::attention),
          block.saved(Saved::qkv),
          block.saved(Saved::context),
          block.saved(Saved::probabilities),
          tiles};
}

// Scratch: two s x s matrices.
UnfusedAttention unfused_attention(const BlockCall& block, const BlockSize& z, float* scratch) {
  return {attention_size(block.shape, z),
          mask_of(block.call, block.shape.attention_dropout, DropoutSite::attention),
          block.saved(Saved::qkv),
          block.saved(Saved::context),
          block.saved(Saved::probabilities),
          scratch};
}

// The queries, or the keys, of every row of qkv.
HeadRows queries(const BlockSize& z) { return {z.rows, z.s, z.heads, z.d, z.qkv()}; }
HeadRows keys(const BlockSize& z) { return {z.rows, z.s, z.kv_heads, z.d, z.qkv()}; }

// Of one row the queries' heads stand before the keys'.
struct KeptQueriesAndKeys {
  KeptHeads query, key;
  KeptQueriesAndKeys(const BlockCall& block, const BlockSize& z) {
    const std::int64_t heads = z.heads + z.kv_heads;
    query = {block.saved(Saved::query_key), block.saved(Saved::query_key_statistics), heads * z.d,
             heads};
    key = {query.raw + z.q(), query.statistics + z.heads, query.raw_stride,
           query.statistics_stride};
  }
};

// Between the product and the attention: norms of heads, then their turn to positions.
void place_heads(const BlockCall& block, const BlockSize& z, const Workbench& on) {
  const TransformerShape& shape = block.shape;
  float* qkv = block.saved(Saved::qkv);
  if (shape.qk_norm) {
    const auto epsilon = static_cast<float>(shape.norm_epsilon);
    const KeptQueriesAndKeys kept(block, z);
    norm_heads(queries(z), block.weight(block.at.query_gain), epsilon, kept.query, qkv);
    norm_heads(keys(z), block.weight(block.at.key_gain), epsilon, kept.key, qkv + z.q());
  }
  if (!shape.rotary) return;
  // Queries and keys are neighbours and turn alike.
  HeadRows both = queries(z);
  both.heads += z.kv_heads;
  rotate(on.rotary.table(shape.angles, z.d, z.s), both, Turn::forth, qkv);
}

void place_heads_gradient(const BlockCall& block, const BlockSize& z, const Workbench& on) {
  const TransformerShape& shape = block.shape;
  float* d_qkv = block.carried(Carried::qkv_gradient);
  if (shape.rotary) {
    HeadRows both = queries(z);
    both.heads += z.kv_heads;
    rotate(on.rotary.table(shape.angles, z.d, z.s), both, Turn::back, d_qkv);
  }
  if (!shape.qk_norm) return;
  const KeptQueriesAndKeys kept(block, z);
  float* gains = block.carried(Carried::query_key_norm_gradients);
  norm_heads_gradient(queries(z), block.weight(block.at.query_gain), kept.query, d_qkv, gains);
  norm_heads_gradient(keys(z), block.weight(block.at.key_gain), kept.key, d_qkv + z.q(),
                      gains + z.d);
}

}  // namespace

void prepare_attention(const TransformerShape& shape, const BlockSize& size, Workbench& on) {
  if (shape.rotary) on.rotary.prepare(shape.angles, size.d, size.s);
  if (shape.attention == AttentionKind::fused)
    return prepare_fused(attention_size(shape, size), on.matmul);
  prepare_unfused(attention_size(shape, size), on.matmul);
}

void attend(const BlockCall& block, const BlockSize& size, Workbench& on) {
  place_heads(block, size, on);
  if (block.shape.attention == AttentionKind::fused) {
    // The output is written last: until then its memory serves as the tiles; or what all rows were
    // gathered in.
    float* tiles = on.divides_rows ? block.call.workspace.floats() : block.call.output.floats();
    return fused_forward(fused_attention(block, size, tiles), on.matmul);
  }
  float* scores = block.call.workspace.floats() + size.room;
  unfused_forward(unfused_attention(block, size, scores), on.matmul);
}

// Fused it is one kernel, which makes the context again too; apart the context's product is not.
void attend_again(const BlockCall& block, const BlockSize& size, float* scratch, Workbench& on) {
  if (block.shape.attention == AttentionKind::fused)
    return fused_forward(fused_attention(block, size, scratch), on.matmul);
  unfused_probabilities(unfused_attention(block, size, scratch), on.matmul);
}

void attend_gradient(const BlockCall& block, const BlockSize& size, const float* d_context,
                     float* scratch, Workbench& on) {
  float* d_qkv = block.carried(Carried::qkv_gradient);
  if (block.shape.attention == AttentionKind::fused) {
    fused_backward(fused_attention(block, size, scratch), d_context, d_qkv, on.matmul);
  } else {
    unfused_backward(unfused_attention(block, size, scratch), d_context, d_qkv, on.matmul);
  }
  place_heads_gradient(block, size, on);
}

}  // namespace weir::cpu
