// FLOPs and bytes of each kind of layer on sizes small enough to follow by hand, and what crosses a
// boundary.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/layer_math.hpp"

#include <gtest/gtest.h>

#include "plan/model/layer_tensors.hpp"

namespace weir::layer_math_test {
namespace {

// A block of width 8 with 4 heads of 2 values, no biases, feed-forward 16.
TransformerShape small() {
  return {.hidden = 8, .heads = 4, .kv_heads = 4, .head_dim = 2, .ffn = 16};
}
double flops(const LayerShape& shape, std::int64_t tokens) {
  return forward_flops({"l", shape, ""}, tokens).count();
}

// In bf16 of 3 tokens, input included: a layer before gives it.
std::int64_t kept(const TransformerShape& shape) {
  Model model;
  model.layers = {{"e", EmbeddingShape{.vocabulary = 5, .hidden = 8}, ""}, {"b", shape, ""}};
  return activation_bytes(model_part(model, 3, Dtype::bf16), 1).count();
}

// s = 3, h = q = 8: query 3 2 8 8 = 384, keys and values of 2 heads 3 2 8 (2 4) = 384, output 384,
// scores and mix 4 9 8 = 288, MLP 3 2 2 8 16 = 1536.
TEST(LayerMath, GroupedQueriesShareKeysAndValues) {
  TransformerShape block = small();
  block.kv_heads = 2;
  EXPECT_EQ(flops(block, 3), 384 + 384 + 384 + 288 + 1536);
  block.kv_heads = 4;
  EXPECT_EQ(flops(block, 3), 384 + 768 + 384 + 288 + 1536);
}

// s = 3, q = 8: a product is 2 9 8 = 144. Unfused 2 in F and 4 in the backward; fused 5 in the
// backward; causal, half of each. The model's FLOPs are the same: they say what is asked for, not
// how it is done.
TEST(LayerMath, AFusedCoreHasFiveProductsInTheBackward) {
  TransformerShape block = small();
  EXPECT_EQ(core_flops(block, 3).forward.count(), 288);
  EXPECT_EQ(core_flops(block, 3).backward.count(), 576);
  const double model = flops(block, 3);
  block.attention = AttentionKind::fused;
  EXPECT_EQ(core_flops(block, 3).forward.count(), 144);
  EXPECT_EQ(core_flops(block, 3).backward.count(), 360);
  EXPECT_EQ(flops(block, 3), model);
  EXPECT_EQ(executed_flops({"l", block, ""}, 3).count(), model - 144);
  block.causal = false;
  EXPECT_EQ(core_flops(block, 3).forward.count(), 288);
  EXPECT_EQ(core_flops(block, 3).backward.count(), 2.5 * 288);
  block.causal = true;
  block.cross_attention = true;  // which sees every key
  EXPECT_EQ(core_flops(block, 3).forward.count(), 144 + 288);
}

// A third matrix: the MLP costs half as much again.
TEST(LayerMath, AGateIsAThirdMatrix) {
  TransformerShape block = small();
  block.gated = true;
  EXPECT_EQ(flops(block, 3), 1824 + 1536 * 3 / 2);
}

// Attention 1824; the router 3 2 8 4 = 192; two of four experts, gated: 2 x 2304.
TEST(LayerMath, OnlyVisitedExpertsCost) {
  TransformerShape block = small();
  block.gated = true;
  block.experts = 4;
  block.experts_per_token = 2;
  EXPECT_EQ(flops(block, 3), 1824 + 192 + 2 * 2304);
}

// The attention's 1824 twice, the second with queries of the decoder and keys of the encoder, both
// 3 long.
TEST(LayerMath, CrossAttentionIsASecondAttention) {
  TransformerShape block = small();
  block.cross_attention = true;
  EXPECT_EQ(flops(block, 3), 2 * 1824 + 1536);
}

// Masked LM over 10 words: 3 tokens x 2 8 (8 + 10). Pooler and 2 classes: one token, 2 8 (8 + 2).
// Bare pooler: 2 8 8. ViT of 3 positions, that is 2 patches, of 12 values: 2 2 12 8.
TEST(LayerMath, DenseHeadsAndPatches) {
  EXPECT_EQ(flops(HeadShape{.vocabulary = 10, .hidden = 8, .dense = HeadDense::transform}, 3), 864);
  EXPECT_EQ(
      flops(HeadShape{.vocabulary = 2, .hidden = 8, .pooled = true, .dense = HeadDense::pooler}, 3),
      160);
  EXPECT_EQ(flops(HeadShape{.hidden = 8, .pooled = true, .dense = HeadDense::pooler}, 3), 128);
  EXPECT_EQ(flops(EmbeddingShape{.hidden = 8, .positions = 3, .patch = 12}, 3), 384);
}

// bf16, s = 3. One token row x is 3 8 2 = 48 bytes, statistics of a norm 2 3 4 = 24. Plain: input
// 48, norms 24 + 48 and 24 + 48, MLP input 48, qkv 3 24 2 = 144, probabilities 4 9 2 = 72, context
// 48, up and activated 3 16 2 = 96 each: 696. Two of four key-value heads less: qkv 3 16 2 = 96, so
// 48 less. Gated: up is twice as wide, 96 more. Parallel: the MLP reads the block's input: 48 less.
// Post-norm: other tensors, as many.
TEST(LayerMath, ActivationBytesOfABlock) {
  TransformerShape block = small();
  EXPECT_EQ(kept(block), 696);
  block.kv_heads = 2;
  EXPECT_EQ(kept(block), 696 - 48);
  block = small();
  block.gated = true;
  EXPECT_EQ(kept(block), 696 + 96);
  block = small();
  block.parallel = true;
  EXPECT_EQ(kept(block), 696 - 48);
  block = small();
  block.pre_norm = false;
  EXPECT_EQ(kept(block), 696);
}

// Fused: 4 heads x 3 rows of fp32, 48 bytes, for the probabilities' 72; in the backward as much
// scratch again, and none of scores: of 2 x 8 numbers a token 96. Unfused the scores of one head, 9
// 2 = 18 bytes in F, twice in the backward.
TEST(LayerMath, FusedAttentionKeepsItsStatistics) {
  TransformerShape block = small();
  const LayerTensors unfused = layer_tensors({"b", block, ""}, 3, Dtype::bf16);
  EXPECT_EQ(unfused.workspace_f_bytes_per_sample, 18);
  EXPECT_EQ(unfused.workspace_i_bytes_per_sample, 96 + 36);
  block.attention = AttentionKind::fused;
  EXPECT_EQ(kept(block), 696 - 72 + 48);
  const LayerTensors fused = layer_tensors({"b", block, ""}, 3, Dtype::bf16);
  EXPECT_EQ(fused.saved[3].name, "attention.statistics");
  EXPECT_EQ(fused.workspace_f_bytes_per_sample, 0);
  EXPECT_EQ(fused.workspace_i_bytes_per_sample, 96 + 48);
  block.cross_attention = true;  // its probabilities too
  EXPECT_EQ(kept(block), 696 + 48 + 24 + 48 + 48 + 96 + 72 + 48 - 2 * 72 + 2 * 48);
}

// Without the MLP's 192: 504. Router probabilities 3 4 2 = 24; visits 6 8 2 = 96; up and activated
// of 6 visits 6 16 2 = 192 each; answers 96.
TEST(LayerMath, ActivationBytesOfExperts) {
  TransformerShape block = small();
  block.experts = 4;
  block.experts_per_token = 2;
  EXPECT_EQ(kept(block), 504 + 24 + 96 + 192 + 192 + 96);
}

// Beside the 696: input 48, norm 24 + 48, query 48, keys and values 96, probabilities 72, context
// 48.
TEST(LayerMath, ActivationBytesOfCrossAttention) {
  TransformerShape block = small();
  block.cross_attention = true;
  EXPECT_EQ(kept(block), 696 + 48 + 24 + 48 + 48 + 96 + 72 + 48);
}

// Layers 0 to 4 of width 8, fp32, 3 tokens: an output is 96 bytes. Layer 1's whole output goes on
// to 3 and to 4, and 10 bytes of layer 0's to 2. After 0: its output, 10 included. After 1: its own
// and the 10. After 2: its own and layer 1's, once. After 3: the same, for layer 4 still waits.
TEST(LayerMath, SkipsCrossTheBoundariesBetween) {
  Model model;
  for (int i = 0; i < 5; ++i) model.layers.push_back({"n", NormShape{.hidden = 8}, ""});
  model.skips = {{0, 2, Bytes(10)}, {1, 3, std::nullopt}, {1, 4, std::nullopt}};
  const auto crossing = [&](int layer) {
    return model_part(model, 3, Dtype::fp32).layer(layer).crossing_bytes;
  };
  EXPECT_EQ(crossing(0), 96);
  EXPECT_EQ(crossing(1), 106);
  EXPECT_EQ(crossing(2), 192);
  EXPECT_EQ(crossing(3), 192);
  EXPECT_EQ(crossing(4), 96);
}

// A stack of three blocks, the first with the table of relative positions, and its norm: 5 tokens
// of width 8 in fp32 are 160 bytes, the bias of 4 heads 4 5 5 4 = 400. It is made by the first
// block and read by the last: it crosses the two boundaries between blocks, and no other. Two
// devices of tp have two heads each; two of cp half of the queries, 3 of 6.
TEST(LayerMath, PositionBiasCrossesWithinItsStack) {
  TransformerShape block{.hidden = 8, .heads = 4, .kv_heads = 4, .head_dim = 2, .ffn = 16};
  Model model;
  model.layers.push_back({"embedding", EmbeddingShape{.vocabulary = 4, .hidden = 8}, ""});
  for (const int buckets : {32, 0, 0}) {
    block.relative_buckets = buckets;
    model.layers.push_back({"block", block, ""});
  }
  model.layers.push_back({"norm", NormShape{.hidden = 8}, ""});
  const auto crossing = [&](int layer) {
    return model_part(model, 5, Dtype::fp32).layer(layer).crossing_bytes;
  };
  EXPECT_EQ(crossing(0), 160);
  EXPECT_EQ(crossing(1), 160 + 400);
  EXPECT_EQ(crossing(2), 160 + 400);
  EXPECT_EQ(crossing(3), 160);
  EXPECT_EQ(model_part(model, 5, Dtype::bf16, {.tp = 2}).layer(1).crossing_bytes, 80 + 100);
  EXPECT_EQ(model_part(model, 6, Dtype::bf16, {.cp = 2}).layer(1).crossing_bytes,
            3 * 8 * 2 + 4 * 3 * 6 * 2);
  std::get<TransformerShape>(model.layers[1].shape).relative_buckets = 0;
  EXPECT_EQ(crossing(1), 160);
}

}  // namespace
}  // namespace weir::layer_math_test
