// Megatron's cut is a layout: for every example decoder the collectives, bytes and memory that are
// derived from a network's operations alone are those that forecasts price for --tp,
// --sequence-parallel, --dp, --ep and --zero. Two computations that share no code but the
// collectives' formulas; bytes of state are written out. And small networks by hand.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <stdexcept>

#include "costmodel/layers/layer_math.hpp"
#include "costmodel/layers/network_math.hpp"
#include "costmodel/links/collectives.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/memory/training_state.hpp"
#include "plan/layout/megatron_cut.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/layout/network_text.hpp"
#include "plan/model/hugging_face/hugging_face.hpp"
#include "plan/model/layer_tensors.hpp"
#include "plan/model/readers/model_import.hpp"
#include "tests/plan/written_network.hpp"

namespace weir::network_test {
namespace {

using layout::Collective;
using layout::Exchange;
using layout::LayerShare;
using layout::Network;
using layout::NetworkLayout;
using layout::Pass;
using testing::HasSubstr;

// The example decoders; what the others lack is refused in words, below.
const char* const kDecoders[] = {"gpt2",       "gpt2-512x8", "gpt2-mini",   "llama-10m",
                                 "llama-2-7b", "llama-3-8b", "llama-3-70b", "mixtral-8x7b",
                                 "opt-125m",   "pythia-160m"};

Model example(const std::string& name) {
  return load_model(std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/models" /
                    (name + ".json"));
}

// A link whose times are bytes alone, and one whose times are messages alone, times 1 ns: equal
// times on both are equal bytes and equal messages.
const Link kBytes{Seconds(0), BytesPerSecond(1e9)}, kMessages{Seconds(1e-9), BytesPerSecond(0)};
double ns(Seconds time) { return time.count() * 1e9; }

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
Pair pair_of(const Case& c) {
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
bool of_shares(const layout::NetworkLayer& layer, const Exchange& exchange) {
  return exchange.gradient &&
         layer.tensors[static_cast<std::size_t>(exchange.tensor)].name == "shares";
}

// Of a weight: what replicas exchange.
bool of_weight(const layout::NetworkLayer& layer, const Exchange& exchange) {
  return is_weight(layer.tensors[static_cast<std::size_t>(exchange.tensor)]);
}

// Derived seconds of one layer's pass, over the axes of `tensor` alone or of experts alone.
double derived(const Pair& pair, std::size_t l, Pass pass, const Link& link, bool experts) {
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

// The model's layer that the network's layer l begins with.
std::size_t first_of(const Network& network, std::size_t l) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < l; ++i) before += network.layers[i].repeat;
  return static_cast<std::size_t>(before);
}

const TransformerShape* with_experts(const Layer& layer) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  return block != nullptr && block->experts > 1 ? block : nullptr;
}

// Where tp divides experts the price has W gather the gradient of the block's second sum, as for
// an MLP. No weight reads it: what is behind the weighing of answers is kept from I.
double not_read_by_w(const Pair& pair, const Layer& layer, const Link& link) {
  const TransformerShape* block = with_experts(layer);
  if (block == nullptr || !pair.plan.sequence_parallel || pair.plan.ep > 1) return 0;
  const Bytes n(pair.plan.seq_length * pair.plan.micro_batch_size * block->hidden * 4);
  return ns(ring_all_gather(n, pair.plan.tp, link));
}

// The gate that weighs the shared experts' sum is kept by the network, a number a token.
double gates(const Pair& pair, const Layer& layer) {
  const TransformerShape* block = with_experts(layer);
  if (block == nullptr || !block->shared_gate) return 0;
  return 4.0 * static_cast<double>(pair.plan.seq_length * pair.plan.micro_batch_size);
}

void expect_equal_exchanges(const Pair& pair) {
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

void expect_equal_memory(const Pair& pair) {
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

// Numbers of a layer's weights on a device, those of experts apart.
struct Trained {
  std::int64_t shared = 0, experts = 0;
};
Trained trained(const Pair& pair, std::size_t model_layer) {
  Trained numbers;
  for (const ParameterTensor& p :
       layer_tensors(pair.model.layers[model_layer], pair.plan.seq_length, Dtype::fp32,
                     pair.plan.split())
           .parameters) {
    if (p.tied_with.empty() || model_layer == 0)
      (p.expert ? numbers.experts : numbers.shared) += p.elements();
  }
  return numbers;
}

// What replicas exchange of a layer's weights in a pass, by the mesh dimensions and the collective.
using Sent = std::map<std::string, double>;
Sent sent(const Pair& pair, std::size_t l, Pass pass, const Link& link) {
  Sent sums;
  for (const Exchange& e : layer_share(pair.network, pair.layout, l).exchanges) {
    if (e.pass != pass || !of_weight(pair.network.layers[l], e)) continue;
    // One message of all weights, as a bucket of gradients is: so bytes alone.
    sums[fmt::format("{} over {}", to_string(e.collective), axes_text(pair.layout, e.axes))] +=
        ns(exchange_time(e, members(pair.layout, e.axes), Dtype::fp32, link));
  }
  return sums;
}

// What the price has of the replicas' devices, and of those that hold the same experts.
Sent priced(const Pair& pair, const Trained& numbers, Pass pass, const Link& link) {
  const bool apart = pair.plan.ep > 1;
  const bool both = apart && pair.plan.dp > pair.plan.ep;
  const std::string all = both ? "d*e" : apart ? "e" : "d";
  Sent sums;
  const auto add = [&](const std::string& collective, const std::string& over, Seconds time) {
    if (time.count() > 0) sums[collective + " over " + over] += ns(time);
  };
  const char* const reduce = pair.plan.zero == 0 ? "all-reduce" : "reduce-scatter";
  if (pass == Pass::W) {
    add(reduce, all, replica_traffic(numbers.shared, pair.plan, link).w);
    add(reduce, apart ? "d" : all, expert_replica_traffic(numbers.experts, pair.plan, link).w);
    return sums;
  }
  const StepTraffic shared = step_traffic(numbers.shared, pair.plan, link);
  const StepTraffic experts = expert_step_traffic(numbers.experts, pair.plan, link);
  add(reduce, all, shared.reduce);
  add("all-gather", all, shared.gather);
  add(reduce, apart ? "d" : all, experts.reduce);
  add("all-gather", apart ? "d" : all, experts.gather);
  return sums;
}

void expect_near(const Sent& derived, const Sent& priced) {
  ASSERT_EQ(derived.size(), priced.size());
  for (const auto& [what, time] : priced) {
    ASSERT_TRUE(derived.contains(what)) << what;
    EXPECT_NEAR(derived.at(what), time, 1e-6 + 1e-12 * time) << what;
  }
}

// Of n weights in fp32 with AdamW, of which d replicas share what a stage of ZeRO divides: weights
// and gradients of 4 bytes and two moments of 8, which the first stage divides, and the second the
// gradients too.
std::int64_t state_of(std::int64_t n, int zero, std::int64_t d) {
  const std::int64_t part = (n + d - 1) / d;
  return zero == 0 ? 16 * n : zero == 1 ? 8 * n + 8 * part : 4 * n + 12 * part;
}

// Once a step and, under ZeRO's second stage, in W: collectives and bytes of weights' gradients and
// of new weights, layer by layer; and what a device keeps of its weights from step to step.
void expect_equal_step(const Pair& pair) {
  Cluster cluster;
  cluster.device.peak_fp32 = FlopsPerSecond(1e12);
  cluster.devices_per_node = 8;
  const NetworkJob job{.dtype = Dtype::fp32};
  for (std::size_t l = 0; l < pair.network.layers.size(); ++l) {
    SCOPED_TRACE(pair.network.layers[l].name);
    const Trained numbers = trained(pair, first_of(pair.network, l));
    expect_near(sent(pair, l, Pass::step, kBytes), priced(pair, numbers, Pass::step, kBytes));
    expect_near(sent(pair, l, Pass::W, kBytes), priced(pair, numbers, Pass::W, kBytes));
    const LayerShare share = layer_share(pair.network, pair.layout, l);
    const Plan& plan = pair.plan;
    EXPECT_EQ(layer_cost(share, 1, pair.layout, job, cluster).state,
              Bytes(state_of(numbers.shared, plan.zero, plan.dp) +
                    state_of(numbers.experts, plan.zero, plan.dp / plan.ep)));
    // One message of each kind a step, whose bytes are the sum of the weights'.
    double reduced = 0;
    for (const StepReduction& r : step_reductions(share, 1)) {
      if (r.collective != Collective::all_gather) reduced += r.elements;
    }
    const bool once = plan.dp > 1 && plan.zero < 2;
    const bool experts = once && plan.dp > plan.ep;
    EXPECT_EQ(reduced, (once ? static_cast<double>(numbers.shared) : 0) +
                           (experts ? static_cast<double>(numbers.experts) : 0));
  }
}

void expect_equal(const Case& c, bool memory = true) {
  SCOPED_TRACE(c.model.name);
  SCOPED_TRACE(testing::Message() << "tp " << c.tp << " sp " << c.sequence_parallel << " dp "
                                  << c.dp << " ep " << c.ep);
  const Pair pair = pair_of(c);
  ASSERT_EQ(illegal(pair.network, pair.layout), std::nullopt);
  expect_equal_exchanges(pair);
  if (memory) expect_equal_memory(pair);
}

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

// ZeRO's first two stages are rules for what is kept of a weight: the optimizer's numbers, and the
// sums of gradients. Gradients are then reduce-scattered, once a step or by each micro-batch's W,
// and new weights gathered; among experts by those that hold the same.
TEST(MegatronsCutIsALayout, ZerosFirstStagesToo) {
  for (const int zero : {1, 2}) {
    for (const char* model : kDecoders) {
      SCOPED_TRACE(testing::Message() << model << " zero " << zero);
      for (const auto& [tp, rows] : {std::pair{1, false}, {2, false}}) {
        const Case c{.model = example(model), .tp = tp, .dp = 4, .zero = zero};
        expect_equal_step(pair_of(c));
        expect_equal(c);
      }
    }
    // Three replicas divide few blocks evenly: shares are rounded up, as priced.
    expect_equal_step(pair_of({.model = example("gpt2-mini"), .dp = 3, .zero = zero}));
    for (const auto& [tp, ep] : {std::pair{1, 4}, {1, 8}, {2, 2}}) {
      const Case c{.model = example("mixtral-8x7b"), .tp = tp, .dp = 8, .ep = ep, .zero = zero};
      SCOPED_TRACE(testing::Message() << "tp " << tp << " ep " << ep << " zero " << zero);
      expect_equal_step(pair_of(c));
      if (tp == 1) expect_equal(c);
    }
  }
}

// By hand: 24 numbers of a weight on d=2, m=2, its gradient a partial sum over d. Divided over
// both, a half of the gradient is left out and the other scattered; over m alone, where no sum is,
// each half is all-reduced over d.
TEST(MegatronsCutIsALayout, WhoSharesTheOptimizersNumbers) {
  Network network{"one", {{"batch", "b", 4}, {"io", "i", 4}, {"hidden", "h", 6}}, {}};
  add_layer(network, "one", {"x[batch, io]", "weight w[io, hidden]", "y[batch, hidden]"},
            {"y = x w"});
  NetworkLayout layout{"", {{"d", "d", 2}, {"m", "m", 2}}, {}};
  const auto lines = [&](const std::string& rules) {
    set_network_rules(rules, network, layout);
    EXPECT_EQ(illegal(network, layout), std::nullopt);
    std::vector<std::string> all;
    for (const Exchange& e : layer_share(network, layout, 0).exchanges)
      all.push_back(fmt::format("{} {} {} over {}{}", to_string(e.pass), to_string(e.collective),
                                e.elements, axes_text(layout, e.axes), e.fp32 ? " fp32" : ""));
    return all;
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines("batch:d"), (Lines{"step all-reduce 24 over d fp32"}));
  EXPECT_EQ(lines("batch:d,optimizer:d"),
            (Lines{"step reduce-scatter 24 over d fp32", "step all-gather 24 over d"}));
  EXPECT_EQ(lines("batch:d,optimizer:d,gradients:d"),
            (Lines{"W reduce-scatter 24 over d fp32", "step all-gather 24 over d"}));
  EXPECT_EQ(lines("batch:d,optimizer:d,optimizer:m"),
            (Lines{"step reduce-scatter 12 over d fp32", "step all-gather 24 over d*m"}));
  EXPECT_EQ(lines("batch:d,optimizer:m"),
            (Lines{"step all-reduce 12 over d fp32", "step all-gather 24 over m"}));
  // Split over m itself, the weight's block is divided over d alone.
  EXPECT_EQ(lines("batch:d,hidden:m,optimizer:d,optimizer:m"),
            (Lines{"step reduce-scatter 12 over d fp32", "step all-gather 12 over d"}));
  set_network_rules("batch:d,gradients:d", network, layout);
  EXPECT_THAT(illegal(network, layout).value_or(""),
              HasSubstr("gradients are split over d and the optimizer's numbers over nothing"));
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

// ZeRO's third stage is a rule: weights lie under `shard`, over the replicas, and are read under
// `hidden`. They are gathered in F and again in I, their gradients reduce-scattered in W in fp32,
// nothing once a step, and a device holds its part of the state: as replica_traffic and zero_share
// have it. An embedding's gradient asks for no weights, so its table is not gathered again, which
// the price does.
TEST(MegatronsCutIsALayout, ZerosShardsToo) {
  for (const auto& [tp, rows] : {std::pair{1, false}, {2, false}, {2, true}}) {
    Pair pair =
        pair_of({.model = example("llama-3-8b"), .tp = tp, .sequence_parallel = rows, .dp = 4});
    pair.plan.zero = 3;
    pair.network = layout::model_network(pair.model, {.seq_length = 128,
                                                      .batch = 8,
                                                      .vocabulary_of = tp,
                                                      .experts_apart = false,
                                                      .shards = true});
    pair.layout = layout::megatron_layout(pair.network, {tp, 4, 1, rows, 3});
    ASSERT_EQ(illegal(pair.network, pair.layout), std::nullopt);
    const layout::MegatronCut cut = layout::megatron_cut(pair.network, pair.layout);
    EXPECT_EQ(cut.zero, 3);
    EXPECT_EQ(cut.dp, 4);
    Cluster cluster;
    cluster.device.peak_fp32 = FlopsPerSecond(1e12);
    cluster.devices_per_node = 8;
    for (std::size_t l = 0; l < pair.network.layers.size(); ++l) {
      SCOPED_TRACE(pair.network.layers[l].name);
      const LayerShare share = layer_share(pair.network, pair.layout, l);
      const auto numbers = static_cast<std::int64_t>(share.weights) * 4;
      const PerKind<Seconds> priced = replica_traffic(numbers, pair.plan, kBytes);
      double sums[4] = {};
      for (const Exchange& e : share.exchanges) {
        if (axes_text(pair.layout, e.axes) != "d") continue;
        sums[static_cast<std::size_t>(e.pass)] += ns(exchange_time(e, 4, Dtype::fp32, kBytes));
      }
      EXPECT_NEAR(sums[0], ns(priced.f), 1e-6);
      EXPECT_NEAR(sums[1], l == 0 ? 0 : ns(priced.i), 1e-6);
      EXPECT_NEAR(sums[2], ns(priced.w), 1e-6);
      EXPECT_EQ(sums[3], 0);
      const NetworkJob job{.dtype = Dtype::fp32};
      EXPECT_EQ(layer_cost(share, 1, pair.layout, job, cluster).state,
                zero_share(numbers, state_bytes(job.optimizer, job.dtype), 3, 4).total());
    }
  }
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

TEST(MegatronsCutIsALayout, GradientsOnceAStep) {
  for (const char* model : kDecoders) {
    SCOPED_TRACE(model);
    expect_equal_step(pair_of({.model = example(model), .dp = 4}));
    expect_equal_step(pair_of({.model = example(model), .tp = 2, .dp = 4}));
  }
  expect_equal_step(pair_of({.model = example("mixtral-8x7b"), .dp = 8, .ep = 4}));
  expect_equal_step(pair_of({.model = example("mixtral-8x7b"), .tp = 2, .dp = 8, .ep = 8}));
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

// ---- small networks by hand ----

// Two layers of one sum each, b = 8, s = 4, h = 16, f = 32, on d = 2 and m = 4.
struct Small {
  Network network{"small",
                  {{"batch", "b", 8},
                   {"rows", "r", 4},
                   {"tokens", "s", 4},
                   {"hidden", "h", 16},
                   {"ffn", "f", 32}},
                  {}};
  NetworkLayout layout{"both", {{"d", "d", 2}, {"m", "m", 4}}, {}};

  explicit Small(const std::string& rules) {
    add_layer(network, "first",
              {"x[batch, rows, hidden]", "weight g[hidden]", "n[batch, rows, hidden]"},
              {"n = norm(x g) over hidden"});
    add_layer(network, "mlp",
              {"x[batch, rows, hidden]", "t[batch, tokens, hidden]", "weight w[hidden, ffn]",
               "u[batch, tokens, ffn]", "a[batch, tokens, ffn]", "weight v[ffn, hidden]",
               "z[batch, tokens, hidden]", "y[batch, rows, hidden]"},
              {"t = move(x)", "u = t w", "a = gelu(u)", "z = a v", "y = move(z)"});
    set_network_rules(rules, network, layout);
  }
  // "F all-reduce z over m: 512" for each exchange of the second layer.
  [[nodiscard]] std::vector<std::string> exchanges() const {
    std::vector<std::string> lines;
    for (const Exchange& e : layer_share(network, layout, 1).exchanges) {
      lines.push_back(fmt::format(
          "{} {} {}{} over {}: {}", to_string(e.pass), to_string(e.collective),
          e.gradient ? "d" : "", network.layers[1].tensors[static_cast<std::size_t>(e.tensor)].name,
          axes_text(layout, e.axes), e.elements));
    }
    return lines;
  }
};
using Lines = std::vector<std::string>;

// A replica's tokens are 4 x 4 x 16 = 256 numbers. z = a v sums over the split ffn, and so does dt:
// two all-reduces. Weights' gradients sum over the split batch: 16 x 32 / 4 = 128 numbers each.
TEST(DerivedExchanges, OfAnMlp) {
  EXPECT_EQ(Small("batch:d,ffn:m").exchanges(),
            (Lines{"F all-reduce y over m: 256", "step all-reduce dv over d: 128",
                   "step all-reduce dw over d: 128", "I all-reduce dx over m: 256"}));
}

// With rows split, the input is gathered and the sum scattered, in F and mirrored in I; W, a pass
// of its own, gathers the input and the output's gradient again.
TEST(DerivedExchanges, SequenceParallelismIsOneRuleMore) {
  EXPECT_EQ(Small("ffn:m,rows:m").exchanges(),
            (Lines{"F all-gather t over m: 512", "F reduce-scatter y over m: 512",
                   "I all-gather dz over m: 512", "W all-gather dz over m: 512",
                   "W all-gather t over m: 512", "I reduce-scatter dx over m: 512"}));
}

// Where both sides of a move are split over the same mesh dimension at other places, the blocks are
// exchanged all to all: rows against the hidden dimension would be one, batch stays.
TEST(DerivedExchanges, NothingWhereBothSidesAreSplitAlike) {
  EXPECT_EQ(Small("batch:d,rows:m,tokens:m").exchanges(),
            (Lines{"step all-reduce dv over d*m: 512", "step all-reduce dw over d*m: 512"}));
}

// Hidden split over m: u is summed over it, z's gradient meets v's split, and the input's own is
// whole where it was split: the mirror image of Megatron's cut.
TEST(DerivedExchanges, SplitAlongTheResidualStream) {
  EXPECT_EQ(Small("hidden:m").exchanges(),
            (Lines{"F all-reduce u over m: 1024", "I all-reduce da over m: 1024"}));
}

}  // namespace
}  // namespace weir::network_test
