// Each formula on one case worked by hand: alpha = 10 us and 100 MB/s, so 1000 bytes take 10 us on
// the wire.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/collectives.hpp"

#include <gtest/gtest.h>

namespace weir::collectives_test {
namespace {

const Link kLink{Seconds(10e-6), BytesPerSecond(100e6)};
double us(Seconds time) { return time.count() * 1e6; }

// 10 + 10.
TEST(Collectives, PointToPoint) { EXPECT_DOUBLE_EQ(us(point_to_point(Bytes(1000), kLink)), 20); }

// Four members, 4000 bytes = 40 us in all: a member lacks three quarters, 30 us, in 3 rounds.
TEST(Collectives, AllGather) {
  EXPECT_DOUBLE_EQ(us(ring_all_gather(Bytes(4000), 4, kLink)), 3 * 10 + 30);
}

// The all-gather backwards: as long.
TEST(Collectives, ReduceScatter) {
  EXPECT_DOUBLE_EQ(us(ring_reduce_scatter(Bytes(4000), 4, kLink)), 3 * 10 + 30);
}

// Ring: both of the above, 60 + 60.
// Two trees: the whole up and down once, 40 + 40, behind 2 + 2 latencies.
TEST(Collectives, AllReduce) {
  EXPECT_DOUBLE_EQ(us(ring_all_reduce(Bytes(4000), 4, kLink)), 120);
  EXPECT_DOUBLE_EQ(us(double_tree_all_reduce(Bytes(4000), 4, kLink)), 120);
}

// 4000 bytes among 4 members at 200 MB/s: 2 x 3/4 x 20 us, behind 5; three members are too few.
TEST(Collectives, ASwitchAddsUp) {
  Link link = kLink;
  link.switch_reduction = SwitchReduction{4, Seconds(5e-6), BytesPerSecond(200e6)};
  EXPECT_DOUBLE_EQ(us(all_reduce(Bytes(4000), 4, link)), 35);
  EXPECT_EQ(all_reduce(Bytes(4000), 3, link), all_reduce(Bytes(4000), 3, kLink));
}

// Two members in each of two nodes, 4000 bytes: a node's half of them is 20 us at 100 MB/s, twice
// behind 10; across, each member's 2000 bytes take 2 (10 + 10) us at the same rate.
TEST(Collectives, TwoLevels) {
  const NodeLevel node{2, Seconds(10e-6), BytesPerSecond(100e6), Seconds(10e-6),
                       BytesPerSecond(100e6)};
  EXPECT_DOUBLE_EQ(us(two_level_all_reduce(Bytes(4000), 4, node)), 2 * (10 + 20) + 2 * (10 + 10));
  Link link = kLink;
  link.node = node;
  EXPECT_EQ(all_reduce(Bytes(4000), 4, link), two_level_all_reduce(Bytes(4000), 4, node));
}

// 4000 bytes of two members in each of four nodes, 1 us and 1 GB/s within; levels of the trees take
// 5 us and adapters of a tenth: 2 (1 x 1 + 2 x 5) us and twice 4000 bytes at two adapters' 0.2
// GB/s. Rings and two levels, at 10 us a step across, take longer; without a level's latency they
// are taken.
TEST(Collectives, TreesOfNodes) {
  NodeLevel node{2, Seconds(1e-6), BytesPerSecond(1e9), Seconds(10e-6), BytesPerSecond(1e8)};
  node.across_tree = Seconds(5e-6);
  EXPECT_DOUBLE_EQ(us(tree_of_nodes_all_reduce(Bytes(4000), 8, node)), 2 * (1 + 10) + 2 * 20);
  Link link = kLink;
  link.node = node;
  EXPECT_EQ(all_reduce(Bytes(4000), 8, link), tree_of_nodes_all_reduce(Bytes(4000), 8, node));
  link.node->across_tree = Seconds(0);
  EXPECT_EQ(all_reduce(Bytes(4000), 8, link), two_level_all_reduce(Bytes(4000), 8, node));
}

// The faster of the two: long messages by the ring; 4 bytes among 16 members by the trees, 8 x 10 +
// 2 x 0.04 against 30 x 10 + 2 x 15/16 x 0.04.
TEST(Collectives, AllReduceTakesTheFaster) {
  EXPECT_EQ(all_reduce(Bytes(40000), 4, kLink), ring_all_reduce(Bytes(40000), 4, kLink));
  EXPECT_DOUBLE_EQ(us(all_reduce(Bytes(4), 16, kLink)), 80.08);
}

// 4000 bytes of 4 ranks: a quarter across, 10 + 10, then gathered on a link ten times as fast: 3 x
// 1 + 3.
TEST(Collectives, ScatterGatherSend) {
  const Link within{Seconds(1e-6), BytesPerSecond(1e9)};
  EXPECT_DOUBLE_EQ(us(scatter_gather_send(Bytes(4000), 4, kLink, within)), 20 + 6);
  EXPECT_EQ(scatter_gather_send(Bytes(4000), 1, kLink, within), point_to_point(Bytes(4000), kLink));
}

// Alone there is nobody to talk to; of five, the tree needs lg 8 = 3 rounds.
TEST(Collectives, OneMemberIsFreeAndOddNumbersRoundUp) {
  EXPECT_EQ(all_reduce(Bytes(4000), 1, kLink), Seconds(0));
  EXPECT_EQ(double_tree_all_reduce(Bytes(4000), 1, kLink), Seconds(0));
  EXPECT_EQ(ring_all_gather(Bytes(4000), 1, kLink), Seconds(0));
  EXPECT_DOUBLE_EQ(us(double_tree_all_reduce(Bytes(1000), 5, kLink)), 2 * (3 * 10 + 10));
}

}  // namespace
}  // namespace weir::collectives_test
