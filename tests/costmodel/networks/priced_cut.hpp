// Megatron's cut twice: its exchanges and memory as a network of the model derives them under a
// layout, and as forecasts price them for --tp, --sequence-parallel, --dp, --ep and --zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>

#include "costmodel/layers/network_math.hpp"
#include "costmodel/links/collectives.hpp"
#include "costmodel/links/parallel.hpp"
#include "plan/layout/megatron_cut.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/model/layer_tensors.hpp"
#include "plan/model/readers/model_import.hpp"

namespace weir::priced_cut {

using layout::Exchange;
using layout::LayerShare;
using layout::Network;
using layout::NetworkLayout;
using layout::Pass;

// The example decoders; what the others lack is refused in words by megatron_cut_test.
inline constexpr const char* kDecoders[] = {
    "gpt2",       "gpt2-512x8",  "gpt2-mini",    "llama-10m", "llama-2-7b",
    "llama-3-8b", "llama-3-70b", "mixtral-8x7b", "opt-125m",  "pythia-160m"};

inline Model example(const std::string& name) {
  return load_model(std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/models" /
                    (name + ".json"));
}

// A link whose times are bytes alone, and one whose times are messages alone, times 1 ns: equal
// times on both are equal bytes and equal messages.
inline const Link kBytes{Seconds(0), BytesPerSecond(1e9)},
    kMessages{Seconds(1e-9), BytesPerSecond(0)};
inline double ns(Seconds time) { return time.count() * 1e9; }

struct Case {
  Model model;
  int tp = 1;
  bool sequence_parallel = false;
  int dp = 1, ep = 1;
  AttentionKind attention = AttentionKind::unfused;
  int zero = 0;
};

struct Pair {
  Model model;
  Network network;
  NetworkLayout layout;
  Plan plan;
};

// fp32, whose rows of logits are packed, two sequences of 128 tokens a replica.
inline Pair pair_of(const Case& c) {
  Pair pair{.model = c.model};
  set_attention(pair.model, c.attention);
  pair.plan.seq_length = 128;
  pair.plan.micro_batch_size = 2;
  pair.plan.tp = c.tp;
  pair.plan.dp = c.dp;
  pair.plan.ep = c.ep;
  pair.plan.zero = c.zero;
  pair.plan.sequence_parallel = c.sequence_parallel;
  pair.plan.attention = c.attention;
  pair.network = layout::model_network(
      pair.model,
      {.seq_length = 128, .batch = 2 * c.dp, .vocabulary_of = c.tp, .experts_apart = c.ep > 1});
  pair.layout =
      layout::megatron_layout(pair.network, {c.tp, c.dp, c.ep, c.sequence_parallel, c.zero});
  return pair;
}

// The gradient of the shares that experts' answers are weighed by: see WhatThePriceLeavesOut.
inline bool of_shares(const layout::NetworkLayer& layer, const Exchange& exchange) {
  return exchange.gradient &&
         layer.tensors[static_cast<std::size_t>(exchange.tensor)].name == "shares";
}

// Of a weight: what replicas exchange.
inline bool of_weight(const layout::NetworkLayer& layer, const Exchange& exchange) {
  return is_weight(layer.tensors[static_cast<std::size_t>(exchange.tensor)]);
}

// The model's layer that the network's layer l begins with.
inline std::size_t first_of(const Network& network, std::size_t l) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < l; ++i) before += network.layers[i].repeat;
  return static_cast<std::size_t>(before);
}

// Derived seconds of one layer's pass, over the axes of `tensor` alone or of experts alone.
inline double derived(const Pair& pair, std::size_t l, Pass pass, const Link& link, bool experts) {
  const LayerShare share = layer_share(pair.network, pair.layout, l);
  double sum = 0;
  for (const Exchange& exchange : share.exchanges) {
    const std::string axes = axes_text(pair.layout, exchange.axes);
    if (exchange.pass != pass || (axes == "e") != experts) continue;
    const layout::NetworkLayer& layer = pair.network.layers[l];
    if (of_shares(layer, exchange) || of_weight(layer, exchange)) continue;
    sum += ns(exchange_time(exchange, members(pair.layout, exchange.axes), Dtype::fp32, link));
  }
  return sum;
}

inline const TransformerShape* with_experts(const Layer& layer) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  return block != nullptr && block->experts > 1 ? block : nullptr;
}

// Where tp divides experts the price has W gather the gradient of the block's second sum, as for
// an MLP. No weight reads it: what is behind the weighing of answers is kept from I.
inline double not_read_by_w(const Pair& pair, const Layer& layer, const Link& link) {
  const TransformerShape* block = with_experts(layer);
  if (block == nullptr || !pair.plan.sequence_parallel || pair.plan.ep > 1) return 0;
  const Bytes n(pair.plan.seq_length * pair.plan.micro_batch_size * block->hidden * 4);
  return ns(ring_all_gather(n, pair.plan.tp, link));
}

// The gate that weighs the shared experts' sum is kept by the network, a number a token.
inline double gates(const Pair& pair, const Layer& layer) {
  const TransformerShape* block = with_experts(layer);
  if (block == nullptr || !block->shared_gate) return 0;
  return 4.0 * static_cast<double>(pair.plan.seq_length * pair.plan.micro_batch_size);
}

inline void expect_equal_exchanges(const Pair& pair) {
  for (std::size_t l = 0; l < pair.network.layers.size(); ++l) {
    const Layer& layer = pair.model.layers[first_of(pair.network, l)];
    SCOPED_TRACE(layer.name);
    for (const Link& link : {kBytes, kMessages}) {
      SCOPED_TRACE(link.bandwidth.count() > 0 ? "bytes" : "messages");
      // W as a pass of its own, whose gathers count.
      const PerKind<Seconds> tensor =
          tensor_traffic(layer, pair.plan, link, {}, WeightGathers::counted);
      EXPECT_NEAR(derived(pair, l, Pass::F, link, false), ns(tensor.f), 1e-6);
      EXPECT_NEAR(derived(pair, l, Pass::I, link, false), ns(tensor.i), 1e-6);
      EXPECT_NEAR(derived(pair, l, Pass::W, link, false),
                  ns(tensor.w) - not_read_by_w(pair, layer, link), 1e-6);
      const PerKind<Seconds> experts = expert_traffic(layer, pair.plan, link);
      EXPECT_NEAR(derived(pair, l, Pass::F, link, true), ns(experts.f), 1e-6);
      EXPECT_NEAR(derived(pair, l, Pass::I, link, true), ns(experts.i), 1e-6);
      EXPECT_EQ(derived(pair, l, Pass::W, link, true), 0);
    }
  }
}

inline void expect_equal_memory(const Pair& pair) {
  for (std::size_t l = 0; l < pair.network.layers.size(); ++l) {
    const Layer& layer = pair.model.layers[first_of(pair.network, l)];
    SCOPED_TRACE(layer.name);
    const LayerShare share = layer_share(pair.network, pair.layout, l);
    const LayerTensors tensors =
        layer_tensors(layer, pair.plan.seq_length, Dtype::fp32, pair.plan.split());
    double weights = 0;
    for (const ParameterTensor& p : tensors.parameters) {
      const bool held_before = !p.tied_with.empty() && l > 0;
      if (!held_before) weights += static_cast<double>(p.elements());
    }
    EXPECT_EQ(share.weights, weights);
    double until_i = 0, until_w = 0;
    const auto count = [&](double bytes, bool w) { (w ? until_w : until_i) += bytes; };
    for (const layout::Kept& kept : share.kept) count(4 * kept.elements, kept.until_w);
    double priced_i = 0, priced_w = 0;
    for (const KeptTensor& saved : tensors.saved) {
      (saved.until == KeptUntil::W ? priced_w : priced_i) +=
          static_cast<double>(saved.bytes_per_sample * pair.plan.micro_batch_size);
    }
    if (tensors.saves_input) {
      const auto& input =
          pair.network.layers[l].tensors[static_cast<std::size_t>(pair.network.layers[l].input)];
      (tensors.input_until == KeptUntil::W ? priced_w : priced_i) +=
          4 * block_elements(pair.network, pair.layout, input.dimensions);
    }
    EXPECT_EQ(until_i, priced_i + gates(pair, layer));
    EXPECT_EQ(until_w, priced_w);
  }
}

inline void expect_equal(const Case& c, bool memory = true) {
  SCOPED_TRACE(c.model.name);
  SCOPED_TRACE(testing::Message() << "tp " << c.tp << " sp " << c.sequence_parallel << " dp "
                                  << c.dp << " ep " << c.ep);
  const Pair pair = pair_of(c);
  ASSERT_EQ(illegal(pair.network, pair.layout), std::nullopt);
  expect_equal_exchanges(pair);
  if (memory) expect_equal_memory(pair);
}

}  // namespace weir::priced_cut
