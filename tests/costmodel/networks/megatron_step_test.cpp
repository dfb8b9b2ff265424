// Megatron's cut is a layout, once a step: gradients and new weights as replicas exchange them, and
// what ZeRO's stages leave of a weight's state, are those that forecasts price; bytes of state are
// written out.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "costmodel/layers/network_math.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/memory/training_state.hpp"
#include "plan/layout/megatron_cut.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/model/layer_tensors.hpp"
#include "tests/costmodel/networks/priced_cut.hpp"

namespace weir::megatron_step_test {
namespace {

using layout::Collective;
using layout::Exchange;
using layout::LayerShare;
using layout::Pass;
using priced_cut::Case;
using priced_cut::example;
using priced_cut::expect_equal;
using priced_cut::first_of;
using priced_cut::kBytes;
using priced_cut::kDecoders;
using priced_cut::ns;
using priced_cut::of_weight;
using priced_cut::Pair;
using priced_cut::pair_of;

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

TEST(MegatronsCutIsALayout, GradientsOnceAStep) {
  for (const char* model : kDecoders) {
    SCOPED_TRACE(model);
    expect_equal_step(pair_of({.model = example(model), .dp = 4}));
    expect_equal_step(pair_of({.model = example(model), .tp = 2, .dp = 4}));
  }
  expect_equal_step(pair_of({.model = example("mixtral-8x7b"), .dp = 8, .ep = 4}));
  expect_equal_step(pair_of({.model = example("mixtral-8x7b"), .tp = 2, .dp = 8, .ep = 8}));
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

}  // namespace
}  // namespace weir::megatron_step_test
