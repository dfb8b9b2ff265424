// How far plans are apart, on plans of eight devices.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/layout_words.hpp"

#include <gtest/gtest.h>

namespace weir::layout_words_test {
namespace {

// 8 devices as TP 2 x PP 2 x DP 2, 4 micro-batches of 2 samples a replica: a mini-batch of 16.
Plan base() {
  Plan plan;
  plan.seq_length = 1024;
  plan.tp = plan.pp = plan.dp = 2;
  plan.micro_batch_size = 2;
  plan.microbatches = 4;
  plan.boundaries = {3};
  return plan;
}

PlanDistance from_base(const Plan& plan, const char* model = "m") {
  return distance(layout_words(base(), "m"), layout_words(plan, model));
}

TEST(LayoutWords, WhatFollowsFromOtherChoicesIsNone) {
  EXPECT_EQ(from_base(base()), PlanDistance::none);
  // TP 4 leaves one replica, which takes 8 micro-batches: one choice, its sequence parallelism
  // included.
  Plan tp = base();
  tp.tp = 4;
  tp.sequence_parallel = true;
  tp.dp = 1;
  tp.microbatches = 8;
  EXPECT_EQ(from_base(tp), PlanDistance::one_choice);
  // Micro-batches twice as large, half as many.
  Plan b = base();
  b.micro_batch_size = 4;
  b.microbatches = 2;
  EXPECT_EQ(from_base(b), PlanDistance::one_choice);
  // Both at once.
  tp.micro_batch_size = 4;
  tp.microbatches = 4;
  EXPECT_EQ(from_base(tp), PlanDistance::choices);
  // Re-materialised, and in another order: two choices.
  Plan other = base();
  other.recompute.mode = RecomputeMode::full;
  other.schedule = "1f1b";
  EXPECT_EQ(from_base(other), PlanDistance::choices);
}

TEST(LayoutWords, AnotherModelOrBatchIsAnotherJob) {
  EXPECT_EQ(from_base(base(), "another"), PlanDistance::other_job);
  Plan more = base();
  more.dp = 4;  // 16 devices
  EXPECT_EQ(from_base(more), PlanDistance::other_job);
  Plan batch = base();
  batch.microbatches = 8;
  EXPECT_EQ(from_base(batch), PlanDistance::other_job);
  EXPECT_EQ(distance({}, layout_words(base(), "m")), PlanDistance::other_job);
}

}  // namespace
}  // namespace weir::layout_words_test
