// Expert parallelism by hand: what is sent, what a device holds, what it computes.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <utility>

#include "costmodel/layers/kernels.hpp"
#include "costmodel/links/collectives.hpp"
#include "costmodel/links/expert_exchange.hpp"
#include "costmodel/links/expert_overlap.hpp"
#include "costmodel/links/parallel.hpp"
#include "plan/model/model_part.hpp"

namespace weir::experts_test {
namespace {

// Four experts of 2 x 8 x 16 numbers, of which a token visits two.
Layer block() {
  TransformerShape shape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 16};
  shape.experts = 4;
  shape.experts_per_token = 2;
  shape.mlp_bias = false;
  return {"block.0", shape, ""};
}
Plan plan(int dp, int ep) {
  Plan p;
  p.seq_length = 32;
  p.dp = dp;
  p.ep = ep;
  return p;
}
double ns(Seconds time) { return time.count() * 1e9; }
const Link kLink{Seconds(0), BytesPerSecond(1e9)};

// 4 of 1024 bytes each at 1 GB/s: three quarters leave, 768 ns, and three latencies of 10 ns. Of
// eight on two nodes of four at a tenth of that: three eighths within, 384 ns, and half across,
// 5120 ns, beside each other.
TEST(Experts, AnAllToAllLeavesEachMemberItsOwn) {
  const Link link{Seconds(10e-9), BytesPerSecond(1e9)};
  EXPECT_DOUBLE_EQ(ns(all_to_all(Bytes(1024), 4, link)), 768 + 30);
  EXPECT_EQ(all_to_all(Bytes(1024), 1, link), Seconds(0));
  Cluster cluster;
  cluster.devices_per_node = 4;
  cluster.nodes = 2;
  cluster.intra = kLink;
  cluster.inter = {Seconds(0), BytesPerSecond(1e8)};
  EXPECT_NEAR(ns(all_to_all(Bytes(1024), 8, group_link(cluster, 8, 1))), 5120, 1e-6);
}

// 32 tokens visit two experts each with 8 numbers of 4 bytes: 2048 bytes, half of which leave one
// of two devices: 1024 ns to the experts, as much back, and again in the backward.
TEST(Experts, TokensTravelThereAndBack) {
  const PerKind<Seconds> traffic = expert_traffic(block(), plan(2, 2), kLink);
  EXPECT_DOUBLE_EQ(ns(traffic.f), 2 * 1024);
  EXPECT_DOUBLE_EQ(ns(traffic.i), 2 * 1024);
  EXPECT_EQ(traffic.w, Seconds(0));
  EXPECT_EQ(expert_traffic(block(), plan(2, 1), kLink).f, Seconds(0));
  Plan uneven = plan(2, 2);
  uneven.expert_load = 1.5;
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), uneven, kLink).f), 3 * 1024);
}

// Of bf16's 1024 ns three quarters run beside another micro-batch's work, where the stack can and
// the plan asks for it; one of the two is not enough. Of four micro-batches three have a partner:
// 9/16 of it are hidden and 448 ns left.
TEST(Experts, ExchangesBesideOtherWorkAreThePlansWord) {
  StackTime beside;
  beside.expert_overlap = 0.75;
  Plan overlapped = plan(2, 2);
  overlapped.dtype = Dtype::bf16;
  overlapped.microbatches = 4;
  overlapped.schedule = "1f1b";
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), overlapped, kLink, beside).f), 1024);
  overlapped.overlap_experts = true;
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), overlapped, kLink, beside).f), 448);
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), overlapped, kLink, beside).i), 448);
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), overlapped, kLink).f), 1024);
}

// One micro-batch has no other; a pipeline without chunks has no forward beside a backward, nor has
// GPipe's order; the rest Megatron-LM refuses. Each leaves all of the 1024 ns.
TEST(Experts, ExchangesWaitWhereNothingCanHideThem) {
  StackTime beside;
  beside.expert_overlap = 0.75;
  const auto left = [&](const auto& change) {
    Plan p = plan(2, 2);
    p.dtype = Dtype::bf16;
    p.microbatches = 4;
    p.overlap_experts = true;
    p.schedule = "1f1b";
    change(p);
    return std::pair(ns(expert_traffic(block(), p, kLink, beside).f), why_experts_wait(p));
  };
  using Left = std::pair<double, std::optional<std::string_view>>;
  const auto hidden = [](const Left& of) { return of.first < 1024 && !of.second; };
  const auto waits = [](const Left& of) { return of.first == 1024 && of.second; };
  EXPECT_TRUE(hidden(left([](Plan&) {})));
  EXPECT_TRUE(waits(left([](Plan& p) { p.microbatches = 1; })));
  EXPECT_TRUE(waits(left([](Plan& p) { p.pp = 2; })));
  EXPECT_TRUE(hidden(left([](Plan& p) { p.pp = p.vpp = 2; })));
  EXPECT_TRUE(waits(left([](Plan& p) { p.schedule = "gpipe"; })));
  EXPECT_TRUE(waits(left([](Plan& p) {
    p.pp = p.vpp = 2;
    p.schedule = "looped-bfs";
  })));
  EXPECT_TRUE(waits(left([](Plan& p) { p.recompute.mode = RecomputeMode::full; })));
  EXPECT_TRUE(waits(left([](Plan& p) { p.recompute.mode = RecomputeMode::stage; })));
  EXPECT_TRUE(waits(left([](Plan& p) {
    p.recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::moe};
  })));
  EXPECT_TRUE(hidden(left([](Plan& p) {
    p.recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::mlp};
  })));
  const auto why = [](const auto& change) {
    Plan p = plan(2, 2);
    p.microbatches = 4;
    p.schedule = "1f1b";
    p.dtype = Dtype::bf16;
    change(p);
    return why_experts_wait(p);
  };
  EXPECT_FALSE(why([](Plan& p) { p.prediction_layers = 1; }));
  EXPECT_TRUE(why([](Plan& p) { p.prediction_layers = 2; }));
  EXPECT_TRUE(why([](Plan& p) { p.dtype = Dtype::fp32; }));
  EXPECT_TRUE(why([](Plan& p) { p.cuda_graphs = CudaGraphs::of_blocks(); }));
  EXPECT_TRUE(why([](Plan& p) { p.cuda_graphs = CudaGraphs().add(GraphPart::mlp); }));
  EXPECT_FALSE(why([](Plan& p) { p.cuda_graphs = CudaGraphs::of_step(); }));
  EXPECT_TRUE(why([](Plan& p) { p.lengths = {{512}, RowsOf::packed}; }));
  EXPECT_FALSE(why([](Plan& p) { p.lengths = {{512}, RowsOf::longest}; }));
  // Gathered: 32 tokens of 8 numbers of 2 bytes from the other device, there and back, as without.
  const auto gathered = [](Plan& p) { p.expert_dispatch = ExpertDispatch::allgather; };
  Plan without = plan(2, 2);
  without.dtype = Dtype::bf16;
  gathered(without);
  EXPECT_EQ(left(gathered).first, ns(expert_traffic(block(), without, kLink, beside).f));
  EXPECT_TRUE(left(gathered).second);
}

// DeepSeek-V3's 256 experts, eight a token, on eight nodes: one in eight is missed by chance
// C(224, 8) / C(256, 8) = 0.3382, so 5.295 are visited; by a draw of four groups of eight, one a
// node, half are missed and of the others C(96, 8) / C(128, 8): 4 (1 - 0.0927). Each
// of sixteen nodes has half a group; each of two has four groups, of which 0 to 4 are drawn in 1,
// 16, 36, 16 and 1 of 70 draws.
TEST(Experts, NodesThatATokenVisits) {
  TransformerShape shape;
  shape.experts = 256;
  shape.experts_per_token = 8;
  const auto chance = [](double all, double own) {
    double none = 1;
    for (int i = 0; i < 8; ++i) none *= (all - own - i) / (all - i);
    return none;
  };
  EXPECT_NEAR(places_visited(shape, 8), 8 * (1 - chance(256, 32)), 1e-9);
  EXPECT_NEAR(places_visited(shape, 8), 5.295, 1e-3);
  shape.expert_groups = 8;
  shape.groups_per_token = 4;
  EXPECT_NEAR(places_visited(shape, 8), 4 * (1 - chance(128, 32)), 1e-9);
  EXPECT_LT(places_visited(shape, 8), 4);
  EXPECT_NEAR(places_visited(shape, 16), 16 * 0.5 * (1 - chance(128, 16)), 1e-9);
  const double other = (16 * chance(128, 32) + 36 * chance(128, 64) + 16 * chance(128, 96)) / 70;
  EXPECT_NEAR(places_visited(shape, 2), 2 * (1 - 1.0 / 70 - other), 1e-9);
  EXPECT_DOUBLE_EQ(places_visited(shape, 1), 1);
}

// Eight devices on two nodes of four, 1 GB/s within and a tenth across: of 1024 bytes, two copies
// of each token, three quarters travel within, 768 ns, where they go to two devices, and half of
// that where they go to one. Tokens that visit v nodes cross v / 2 times in the mean with half of
// their copies' bytes: 512 bytes and 5120 ns for v = 2, half of that for 1. Within one node of four
// there is nothing to cross.
TEST(Experts, NoTokenTravelsTwiceTheSameWay) {
  Link link = kLink;
  link.node = NodeLevel{4, Seconds(0), BytesPerSecond(1e9), Seconds(0), BytesPerSecond(1e8), {}};
  const auto time = [&](double devices, double nodes) {
    return ns(exchange_sent_once(Bytes(1024), 8, {2, devices, nodes}, link));
  };
  EXPECT_NEAR(time(2, 2), 5120, 1e-6);
  EXPECT_NEAR(time(2, 1), 2560, 1e-6);
  EXPECT_NEAR(time(2, 0.1), 768, 1e-6);
  EXPECT_NEAR(time(1, 0.1), 384, 1e-6);
  EXPECT_NEAR(ns(exchange_sent_once(Bytes(1024), 4, {2, 1, 1}, kLink)), 384, 1e-6);
}

// What is rebuilt brings tokens to their experts again; a stack that stops at the last tensor that
// is needed does not send them back.
TEST(Experts, ARebuiltBlockMayLeaveOutTheWayBack) {
  StackTime early;
  early.rebuild_stops_early = true;
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), plan(2, 2), kLink).r), 2 * 1024);
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), plan(2, 2), kLink, early).r), 1024);
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), plan(2, 2), kLink, early).b), 2 * 1024);
}

// The stack's word decides: four experts on two nodes of two, two a token, are on 2 (1 - 1/6) of
// the nodes, so 5/6 of what every copy for itself would send crosses. Within one node every copy
// travels for itself.
TEST(Experts, SentOnceIsTheStacksWord) {
  Cluster cluster;
  cluster.devices_per_node = 2;
  cluster.nodes = 2;
  cluster.intra = kLink;
  cluster.inter = {Seconds(0), BytesPerSecond(1e8)};
  StackTime once;
  once.experts_sent_once = true;
  const auto ratio = [&](int ep, const Link& link) {
    const Plan p = plan(4, ep);
    return expert_traffic(block(), p, link, once).f / expert_traffic(block(), p, link).f;
  };
  EXPECT_NEAR(ratio(4, group_link(cluster, 4, 1)), 5.0 / 6, 1e-9);
  EXPECT_NEAR(ratio(2, kLink), 1, 1e-9);
  EXPECT_NEAR(ratio(4, kLink), 1, 1e-9);
}

// The plan's word comes before the stack's. Gathered, each device gets the other three's 32 tokens
// of 8 numbers and 4 bytes, 3072 bytes at 1 GB/s, and gives as many back, however many experts a
// token visits.
TEST(Experts, ThePlanMaySayHowTokensTravel) {
  StackTime once;
  once.experts_sent_once = true;
  Plan all = plan(4, 4);
  all.expert_dispatch = ExpertDispatch::allgather;
  EXPECT_NEAR(ns(expert_traffic(block(), all, kLink, once).f), 2 * 3072, 1e-6);
  all.ep = 2;
  EXPECT_NEAR(ns(expert_traffic(block(), all, kLink).f), 2 * 1024, 1e-6);
  Plan each = plan(2, 2), by_plan = each;
  each.expert_dispatch = ExpertDispatch::alltoall;
  by_plan.expert_dispatch = ExpertDispatch::once;
  EXPECT_EQ(expert_traffic(block(), each, kLink, once).f,
            expert_traffic(block(), plan(2, 2), kLink).f);
  // On two devices of a node a token's two of four experts are on 2 (1 - 1/6): 5/6 of its copies.
  EXPECT_NEAR(ns(expert_traffic(block(), by_plan, kLink).f), 2 * 1024 * 5.0 / 6, 1e-6);
  EXPECT_EQ(parse_plan(to_json(by_plan), "p").expert_dispatch, ExpertDispatch::once);
}

// Of 4 x 256 numbers of experts a device of two has half; the router and attention it has whole.
// Eight replicas are four that hold the same experts.
TEST(Experts, ADeviceHoldsItsShare) {
  Model model;
  model.layers = {block()};
  const auto part = [&](int ep) {
    return model_part(model, 32, Dtype::fp32, plan(8, ep).split()).layer(0);
  };
  EXPECT_EQ(part(1).expert_parameters, 0) << "nothing is apart";
  EXPECT_EQ(part(2).expert_parameters, 2 * 256);
  EXPECT_EQ(part(1).parameters - part(2).parameters, 2 * 256);
  EXPECT_EQ(plan(8, 2).expert_replicas(), 4);
  EXPECT_EQ(cannot_divide(model, plan(8, 3))->reason, "3 does not divide the 4 experts of block.0");
  EXPECT_EQ(cannot_divide(model, plan(3, 2))->reason, "2 does not divide the 3 devices of dp x cp");
  std::get<TransformerShape>(model.layers[0].shape).experts = 1;
  EXPECT_EQ(cannot_divide(model, plan(8, 2))->reason, "the model has no experts");
}

// ZeRO-1: 1000 numbers in fp32 among the four that hold the same experts: three quarters are
// scattered, and of the updated weights as many gathered.
TEST(Experts, GradientsAreSummedWhereTheSameExpertsAre) {
  Plan p = plan(8, 2);
  p.zero = 1;
  const StepTraffic step = expert_step_traffic(1000, p, kLink);
  EXPECT_DOUBLE_EQ(ns(step.reduce), 3000);
  EXPECT_DOUBLE_EQ(ns(step.gather), 3000);
  EXPECT_DOUBLE_EQ(ns(step_traffic(1000, p, kLink).reduce), 3500);
  EXPECT_EQ(expert_step_traffic(1000, plan(2, 2), kLink).reduce, Seconds(0));
}

// What a device keeps of the tokens that reach its experts is as many whoever has them, and grows
// with the load.
TEST(Experts, KeptBytesFollowTheLoad) {
  const auto kept = [](const Split& split) {
    std::int64_t bytes = 0;
    for (const KeptTensor& tensor : layer_tensors(block(), 32, Dtype::fp32, split).saved)
      bytes += tensor.bytes_per_sample;
    return bytes;
  };
  EXPECT_EQ(kept({.ep = 2}), kept({}));
  // Of 64 visits 33 more: 8 numbers to the expert, 16 + 16 within, 8 back.
  EXPECT_EQ(kept({.ep = 2, .expert_load = 1.5}) - kept({.ep = 2}), 33 * (8 + 16 + 16 + 8) * 4);
}

// Two tensor-parallel devices, two replicas. Where both divide each expert, two replicas share the
// four: a device has halves of two. Where neither does, four devices share them: a device has one,
// whole. Either is 256 numbers on one device of the four.
Plan folded(int etp) {
  Plan p = plan(2, etp == 1 ? 4 : 2);
  p.tp = 2;
  p.sequence_parallel = true;
  p.etp = etp;
  return p;
}

TEST(Experts, TensorParallelDevicesMayHaveExpertsOfTheirOwn) {
  Model model;
  model.layers = {block()};
  for (const int etp : {0, 1}) {
    const Plan p = folded(etp);
    EXPECT_FALSE(cannot_divide(model, p));
    EXPECT_EQ(model_part(model, 32, Dtype::fp32, p.split()).layer(0).expert_parameters, 256);
    EXPECT_EQ(p.expert_replicas(), 1);
  }
  // Of 64 visits of 32 tokens all come to both halves of the experts, or half of them to each.
  const auto half = std::get<TransformerShape>(shard(block().shape, folded(0).split()));
  const auto whole = std::get<TransformerShape>(shard(block().shape, folded(1).split()));
  EXPECT_EQ(visits(half, 32) * half.ffn, 64 * 8);
  EXPECT_EQ(visits(whole, 32) * whole.ffn, 32 * 16);
}

// Each device sends its 16 tokens, twice, 1024 bytes, to three others and back: 768 ns of four,
// 512 ns of two. Tokens of 1024 bytes are gathered and scattered for attention, 512 ns each; the
// 2048 bytes of visits only where two devices divide an expert.
TEST(Experts, OnlyThoseThatDivideAnExpertGatherItsTokens) {
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), folded(0), kLink).f), 2 * 512);
  EXPECT_DOUBLE_EQ(ns(expert_traffic(block(), folded(1), kLink).f), 2 * 768);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(block(), folded(0), kLink).f), 2 * 512 + 2 * 1024);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(block(), folded(1), kLink).f), 2 * 512);
}

// Four experts' devices are next to each other in a node of four where none divides an expert, and
// on two nodes where two do.
TEST(Experts, ThoseOfWholeExpertsAreNextToEachOther) {
  Cluster cluster;
  cluster.devices_per_node = 4;
  cluster.nodes = 2;
  cluster.intra = kLink;
  cluster.inter = {Seconds(0), BytesPerSecond(1e8)};
  Plan p = folded(1);
  p.dp = 4;
  EXPECT_EQ(parallel_links(p, cluster).experts.bandwidth, cluster.intra.bandwidth);
  EXPECT_EQ(p.expert_replicas(), 2);
  p.etp = 0;
  EXPECT_LT(parallel_links(p, cluster).experts.bandwidth, cluster.intra.bandwidth);
}

TEST(Experts, FewerDevicesThatDivideThemAreADivisorAndHaveTheirOwnTokens) {
  Model model;
  model.layers = {block()};
  Plan p = folded(1);
  p.ep = 8;
  EXPECT_EQ(cannot_divide(model, p)->reason, "8 does not divide the 4 experts of block.0");
  p = folded(1);
  p.dp = 1;
  EXPECT_EQ(cannot_divide(model, p)->reason,
            "4 does not divide the 2 devices of tp x cp x dp / etp");
  p = folded(2);
  EXPECT_EQ(cannot_divide(model, p)->key, "etp");
  EXPECT_EQ(cannot_divide(model, p)->reason, "expected a divisor of tp = 2 below it");
  p = folded(1);
  p.sequence_parallel = false;
  EXPECT_EQ(cannot_divide(model, p)->reason,
            "expected sequence_parallel: without it the tp devices have the same tokens");
  std::get<TransformerShape>(model.layers[0].shape).experts = 1;
  p = folded(1);
  p.ep = 1;
  EXPECT_EQ(cannot_divide(model, p)->key, "etp");
}

}  // namespace
}  // namespace weir::experts_test
