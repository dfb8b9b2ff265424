// Every optimizer of the CPU against torch.optim's formulas in double, step by step.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace weir::cpu::update_test {
namespace {

// One element, as PyTorch 2.9 documents its rules: g is the gradient, t the step from 1 on.
struct Element {
  double w = 1, first = 0, second = 0;

  void step(const Optimizer& o, double g, double rate, int t) {
    if (o.kind != OptimizerKind::adamw) g += o.weight_decay * w;
    switch (o.kind) {
      case OptimizerKind::sgd:
        first = o.momentum * first + g;
        w -= rate * (o.nesterov ? g + o.momentum * first : o.momentum > 0 ? first : g);
        break;
      case OptimizerKind::rmsprop: {
        first = o.alpha * first + (1 - o.alpha) * g * g;
        const double step = g / (std::sqrt(first) + o.epsilon);
        second = o.momentum * second + step;
        w -= rate * (o.momentum > 0 ? second : step);
        break;
      }
      case OptimizerKind::adamw:
        w -= rate * o.weight_decay * w;
        [[fallthrough]];
      case OptimizerKind::adam:
        first = o.beta1 * first + (1 - o.beta1) * g;
        second = o.beta2 * second + (1 - o.beta2) * g * g;
        w -= rate * (first / (1 - std::pow(o.beta1, t))) /
             (std::sqrt(second / (1 - std::pow(o.beta2, t))) + o.epsilon);
        break;
      case OptimizerKind::muon:
        break;  // no kernel runs it
    }
  }
};

// 1 - 0.9999 taken in fp32 is 1.0001659e-4: every second moment would be 1.7e-4 too large while the
// moments are young. A step of fp32 rounds by 6e-8 at most, so 500 of them stay below 3e-5, and the
// root of the moment, which the weight moves by, below half of that.
void expect_double_precision(const Optimizer& o, double factor = 1) {
  constexpr int kSteps = 500;
  constexpr std::size_t kCount = 67;  // no whole number of vectors
  SCOPED_TRACE(std::string(to_string(o.kind)) + " " + std::to_string(o.momentum));
  std::vector<float> w(kCount, 1.0F), first(kCount, 0.0F), second(kCount, 0.0F), g(kCount);
  std::vector<Element> exact(kCount);
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(0.1F, 1.0F);  // of one sign: moments grow
  for (int t = 1; t <= kSteps; ++t) {
    for (float& value : g) value = uniform(random);
    const float* gradient = g.data();
    update({.step = t, .decays = true, .factor = factor, .optimizer = o}, {&gradient, 1}, kCount,
           w.data(), state_numbers(o) > 0 ? first.data() : nullptr,
           state_numbers(o) > 1 ? second.data() : nullptr);
    const double rate = learning_rate_at(o, t - 1);
    for (std::size_t i = 0; i < kCount; ++i) exact[i].step(o, factor * g[i], rate, t);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    if (state_numbers(o) > 0) {
      EXPECT_NEAR(first[i] / exact[i].first, 1, 3e-5);
    }
    if (state_numbers(o) > 1) {
      EXPECT_NEAR(second[i] / exact[i].second, 1, 3e-5);
    }
    EXPECT_NEAR((1 - w[i]) / (1 - exact[i].w), 1, 3e-5);
  }
}

TEST(Update, EveryRuleFollowsDoublePrecision) {
  using enum OptimizerKind;
  for (const OptimizerKind kind : {adamw, adam}) {
    expect_double_precision(
        {.kind = kind, .learning_rate = 1e-3, .beta2 = 0.9999, .weight_decay = 0.1});
  }
  expect_double_precision({.kind = rmsprop, .learning_rate = 1e-3, .weight_decay = 0.1});
  expect_double_precision(
      {.kind = rmsprop, .learning_rate = 1e-4, .momentum = 0.9, .alpha = 0.999});
  expect_double_precision({.kind = sgd, .learning_rate = 1e-3, .weight_decay = 0.1});
  expect_double_precision({.kind = sgd, .learning_rate = 1e-4, .momentum = 0.9});
  expect_double_precision(
      {.kind = sgd, .learning_rate = 1e-4, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1});
}

TEST(Update, FollowsTheScheduleAndTheFactor) {
  const RateSchedule rate{
      .warmup_iters = 50, .decay_iters = 400, .style = DecayStyle::cosine, .min_lr = 1e-5};
  expect_double_precision({.learning_rate = 1e-3, .weight_decay = 0.1, .rate = rate}, 0.37);
  expect_double_precision(
      {.kind = OptimizerKind::sgd, .learning_rate = 1e-3, .momentum = 0.9, .rate = rate}, 0.37);
}

// Powers of two are exact in any order: 4099 numbers of 2, and of three copies 1 + 2 - 1.
TEST(Update, SquaresAreOfTheSumOfTheCopies) {
  constexpr std::int64_t kCount = 4099;  // a block and three more
  const std::vector<float> one(kCount, 1.0F), two(kCount, 2.0F), less(kCount, -1.0F);
  const float* copies[] = {one.data(), two.data(), less.data()};
  EXPECT_EQ(sum_of_squares({copies + 1, 1}, kCount), 4.0 * kCount);
  EXPECT_EQ(sum_of_squares({copies, 2}, kCount), 9.0 * kCount);
  EXPECT_EQ(sum_of_squares({copies, 3}, kCount), 4.0 * kCount);
}

// In fp32 a sum of 16 times 2^24 ones in one lane would stop at 2^24.
TEST(Update, SquaresAreSummedInDouble) {
  const std::vector<float> small(1 << 20, 1e-4F);
  const float* copy = small.data();
  const double each = static_cast<double>(1e-4F) * static_cast<double>(1e-4F);
  EXPECT_NEAR(sum_of_squares({&copy, 1}, 1 << 20) / (each * (1 << 20)), 1, 1e-12);
}

}  // namespace
}  // namespace weir::cpu::update_test
