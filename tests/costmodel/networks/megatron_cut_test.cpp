// Megatron's cut is a layout: for every example decoder the collectives, bytes and memory that are
// derived from a network's operations alone are those that forecasts price. Two computations that
// share no code but the collectives' formulas.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/layers/layer_math.hpp"
#include "costmodel/layers/network_math.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/model/hugging_face/hugging_face.hpp"
#include "tests/costmodel/networks/priced_cut.hpp"

namespace weir::megatron_cut_test {
namespace {

using layout::Exchange;
using layout::LayerShare;
using priced_cut::example;
using priced_cut::expect_equal;
using priced_cut::first_of;
using priced_cut::kDecoders;
using priced_cut::of_shares;
using priced_cut::Pair;
using priced_cut::pair_of;
using testing::HasSubstr;

TEST(MegatronsCutIsALayout, CollectivesBytesAndMemoryAreThePricedOnes) {
  for (const char* model : kDecoders) {
    for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::fused}) {
      expect_equal({.model = example(model), .attention = attention});
      expect_equal({.model = example(model), .tp = 2, .attention = attention});
      expect_equal(
          {.model = example(model), .tp = 2, .sequence_parallel = true, .attention = attention});
      expect_equal({.model = example(model), .tp = 2, .dp = 4, .attention = attention});
    }
  }
  expect_equal({.model = example("llama-3-70b"), .tp = 8, .sequence_parallel = true});
}

// From rows, where they are whole or sequence parallelism has left them. With both, the price keeps
// what experts read and answer as a tensor-parallel group has gathered it, the network the part
// that travelled: so no memory there.
TEST(MegatronsCutIsALayout, ExpertParallelismToo) {
  for (const int ep : {2, 4, 8}) {
    expect_equal({.model = example("mixtral-8x7b"), .dp = 8, .ep = ep});
  }
  expect_equal(
      {.model = example("mixtral-8x7b"), .tp = 2, .sequence_parallel = true, .dp = 8, .ep = 4},
      false);
}

// Families that no example is of: norms of heads (Qwen3), norms behind attention and MLP (Gemma 2),
// both behind one norm (Phi), experts that all tokens visit (Qwen2-MoE); and BERT's blocks, whose
// norms come last, without its pooler.
TEST(MegatronsCutIsALayout, FamiliesWithoutAnExample) {
  const std::string sizes = R"("hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,
    "intermediate_size":128,"max_position_embeddings":256,"vocab_size":512)";
  const auto read = [&](const std::string& more) {
    return hugging_face_model(parse_json("{" + sizes + "," + more + "}", "config.json"), "config");
  };
  std::vector<Model> models{
      read(R"("model_type":"qwen3","num_key_value_heads":2,"head_dim":16)"),
      read(R"("model_type":"gemma2","num_key_value_heads":2,"head_dim":16)"),
      read(R"("model_type":"phi")"),
      read(R"("model_type":"qwen2_moe","num_experts":8,"num_experts_per_tok":2,
        "moe_intermediate_size":32,"shared_expert_intermediate_size":64,"num_key_value_heads":2)"),
      example("bert-base")};
  models.back().layers.pop_back();
  for (const Model& model : models) {
    expect_equal({.model = model});
    expect_equal({.model = model, .tp = 2});
    expect_equal({.model = model, .tp = 2, .sequence_parallel = true});
    expect_equal({.model = model, .attention = AttentionKind::fused});
  }
}

// Derived and not priced, since it is little: under sequence parallelism the tp devices sum the
// gradients of norms' gains once a step, h numbers each (Llama: two a block); where experts are
// divided by tp, the gradients of each token's shares, as many numbers as it visits experts.
TEST(MegatronsCutIsALayout, WhatThePriceLeavesOut) {
  const Pair rows = pair_of({.model = example("llama-10m"), .tp = 2, .sequence_parallel = true});
  const LayerShare block = layer_share(rows.network, rows.layout, 1);
  const double h = static_cast<double>(std::get<EmbeddingShape>(rows.model.layers[0].shape).hidden);
  ASSERT_EQ(step_reductions(block, 1).size(), 1U);
  EXPECT_EQ(step_reductions(block, 1)[0].elements, 2 * h);

  const Pair experts = pair_of({.model = example("mixtral-8x7b"), .tp = 2});
  double shares = 0;
  for (const Exchange& exchange : layer_share(experts.network, experts.layout, 1).exchanges) {
    if (of_shares(experts.network.layers[1], exchange)) shares += exchange.elements;
  }
  EXPECT_EQ(shares, 2 * 128 * 2);  // two sequences of 128 tokens that visit two experts
}

TEST(MegatronsCutIsALayout, WhatHasNoWordsIsRefused) {
  const auto why = [](const std::string& model) -> std::string {
    try {
      static_cast<void>(layout::model_network(example(model), {.seq_length = 128}));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(why("t5-base"), HasSubstr("has no words in a layout's network"));
  EXPECT_THAT(why("vit-b-16"), HasSubstr("an embedding of patches"));
  EXPECT_THAT(why("bert-base"), HasSubstr("a head that is not a projection of every token"));
  EXPECT_THAT(why("resnet-18-cifar"), HasSubstr("times, sizes or convolutions"));
}

// Multiply-adds count two; I and W have as many as F (docs/theory.md 5). No example has a window.
TEST(MegatronsCutIsALayout, ProductsAreTheModels) {
  for (const char* model : kDecoders) {
    SCOPED_TRACE(model);
    const Pair pair = pair_of({.model = example(model)});
    for (std::size_t l = 0; l < pair.network.layers.size(); ++l) {
      const LayerShare share = layer_share(pair.network, pair.layout, l);
      const double forward =
          forward_flops(pair.model.layers[first_of(pair.network, l)], 128).count() * 2;
      EXPECT_EQ(2 * share.multiply_adds[0], forward);
      EXPECT_EQ(2 * (share.multiply_adds[1] + share.multiply_adds[2]), 2 * forward);
    }
  }
}

}  // namespace
}  // namespace weir::megatron_cut_test
