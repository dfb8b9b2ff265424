// The leanest and the amplest software, by hand.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/software_bounds.hpp"

#include <gtest/gtest.h>

namespace weir::software_bounds_test {
namespace {

Plan plan_of(Dtype dtype, int tp) {
  Plan plan;
  plan.dtype = dtype;
  plan.tp = tp;
  return plan;
}

// Gradients of 16-bit numbers may be summed in 2 bytes; those of 32 bits stay 4, and who holds less
// already is no worse.
TEST(SoftwareBounds, TheLeanestSumsGradientsInTheNumberFormat) {
  Stack stack;
  stack.memory.gradients = 4;
  stack.memory.reserved_expected = 1.03;
  EXPECT_EQ(leanest(stack, plan_of(Dtype::bf16, 1)).memory.gradients, 2);
  EXPECT_EQ(leanest(stack, plan_of(Dtype::fp32, 1)).memory.gradients, 4);
  EXPECT_EQ(leanest(stack, plan_of(Dtype::bf16, 1)).memory.reserved_expected, 1);
  stack.memory.gradients = 1;
  EXPECT_EQ(leanest(stack, plan_of(Dtype::bf16, 1)).memory.gradients, 1);
}

// AdamW of a model in 16 bits: two moments of 2 bytes and no copy in fp32; in fp32 8, where 12 and
// 8 are told. Products in FP8 need no weights beside those that they read.
TEST(SoftwareBounds, TheLeanestKeepsMomentsInTheNumberFormat) {
  Stack stack;
  stack.memory.optimizer = 12;
  stack.memory.fp8_weights = 2;
  EXPECT_EQ(leanest(stack, plan_of(Dtype::bf16, 1)).memory.optimizer, 4);
  EXPECT_EQ(leanest(stack, plan_of(Dtype::fp32, 1)).memory.optimizer, 8);
  EXPECT_EQ(leanest(stack, plan_of(Dtype::bf16, 1)).memory.fp8_weights, 2);
  stack.fp8 = true;
  EXPECT_EQ(leanest(stack, plan_of(Dtype::bf16, 1)).memory.fp8_weights, 0);
}

// Two norms at 4 + 2 bytes a number of the residual stream; 8, 12 and 16 bytes a logit, times the
// four devices of which each holds them all.
TEST(SoftwareBounds, TheAmplestFusesNothingAndHoldsAllLogits) {
  Stack stack;
  stack.memory.logits_kept = 4;
  stack.memory.logits_forward = 6;
  stack.memory.logits_backward = 20;
  const std::size_t before = stack.memory.block.size();
  const StackMemory m = amplest(stack, plan_of(Dtype::bf16, 4)).memory;
  ASSERT_EQ(m.block.size(), before + 2);
  EXPECT_EQ(m.block[before].bytes, 12);
  EXPECT_EQ(m.block[before].width, Width::hidden);
  EXPECT_EQ(m.block[before + 1].width, Width::ffn);
  EXPECT_EQ(m.logits_kept, 8 * 4);
  EXPECT_EQ(m.logits_forward, 12 * 4);
  EXPECT_EQ(m.logits_backward, 20 * 4) << "who holds more already is no better";
}

}  // namespace
}  // namespace weir::software_bounds_test
