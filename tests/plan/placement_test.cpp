// Clusters of several kinds of nodes: their files, and where the devices of a plan stand.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/job/plan.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::placement_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Nodes of two devices: `fast` has two of them, `slow` one.
Cluster nodes(const std::string& name, int count, double intra, double inter) {
  Cluster cluster;
  cluster.name = name;
  cluster.device.name = name;
  cluster.device.memory = Bytes(1 << 30);
  cluster.device.peak_fp32 = FlopsPerSecond(1e12);
  cluster.device.memory_bandwidth = BytesPerSecond(1e12);
  cluster.devices_per_node = 2;
  cluster.nodes = count;
  cluster.intra = {Seconds(1e-6), BytesPerSecond(intra)};
  cluster.inter = {Seconds(inter == 1e9 ? 9e-6 : 5e-6), BytesPerSecond(inter)};
  cluster.origin = {"a test"};
  return cluster;
}

Cluster two_pools() {
  return pooled("both", {nodes("fast", 2, 8e9, 4e9), nodes("slow", 1, 2e9, 1e9)});
}

Plan plan_of(int pp, int dp) {
  Plan plan;
  plan.pp = pp;
  plan.dp = dp;
  return plan;
}

TEST(Pools, AFileReadsBackAndHasAllItsDevices) {
  Cluster cluster = two_pools();
  cluster.pools[1].slowdown = 1.5;
  const Cluster again = parse_cluster(to_json(cluster), "both.json");
  EXPECT_EQ(to_json(again), to_json(cluster));
  EXPECT_EQ(again.devices(), 6);
  EXPECT_EQ(again.kinds(), 2);
  EXPECT_EQ(again.kind(1).slowdown, 1.5);
  EXPECT_EQ(again.device.name, "fast");  // what stands before the pools is the first one's
}

TEST(Pools, WhatCannotBeIsRefusedByNameAndKey) {
  const Cluster fast = nodes("fast", 2, 8e9, 4e9), slow = nodes("slow", 1, 2e9, 1e9);
  EXPECT_THAT(complaint([&] { static_cast<void>(pooled("c", {fast})); }),
              HasSubstr("c: pools: expected two to four kinds of nodes"));
  EXPECT_THAT(complaint([&] {
                static_cast<void>(pooled("c", {fast, fast}));
              }),
              HasSubstr("fast: is there twice"));
  EXPECT_THAT(complaint([&] {
                static_cast<void>(pooled("c", {two_pools(), slow}));
              }),
              HasSubstr("has pools itself"));
  Cluster dear = fast, dearer = slow;
  dear.price_per_gpu_hour = Price{2, "USD"};
  dearer.price_per_gpu_hour = Price{3, "EUR"};
  EXPECT_THAT(complaint([&] {
                static_cast<void>(pooled("c", {dear, dearer}));
              }),
              HasSubstr("slow: its price is in EUR, another pool's in USD"));
  std::string text = to_json(two_pools());
  std::string twice = text;  // the file is named, not the cluster
  twice.replace(twice.find("\"slow\""), 6, "\"fast\"");
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_cluster(twice, "mine.json")); }),
              HasSubstr("mine.json: pools: fast: is there twice"));
  const auto inter = text.rfind("\"inter\"");
  text.replace(inter, 7, "\"other\"");
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_cluster(text, "c.json")); }),
              HasSubstr("what leads to other pools"));
}

// Two devices a rank: nodes are filled in order, so that rank 2 is the slow node.
TEST(Placement, DevicesFillNodesInOrder) {
  const Cluster cluster = two_pools();
  const Placement placement(plan_of(3, 2), cluster);
  EXPECT_THAT(placement.kinds(Rank{1}), ElementsAre(0));
  EXPECT_THAT(placement.kinds(Rank{2}), ElementsAre(1));
  EXPECT_EQ(placement.node(Rank{0}), 0);
  EXPECT_EQ(placement.node(Rank{1}), 1);
  EXPECT_EQ(placement.node(Rank{2}), 2);
  EXPECT_EQ(placement.devices(1), 2);
  EXPECT_EQ(placement.link(Rank{0}, Rank{1}).bandwidth.count(), 4e9);
  // Between pools the slower adapters decide, and the longer latency.
  EXPECT_EQ(placement.link(Rank{1}, Rank{2}).bandwidth.count(), 1e9);
  EXPECT_EQ(placement.link(Rank{1}, Rank{2}).latency.count(), 9e-6);
}

// Three devices a rank: those of rank 1 are the last of the fast nodes and both slow ones.
TEST(Placement, ARankMayStandOnTwoKinds) {
  const Cluster cluster = two_pools();
  const Placement placement(plan_of(2, 3), cluster);
  EXPECT_THAT(placement.kinds(Rank{0}), ElementsAre(0));
  EXPECT_THAT(placement.kinds(Rank{1}), ElementsAre(0, 1));
  EXPECT_EQ(placement.devices(0), 4);
  EXPECT_EQ(placement.devices(1), 2);
}

// Ranks of a replica side by side: replica 0 is devices 0 to 2, replica 1 devices 3 to 5, of which
// the last two are slow.
TEST(Placement, RanksOfAReplicaMayComeFirst) {
  const Cluster cluster = two_pools();
  Plan plan = plan_of(3, 2);
  plan.rank_order = RankOrder::tp_cp_pp_dp;
  EXPECT_EQ(first_device(plan, Rank{2}), 2);
  const Placement placement(plan, cluster);
  EXPECT_THAT(placement.kinds(Rank{0}), ElementsAre(0));               // devices 0 and 3
  EXPECT_THAT(placement.kinds(Rank{1}), ElementsAre(0, 1));            // 1 and 4
  EXPECT_THAT(placement.kinds(Rank{2}), ElementsAre(0, 1));            // 2 and 5
  EXPECT_EQ(placement.link(Rank{0}, Rank{1}).bandwidth.count(), 8e9);  // of one node
}

TEST(Placement, FollowsThePlan) {
  const Cluster cluster = two_pools();
  Plan plan = plan_of(3, 1);
  plan.placement = {{"slow", 1}, {"fast", 2}};
  const Placement placement(plan, cluster);
  EXPECT_THAT(placement.kinds(Rank{0}), ElementsAre(1));
  EXPECT_THAT(placement.kinds(Rank{1}), ElementsAre(0));
  EXPECT_EQ(placement.link(Rank{1}, Rank{2}).bandwidth.count(), 8e9);
  EXPECT_EQ(placement.devices(0), 2);
  EXPECT_EQ(placement.devices(1), 1);
  plan.placement = {{"fast", 2}};
  EXPECT_THAT(complaint([&] { Placement(plan, cluster); }),
              HasSubstr("places 2 ranks; expected all 3"));
  plan.placement = {{"slow", 3}};
  EXPECT_THAT(complaint([&] { Placement(plan, cluster); }),
              HasSubstr("3 devices are needed there, it has 1 x 2 = 2"));
  plan.placement = {{"quick", 3}};
  EXPECT_THAT(complaint([&] { Placement(plan, cluster); }), HasSubstr("quick is no pool of both"));
  plan.placement.clear();
  plan.dp = 3;
  EXPECT_THAT(complaint([&] { Placement(plan, cluster); }),
              HasSubstr("9 devices are needed, they have 6"));
}

TEST(Placement, PlansReadBack) {
  Plan plan = plan_of(4, 2);
  plan.boundaries = {1, 2, 3};
  plan.placement = {{"slow", 1}, {"fast", 3}};
  EXPECT_EQ(parse_plan(to_json(plan), "p.json"), plan);
  plan.placement.front().ranks = 2;
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_plan(to_json(plan), "p.json")); }),
              HasSubstr("p.json: placement: places 5 ranks; expected all 4"));
  plan.placement.clear();
  plan.rank_order = RankOrder::tp_cp_pp_dp;
  EXPECT_EQ(parse_plan(to_json(plan), "p.json"), plan);
  plan.placement = {{"fast", 4}};
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_plan(to_json(plan), "p.json")); }),
              HasSubstr("placement: expected with rank_order tp-cp-dp-pp only"));
}

}  // namespace
}  // namespace weir::placement_test
