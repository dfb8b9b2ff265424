// Factors put into made-up runs, and found again.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/anchor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace weir::anchor_test {
namespace {

using testing::DoubleNear;
using testing::Each;

// A pipeline of 4 stages as built-in costs have it: (M + 3) times 100 ms of compute and `messages`,
// and `step` once.
struct Job {
  int microbatches = 8;
  Seconds messages{0.01};
  Seconds step{0.4};
};

Seconds step_time(const Job& job, const AnchorFactors& by) {
  const int turns = job.microbatches + 3;
  return turns * (Seconds(0.1) * by.compute + job.messages * by.messages) + job.step * by.step;
}

MeasuredStep run(const Job& job, Seconds measured, int family = 0) {
  return {.step_time = measured, .family = family, .forecast = [job](const AnchorFactors& by) {
            const auto gib = static_cast<double>(std::int64_t{1} << 30);
            return MeasuredStep::Prediction{step_time(job, by),
                                            Bytes(std::llround(40 * gib * by.memory))};
          }};
}

// 11 (100 + 10) + 400 = 1.61 s, measured 2.093 s: 1.3 times, whatever of it; 50 of 40 GiB: 1.25.
TEST(Anchor, OneRunPinsOneScale) {
  MeasuredStep only = run({}, Seconds(2.093));
  only.memory = Bytes(std::int64_t{50} << 30);
  const AnchorFit fit = fit_anchor(std::vector{only});
  EXPECT_DOUBLE_EQ(fit.factors.compute, 1.3);
  EXPECT_DOUBLE_EQ(fit.factors.messages, 1.3);
  EXPECT_DOUBLE_EQ(fit.factors.step, 1.3);
  EXPECT_DOUBLE_EQ(fit.factors.memory, 1.25);
  EXPECT_THAT(fit.residuals, Each(DoubleNear(0, 1e-12)));
  ASSERT_TRUE(fit.memory_residuals[0]);
  EXPECT_NEAR(*fit.memory_residuals[0], 0, 1e-9);
}

// b = 1.2 times 110 ms and a = 2 times 400 ms: 11 * 132 + 800 = 2.252 s with M = 8, and 67 * 132 +
// 800 = 9.644 s with M = 64. Expecting both factors to be alike costs less than 1 % of them. With
// M = 512, never run: 515 * 132 + 800 = 68.78 s.
TEST(Anchor, TwoNumbersOfMicroBatchesTellStepFromMicroBatch) {
  const std::vector runs{run({.microbatches = 8}, Seconds(2.252)),
                         run({.microbatches = 64}, Seconds(9.644))};
  const AnchorFit fit = fit_anchor(runs);
  const double per_microbatch = (0.1 * fit.factors.compute + 0.01 * fit.factors.messages) / 0.11;
  EXPECT_NEAR(per_microbatch, 1.2, 0.012);
  EXPECT_NEAR(fit.factors.step, 2, 0.04);
  EXPECT_THAT(fit.residuals, Each(DoubleNear(0, 0.005)));
  EXPECT_NEAR(step_time({.microbatches = 512}, fit.factors).count(), 68.78, 0.5);
}

// Where a step's own part is a thousandth of it, a difference of 2 % between two runs is no reason
// to think it 20 times as long: both factors stay with the common scale.
TEST(Anchor, WhatCannotBeToldApartStaysTogether) {
  const Job few{.microbatches = 8, .step = Seconds(1e-3)};
  const Job many{.microbatches = 9, .step = Seconds(1e-3)};
  const std::vector runs{run(few, step_time(few, {}) * 1.32), run(many, step_time(many, {}) * 1.3)};
  const AnchorFit fit = fit_anchor(runs);
  EXPECT_NEAR(fit.factors.compute, 1.31, 0.01);
  EXPECT_NEAR(fit.factors.messages, 1.31, 0.05);
  EXPECT_NEAR(fit.factors.step, 1.31, 0.1);
}

// Messages of a tenth to half of the compute in jobs of several kinds: three factors, found to 5 %
// though each is drawn to the common scale.
TEST(Anchor, SeveralRunsTellThreeFactors) {
  const AnchorFactors truth{.compute = 1.1, .messages = 2, .step = 1.6};
  std::vector<MeasuredStep> runs;
  int family = 0;
  for (const double messages : {0.01, 0.05, 0.2}) {
    for (const int m : {4, 64}) {
      const Job job{.microbatches = m, .messages = Seconds(messages)};
      runs.push_back(run(job, step_time(job, truth), family));
    }
    ++family;
  }
  const AnchorFit fit = fit_anchor(runs);
  EXPECT_NEAR(fit.factors.compute, truth.compute, 0.05 * truth.compute);
  EXPECT_NEAR(fit.factors.messages, truth.messages, 0.05 * truth.messages);
  EXPECT_NEAR(fit.factors.step, truth.step, 0.05 * truth.step);
}

// Six plans take 1.2 times what is built in, a seventh 2.4 times, having run beside another job: it
// moves no factor by 1 %, and its residual says what it is: log 2.
TEST(Anchor, OneRunOutOfLineIsLeftThere) {
  std::vector<MeasuredStep> runs;
  for (int i = 0; i < 7; ++i) {
    const Job job{.microbatches = 8 << (i % 3), .messages = Seconds(0.01 * (1 + i))};
    runs.push_back(run(job, step_time(job, {}) * (i == 3 ? 2.4 : 1.2), i));
  }
  const AnchorFit fit = fit_anchor(runs);
  EXPECT_NEAR(fit.factors.compute, 1.2, 0.012);
  EXPECT_NEAR(fit.residuals[3], std::log(2), 0.02);
  EXPECT_NEAR(fit.residuals[0], 0, 0.01);
}

// The same plan at 2 s and at 3 s: no factor can be right, and both miss by more than repeats do.
TEST(Anchor, ContradictingFiguresShow) {
  const std::vector runs{run({}, Seconds(2)), run({}, Seconds(3))};
  const AnchorFit fit = fit_anchor(runs);
  EXPECT_NEAR(std::abs(fit.residuals[0]), std::log(1.5) / 2, 0.05);
  EXPECT_NEAR(std::abs(fit.residuals[1]), std::log(1.5) / 2, 0.05);
  EXPECT_GT(std::abs(fit.residuals[0]), kContradiction);
}

// Three plans that are right as built in, a fourth off: the median of the logs is 0, and so all
// factors stay 1.
TEST(Anchor, NeverWorseInTheMedianThanBuiltIn) {
  std::vector<MeasuredStep> runs;
  for (int i = 0; i < 4; ++i) {
    const Job job{.messages = Seconds(0.01 * (1 + i))};
    runs.push_back(run(job, step_time(job, {}) * (i == 3 ? 3 : 1), i));
  }
  const AnchorFit fit = fit_anchor(runs);
  EXPECT_NEAR(fit.factors.compute, 1, 1e-3);
  EXPECT_NEAR(fit.residuals[0], 0, 1e-3);
}

}  // namespace
}  // namespace weir::anchor_test
