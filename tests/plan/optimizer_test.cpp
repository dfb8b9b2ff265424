// Learning rates by Megatron's formulas, worked by hand; what contradicts; and the plan's keys.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/plan.hpp"
#include "plan/words/error.hpp"

namespace weir::optimizer_test {
namespace {

using testing::HasSubstr;

Optimizer decaying(DecayStyle style) {
  return {.learning_rate = 8,
          .rate = {.warmup_iters = 4, .decay_iters = 12, .style = style, .min_lr = 2}};
}

// 0, 2, 4, 6, 8 over the warm-up; half way from 4 to 12 the rate is half way from 8 to 2.
TEST(LearningRate, WarmsUpAndDecays) {
  const Optimizer linear = decaying(DecayStyle::linear), cosine = decaying(DecayStyle::cosine);
  for (int step = 0; step <= 4; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate_at(linear, step), 2.0 * step);
    EXPECT_DOUBLE_EQ(learning_rate_at(cosine, step), 2.0 * step);
  }
  EXPECT_DOUBLE_EQ(learning_rate_at(linear, 6), 2 + 0.75 * 6);
  EXPECT_DOUBLE_EQ(learning_rate_at(cosine, 8), 5);
  // A third of half a turn: cos 60 degrees is 1/2, three quarters are left.
  Optimizer third = cosine;
  third.rate.decay_iters = 13;
  EXPECT_NEAR(learning_rate_at(third, 7), 2 + 0.75 * 6, 1e-12);
  for (const Optimizer& optimizer : {linear, cosine}) {
    EXPECT_DOUBLE_EQ(learning_rate_at(optimizer, 12), 2);
    EXPECT_DOUBLE_EQ(learning_rate_at(optimizer, 1000), 2);
  }
}

TEST(LearningRate, IsConstantUnlessItIsSaid) {
  EXPECT_EQ(learning_rate_at({.learning_rate = 0.5}, 0), 0.5);
  EXPECT_EQ(learning_rate_at({.learning_rate = 0.5}, 1000), 0.5);
  const Optimizer warm{.learning_rate = 0.5, .rate = {.warmup_iters = 2}};
  EXPECT_EQ(learning_rate_at(warm, 1), 0.25);
  EXPECT_EQ(learning_rate_at(warm, 3), 0.5);
}

TEST(Clipping, ScalesDownAndNeverUp) {
  const Optimizer clips{.clip_norm = 3};
  EXPECT_EQ(clip_factor(clips, 2), 1);
  EXPECT_NEAR(clip_factor(clips, 6), 0.5, 1e-6);
  EXPECT_EQ(clip_factor({}, 1e30), 1);
}

Plan with(const Optimizer& optimizer) {
  Plan plan;
  plan.model_path = "m.json";
  plan.optimizer = optimizer;
  return plan;
}

TEST(OptimizerKeys, ReadBackAsWritten) {
  using enum OptimizerKind;
  for (const Optimizer& o : std::vector<Optimizer>{
           {},
           {.kind = adam, .beta1 = 0.8, .epsilon = 1e-6},
           {.kind = sgd, .momentum = 0.9, .nesterov = true, .clip_norm = 1},
           {.kind = rmsprop, .momentum = 0.5, .epsilon = 1e-7, .alpha = 0.9, .weight_decay = 0.1},
           {.rate = {.warmup_iters = 7}},
           decaying(DecayStyle::linear),
           decaying(DecayStyle::cosine)}) {
    const std::string text = to_json(with(o));
    EXPECT_EQ(parse_plan(text, "p.json").optimizer, o) << text;
    EXPECT_EQ(to_json(parse_plan(text, "p.json")), text);
  }
  EXPECT_THAT(to_json(with({})), HasSubstr("\"epsilon\": 1e-08, \"weight_decay\": 0.0}"))
      << "an older file has its bytes";
}

std::string misfit_of(const Optimizer& optimizer) {
  try {
    static_cast<void>(parse_plan(to_json(with(optimizer)), "p.json"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(OptimizerKeys, ThatContradictAreRefused) {
  Optimizer short_decay = decaying(DecayStyle::linear);
  short_decay.rate.decay_iters = 4;
  EXPECT_THAT(
      misfit_of(short_decay),
      HasSubstr("p.json: optimizer.lr_decay_iters: 4: expected more than the 4 of warm-up"));
  Optimizer rising = decaying(DecayStyle::linear);
  rising.rate.min_lr = 9;
  EXPECT_THAT(misfit_of(rising), HasSubstr("optimizer.min_lr: 9: expected at most the learning"));
  EXPECT_THAT(misfit_of({.kind = OptimizerKind::sgd, .nesterov = true}),
              HasSubstr("optimizer.nesterov: expected with sgd or muon and a momentum only"));
  const auto fault = fault_of({.momentum = 0.9});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->key, "momentum");
  EXPECT_EQ(fault->expected, "expected with sgd, rmsprop or muon, not adamw");
}

}  // namespace
}  // namespace weir::optimizer_test
