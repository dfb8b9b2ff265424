// The backends' names for a block's tensors against the lists that they name: every tensor of
// plan/model/layer_tensors stands where exec/rank/block_places says, for all blocks that have
// kernels.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/block_places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/model/layer_tensors.hpp"

namespace weir::block_places_test {
namespace {

using namespace block_places;  // NOLINT: their names are what is tested
using Named = std::vector<std::pair<int, std::string>>;

template <class Tensors>
void expect_places(const Tensors& tensors, const Named& places) {
  ASSERT_EQ(tensors.size(), places.size());
  for (const auto& [place, name] : places)
    EXPECT_EQ(tensors[static_cast<std::size_t>(place)].name, name);
}

TransformerShape block(NormKind norm, unsigned biases, AttentionKind attention) {
  TransformerShape shape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 32};
  shape.norm = norm;
  shape.qkv_bias = (biases & 1U) != 0;
  shape.output_bias = (biases & 2U) != 0;
  shape.mlp_bias = (biases & 4U) != 0;
  shape.attention = attention;
  return shape;
}

TEST(BlockPlaces, NameWhatStandsThere) {
  for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused}) {
    for (const bool gated : {false, true}) {
      TransformerShape shape = block(NormKind::rms_norm, 0, attention);
      shape.gated = gated;
      const LayerTensors t = layer_tensors({"b", shape, ""}, 4, Dtype::bf16);
      const char* core =
          attention == AttentionKind::fused ? "attention.statistics" : "attention.probabilities";
      expect_places(t.saved, {{statistics1, "attention.norm.statistics"},
                              {normed1, "attention.normed"},
                              {qkv, "attention.qkv"},
                              {probabilities, core},
                              {context, "attention.context"},
                              {mlp_input, "mlp.input"},
                              {statistics2, "mlp.norm.statistics"},
                              {normed2, "mlp.normed"},
                              {up, "mlp.up"},
                              {activated, "mlp.activated"}});
      expect_places(t.carried, {{up_gradient, "mlp.up.gradient"},
                                {out_gradient, "attention.output.gradient"},
                                {qkv_gradient, "attention.qkv.gradient"},
                                {norm_gradients, "norm.gradients"}});
    }
  }
}

// Every weight of every block that a backend trains stands where WeightPlaces says, and no other.
TEST(BlockPlaces, OfABlocksWeightsAreThoseItHas) {
  for (unsigned has = 0; has < 64; ++has) {
    const auto norm = (has & 8U) != 0 ? NormKind::rms_norm : NormKind::layer_norm;
    TransformerShape shape = block(norm, has, AttentionKind::fused);
    shape.qk_norm = (has & 16U) != 0;
    shape.gated = (has & 32U) != 0;
    const LayerTensors t = layer_tensors({"b", shape, ""}, 4, Dtype::fp32);
    const WeightPlaces at(shape);
    const Named named{{at.norm1_gain, "attention.norm.gain"},
                      {at.norm1_shift, "attention.norm.shift"},
                      {at.qkv_w, "attention.qkv.weight"},
                      {at.qkv_b, "attention.qkv.bias"},
                      {at.query_gain, "attention.query.norm.gain"},
                      {at.key_gain, "attention.key.norm.gain"},
                      {at.out_w, "attention.output.weight"},
                      {at.out_b, "attention.output.bias"},
                      {at.norm2_gain, "mlp.norm.gain"},
                      {at.norm2_shift, "mlp.norm.shift"},
                      {at.up_w, "mlp.up.weight"},
                      {at.up_b, "mlp.up.bias"},
                      {at.down_w, "mlp.down.weight"},
                      {at.down_b, "mlp.down.bias"}};
    Named there;
    for (const auto& entry : named) {
      if (entry.first != WeightPlaces::kAbsent) there.push_back(entry);
    }
    expect_places(t.parameters, there);
    if (!shape.qk_norm) continue;
    EXPECT_EQ(t.saved[query_key].name, "attention.query_key");
    EXPECT_EQ(t.saved[query_key_statistics].name, "attention.query_key.statistics");
    EXPECT_EQ(t.carried[query_key_norm_gradients].name, "query_key.norm.gradients");
  }
}

}  // namespace
}  // namespace weir::block_places_test
