// How multiprocessors divide among stages, and what a run says of it: arithmetic that needs no
// device.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/sm/sm_split.hpp"

#include <gtest/gtest.h>

#include "exec/cuda/sm/device_sharing.hpp"

namespace weir::sm_split_test {
namespace {

constexpr SmGranularity kHopper{8, 8};

// An H200 has 132 multiprocessors, and groups are multiples of 8. 132/2 = 66, 64 below it; 132/4 =
// 33, 32 below it; 132/8 = 16.5, 16 below it. Each leaves 132 - 128 = 4.
TEST(SmSplit, AnH200InTwoFourAndEight) {
  EXPECT_EQ(equal_split(132, 2, kHopper), (SmSplit{2, 64, 132}));
  EXPECT_EQ(equal_split(132, 4, kHopper), (SmSplit{4, 32, 132}));
  EXPECT_EQ(equal_split(132, 8, kHopper), (SmSplit{8, 16, 132}));
  for (const int groups : {2, 4, 8}) EXPECT_EQ(equal_split(132, groups, kHopper)->left(), 4);
}

// 132/3 = 44 and 40 is the multiple of 8 below: 12 are left. One group is 128, not 132: it is still
// a group.
TEST(SmSplit, WhatDoesNotDivideIsLeft) {
  EXPECT_EQ(equal_split(132, 3, kHopper)->left(), 12);
  EXPECT_EQ(equal_split(132, 1, kHopper), (SmSplit{1, 128, 132}));
}

// 16 groups of 8 are 128; 17 shares are 7 each, fewer than a group may have.
TEST(SmSplit, GroupsHaveALeastSize) {
  EXPECT_EQ(equal_split(132, 16, kHopper), (SmSplit{16, 8, 132}));
  EXPECT_EQ(equal_split(132, 17, kHopper), std::nullopt);
}

// An A100 (8.0) has 108: halves are 54 and quarters 26 of 27, groups being even. A T4 (7.5) has 40.
TEST(SmSplit, OlderDevicesDivideFiner) {
  EXPECT_EQ(sm_granularity(9), kHopper);
  EXPECT_EQ(sm_granularity(10), kHopper);
  EXPECT_EQ(equal_split(108, 2, sm_granularity(8)), (SmSplit{2, 54, 108}));
  EXPECT_EQ(equal_split(108, 4, sm_granularity(8)), (SmSplit{4, 26, 108}));
  EXPECT_EQ(equal_split(40, 8, sm_granularity(7)), (SmSplit{8, 4, 40}));
}

// For every device and number of groups: the groups fit, are as the granularity wants them, and the
// next larger ones would not fit.
TEST(SmSplit, GroupsAreTheLargestThatFit) {
  for (const int major : {7, 8, 9}) {
    const SmGranularity granularity = sm_granularity(major);
    for (int total = 1; total <= 160; ++total) {
      for (int groups = 1; groups <= 16; ++groups) {
        const auto split = equal_split(total, groups, granularity);
        const int next = split ? split->size + granularity.multiple : granularity.least;
        EXPECT_GT(groups * next, total);
        if (!split) continue;
        EXPECT_LE(groups * split->size, total);
        EXPECT_GE(split->size, granularity.least);
        EXPECT_EQ(split->size % granularity.multiple, 0);
      }
    }
  }
}

// Two ranks on four devices have one each. Five ranks on two: 0, 2 and 4 share device 0 and are its
// groups 0, 1, 2; 1 and 3 share device 1, which is divided by three as well, so that all five are
// equal.
TEST(RankPlaces, OneEachOrInTurn) {
  EXPECT_EQ(place_rank(1, 2, 4), (RankPlace{1, 0, 1}));
  EXPECT_EQ(place_rank(4, 5, 2), (RankPlace{0, 2, 3}));
  EXPECT_EQ(place_rank(3, 5, 2), (RankPlace{1, 1, 3}));
  EXPECT_EQ(place_rank(3, 4, 1), (RankPlace{0, 3, 4}));
}

TEST(SharingLabels, SayWhatTheTimesAreTimesOf) {
  EXPECT_EQ(sharing_label(1, 1, std::nullopt, ""), "one GPU");
  EXPECT_EQ(sharing_label(4, 4, std::nullopt, ""), "4 GPUs, one rank each");
  EXPECT_EQ(sharing_label(2, 1, SmSplit{2, 64, 132}, ""),
            "SM-partitioned: 2 groups of 64 of 132 multiprocessors, 4 in none");
  EXPECT_EQ(
      sharing_label(4, 2, SmSplit{2, 54, 108}, ""),
      "SM-partitioned: 2 groups of 54 of 108 multiprocessors, on each of 2 GPUs, ranks in turn");
  EXPECT_EQ(sharing_label(2, 1, SmSplit{2, 56, 132, 64}, ""),
            "SM-partitioned: 2 groups of 56 of 132 multiprocessors, 20 in none (its clusters are "
            "uneven: even ones would give 64 each)");
  EXPECT_EQ(sharing_label(2, 1, std::nullopt, "the driver has no cuGreenCtxCreate of CUDA 12.5"),
            "streams with priorities on one GPU (the driver has no cuGreenCtxCreate of CUDA 12.5)");
}

}  // namespace
}  // namespace weir::sm_split_test
