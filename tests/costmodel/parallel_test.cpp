// What devices of one stage and of its replicas send each other, by hand: alpha 0, 1 GB/s within a
// node of 4, a tenth of it for each device between nodes, so a byte takes 1 ns or 10.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/parallel.hpp"

#include <gtest/gtest.h>

namespace weir::parallel_test {
namespace {

const Link kIntra{Seconds(0), BytesPerSecond(1e9)}, kInter{Seconds(2e-6), BytesPerSecond(1e8)};
Cluster nodes_of_four() {
  Cluster cluster;
  cluster.devices_per_node = 4;
  cluster.nodes = 4;
  cluster.intra = kIntra;
  cluster.inter = kInter;
  return cluster;
}
double ns(Seconds time) { return time.count() * 1e9; }

// s = 8, b = 1, h = 16, fp32: a layer's input is 8 x 16 x 4 = 512 bytes.
Plan plan(int tp, int cp, int dp) {
  Plan p;
  p.seq_length = 8;
  p.tp = tp;
  p.cp = cp;
  p.dp = dp;
  return p;
}
Layer block() {
  return {"b", TransformerShape{.hidden = 16, .heads = 4, .kv_heads = 4, .head_dim = 4, .ffn = 64},
          ""};
}

// tp of 2 within a node; 4 replicas 2 apart, two in each node, share two adapters; 8 devices 1
// apart would use all four; ranks of a pipeline 8 apart are never in one node, 2 apart every other.
TEST(ParallelCosts, DevicesFillNodesTensorFirst) {
  const Cluster cluster = nodes_of_four();
  const ParallelLinks links = parallel_links(plan(2, 1, 4), cluster);
  EXPECT_EQ(links.tensor.bandwidth.count(), 1e9);
  EXPECT_EQ(links.replicas.within.bandwidth.count(), 2e8);
  EXPECT_EQ(links.replicas.within.latency, Seconds(1e-6));  // one hop of two crosses
  EXPECT_EQ(group_link(cluster, 8, 1).bandwidth.count(), 4e8);
  EXPECT_EQ(group_link(cluster, 4, 4).bandwidth.count(), 1e8);
  EXPECT_EQ(pipeline_link(plan(2, 1, 4), cluster, Rank{0}, Rank{1}).bandwidth.count(), 1e8);
  EXPECT_EQ(pipeline_link(plan(2, 1, 1), cluster, Rank{0}, Rank{1}).bandwidth.count(), 1e9);
  EXPECT_EQ(pipeline_link(plan(2, 1, 1), cluster, Rank{1}, Rank{2}).bandwidth.count(), 1e8);
}

// 4000 bytes over a link on which messages have 20 us and 20 ns a byte, whatever it could do at its
// best: 80 us and 20 behind. In four parts: 20 us and 20 behind, and 3 us to gather them within the
// node. Of a link that has 5 us for messages as short as a part: 20 and 5 + 3.
TEST(ParallelCosts, AMessageGoesInPartsWhereThatIsFasterByTheLinksRegimes) {
  Plan p = plan(4, 1, 1);
  p.sequence_parallel = false;
  for (const double best : {1e8, 1e12}) {
    Link link{Seconds(2e-6), BytesPerSecond(best)};
    link.regimes = {{Bytes(1 << 20), Seconds(20e-6), BytesPerSecond(5e7)}};
    const MessageCost parts = stage_message(Bytes(4000), p, link, nodes_of_four());
    EXPECT_EQ(parts.occupancy, Nanoseconds(20000));
    EXPECT_EQ(parts.latency, Nanoseconds(23000));
    p.sequence_parallel = true;  // each device has rows of its own: there is nothing to gather
    const MessageCost whole = stage_message(Bytes(4000), p, link, nodes_of_four());
    EXPECT_EQ(whole.occupancy, Nanoseconds(80000));
    EXPECT_EQ(whole.latency, Nanoseconds(20000));
    p.sequence_parallel = false;
    link.regimes.insert(link.regimes.begin(), {Bytes(1000), Seconds(5e-6), BytesPerSecond(5e7)});
    EXPECT_EQ(stage_message(Bytes(4000), p, link, nodes_of_four()).latency, Nanoseconds(8000));
  }
}

// Ranks of a replica side by side, K 2, nodes of four: with tp 2 the two ranks are one node, and
// the replicas, a node apart, each have an adapter of their own; without it two replicas of a rank
// are in each node. The context-parallel pair of a replica stays in its node.
TEST(ParallelCosts, RanksOfAReplicaFillNodesFirstWhereThePlanSaysSo) {
  const Cluster cluster = nodes_of_four();
  const auto of = [](int tp, int cp, int dp) {
    Plan p = plan(tp, cp, dp);
    p.pp = 2;
    p.rank_order = RankOrder::tp_cp_pp_dp;
    return p;
  };
  const auto replicas = [&](const Plan& p) {
    return parallel_links(p, cluster).replicas.within.bandwidth.count();
  };
  EXPECT_EQ(replicas(of(2, 1, 4)), 1e8);
  EXPECT_EQ(replicas(of(1, 1, 4)), 2e8);
  EXPECT_EQ(replicas(of(1, 2, 2)), 2e8);
  EXPECT_EQ(replicas(of(1, 1, 2)), 1e9);
  EXPECT_EQ(pipeline_link(of(2, 1, 4), cluster, Rank{0}, Rank{1}).bandwidth.count(), 1e9);
  EXPECT_EQ(pipeline_link(plan(2, 1, 4), cluster, Rank{0}, Rank{1}).bandwidth.count(), 1e8);
}

// 512 bytes among 4: an all-reduce is 2 x 3/4 x 512 = 768 ns; a block has two in F and two in I, a
// parallel one one each, but in I one for each norm. Sequence parallelism: two all-gathers and two
// reduce-scatters of 384: as long.
TEST(ParallelCosts, ABlocksAllReduces) {
  Plan p = plan(4, 1, 1);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(block(), p, kIntra).f), 2 * 768);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(block(), p, kIntra).i), 2 * 768);
  p.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(block(), p, kIntra).f), 2 * 2 * 384);
  Layer parallel = block();
  std::get<TransformerShape>(parallel.shape).parallel = true;
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(parallel, p, kIntra).f), 3 * 384);
  p.sequence_parallel = false;
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(parallel, p, kIntra).f), 768);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(parallel, p, kIntra).i), 2 * 768);
  std::get<TransformerShape>(parallel.shape).single_norm = true;
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(parallel, p, kIntra).i), 768);
  EXPECT_EQ(tensor_traffic(block(), plan(1, 1, 1), kIntra).f, Seconds(0));
}

// A stack that hides three quarters hides them where the plan asks, and only there.
TEST(ParallelCosts, TensorParallelTrafficIsHiddenWhereThePlanAsks) {
  StackTime stack;
  stack.tensor_overlap = 0.75;
  Plan p = plan(4, 1, 1);
  p.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(block(), p, kIntra, stack).b), 4 * 384);
  p.overlap_tensor_parallel = true;
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(block(), p, kIntra, stack).b), 384);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(block(), p, kIntra).b), 4 * 384) << "a stack that cannot";
}

// The gradients of a block's two inputs are summed beside weights' products: two all-reduces of 768
// ns, or reduce-scatters of 384; the head's one; in a block with experts apart, attention's. A plan
// that asks for more has its own share.
TEST(ParallelCosts, SumsBesideWeights) {
  StackTime stack;
  stack.tensor_beside_weights = true;
  Plan p = plan(4, 1, 1);
  const Layer head{"h", HeadShape{.vocabulary = 10, .hidden = 16}, ""};
  EXPECT_DOUBLE_EQ(ns(sums_beside_weights(block(), p, kIntra, stack)), 2 * 768);
  EXPECT_DOUBLE_EQ(ns(sums_beside_weights(head, p, kIntra, stack)), 768);
  EXPECT_EQ(sums_beside_weights(block(), p, kIntra, {}), Seconds(0));
  p.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(ns(sums_beside_weights(block(), p, kIntra, stack)), 2 * 384);
  Layer experts = block();
  std::get<TransformerShape>(experts.shape).experts = 4;
  p.etp = 1;
  EXPECT_DOUBLE_EQ(ns(sums_beside_weights(experts, p, kIntra, stack)), 384);
  p.overlap_tensor_parallel = true;
  EXPECT_EQ(sums_beside_weights(block(), p, kIntra, stack), Seconds(0));
}

// With sequence parallelism a block has four collectives in F, and in I six where the stack gathers
// kept shards again. 100 us each: 400 and 600. Where stages are on several nodes 10 us more for
// each of two devices: 480 and 720.
TEST(Tensor, TheHostIsBusyWithCollectives) {
  Cluster cluster;
  cluster.devices_per_node = 4;
  cluster.stack.time.regathers = true;
  cluster.stack.time.collective_host = Seconds(100e-6);
  cluster.stack.time.collective_host_across = Seconds(10e-6);
  Plan p = plan(2, 1, 1);
  p.sequence_parallel = true;
  p.pp = 2;
  EXPECT_DOUBLE_EQ(collective_host_time(block(), p, cluster).f.count(), 400e-6);
  EXPECT_DOUBLE_EQ(collective_host_time(block(), p, cluster).i.count(), 600e-6);
  p.pp = 4;
  EXPECT_DOUBLE_EQ(collective_host_time(block(), p, cluster).f.count(), 480e-6);
  EXPECT_DOUBLE_EQ(collective_host_time(block(), p, cluster).b.count(), 720e-6);
  p.tp = 1;
  EXPECT_EQ(collective_host_time(block(), p, cluster).f, Seconds(0));
}

// Embedding: 768 in F, or 384 each way. Head: three all-reduces of 8 x 4 bytes, 2 x 3/4 x 32 = 48
// ns each, and 768 in I.
TEST(ParallelCosts, EmbeddingAndHead) {
  const Layer embedding{"e", EmbeddingShape{.vocabulary = 10, .hidden = 16}, ""};
  const Layer head{"h", HeadShape{.vocabulary = 10, .hidden = 16}, ""};
  Plan p = plan(4, 1, 1);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(embedding, p, kIntra).f), 768);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(head, p, kIntra).f), 3 * 48);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(head, p, kIntra).i), 768);
  p.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(embedding, p, kIntra).i), 384);
  EXPECT_DOUBLE_EQ(ns(tensor_traffic(head, p, kIntra).f), 384 + 3 * 48);
}

// Keys and values of 8 tokens, 2 x 16 numbers of 4 bytes: 1024; a member of two lacks half, 512 ns.
// I: twice that.
TEST(ParallelCosts, ContextGathersKeysAndValues) {
  EXPECT_DOUBLE_EQ(ns(context_traffic(block(), plan(1, 2, 1), kIntra).f), 512);
  EXPECT_DOUBLE_EQ(ns(context_traffic(block(), plan(1, 2, 1), kIntra).i), 1024);
  EXPECT_DOUBLE_EQ(ns(context_traffic(block(), plan(2, 2, 1), kIntra).f),
                   256);  // two of the four heads
}

// 1000 parameters, 4 replicas, bf16: gradients 4000 bytes, of which 3/4 take 3000 ns; weights half
// of that.
TEST(ParallelCosts, ReplicasOnceAStepOrEachMicrobatch) {
  Plan p = plan(1, 2, 2);
  p.dtype = Dtype::bf16;
  EXPECT_DOUBLE_EQ(ns(step_traffic(1000, p, kIntra).reduce), 6000);
  EXPECT_EQ(step_traffic(1000, p, kIntra).gather, Seconds(0));
  p.zero = 1;
  EXPECT_DOUBLE_EQ(ns(step_traffic(1000, p, kIntra).reduce), 3000);
  EXPECT_DOUBLE_EQ(ns(step_traffic(1000, p, kIntra).gather), 1500);
  EXPECT_EQ(replica_traffic(1000, p, kIntra).w, Seconds(0));
  p.zero = 2;
  EXPECT_EQ(step_traffic(1000, p, kIntra).reduce, Seconds(0));
  EXPECT_DOUBLE_EQ(ns(replica_traffic(1000, p, kIntra).w), 3000);
  EXPECT_EQ(replica_traffic(1000, p, kIntra).f, Seconds(0));
  p.zero = 3;
  EXPECT_EQ(step_traffic(1000, p, kIntra).gather, Seconds(0));
  EXPECT_DOUBLE_EQ(ns(replica_traffic(1000, p, kIntra).f), 1500);
  EXPECT_DOUBLE_EQ(ns(replica_traffic(1000, p, kIntra).i), 1500);
}

// A stack that keeps sharded weights gathered through a pipeline sends as ZeRO-1 does: gradients
// of 4000 bytes once, 3/4 of them 3000 ns, weights 1500 ns, nothing with a micro-batch; without a
// pipeline it shards as others do.
TEST(ParallelCosts, WeightsThatStayGatheredAreSentOnceAStep) {
  Plan p = plan(1, 2, 2);
  p.dtype = Dtype::bf16;
  p.zero = 3;
  Stack stack;
  stack.memory.pipeline_weights = 2;
  p.pp = 2;
  EXPECT_TRUE(stays_gathered(p, stack));
  EXPECT_DOUBLE_EQ(ns(step_traffic(1000, p, kIntra, stack).reduce), 3000);
  EXPECT_DOUBLE_EQ(ns(step_traffic(1000, p, kIntra, stack).gather), 1500);
  EXPECT_EQ(replica_traffic(1000, p, kIntra, stack).f, Seconds(0));
  EXPECT_EQ(replica_traffic(1000, p, kIntra, stack).w, Seconds(0));
  p.pp = 1;
  EXPECT_FALSE(stays_gathered(p, stack));
  EXPECT_DOUBLE_EQ(ns(replica_traffic(1000, p, kIntra, stack).f), 1500);
}

// 100 parameters, 400 bytes, between ranks 0 and 3 of two devices each, on different nodes: 2 (2 us
// + 1/2 x 4 us).
TEST(ParallelCosts, TiedTablesAreReducedBetweenTheirStages) {
  EXPECT_DOUBLE_EQ(ns(tied_reduction(100, plan(2, 1, 1), nodes_of_four(), {Rank{0}, Rank{3}})),
                   8000);
  EXPECT_DOUBLE_EQ(ns(tied_reduction(100, plan(2, 1, 1), nodes_of_four(), {Rank{0}, Rank{1}})),
                   400);
}

// Four layers, 8 s of reduction: beside a backward of 4 s three quarters of it hide 3 s; beside one
// of 100 s only the first layer's 2 s are left.
TEST(ParallelCosts, TheFirstLayersReductionCannotHide) {
  EXPECT_DOUBLE_EQ(exposed_reduction(Seconds(8), Seconds(4), 4).count(), 5);
  EXPECT_DOUBLE_EQ(exposed_reduction(Seconds(8), Seconds(100), 4).count(), 2);
  EXPECT_DOUBLE_EQ(exposed_reduction(Seconds(8), Seconds(100), 1).count(), 8);
}

}  // namespace
}  // namespace weir::parallel_test
