// Gradients of cells against differences in double precision: of single operations number by
// number, of AmoebaNet's cells along random directions.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "exec/cpu/cpu_backend.hpp"
#include "plan/model/cnn/cell_builder.hpp"
#include "plan/model/cnn/network.hpp"
#include "tests/exec/cell_stage.hpp"

namespace weir::cell_gradients_test {
namespace {

// A device pins the thread that prepares it; here that is the test's own.
class KeepOwnCores {
 public:
  KeepOwnCores() { sched_getaffinity(0, sizeof(set_), &set_); }
  KeepOwnCores(const KeepOwnCores&) = delete;
  KeepOwnCores& operator=(const KeepOwnCores&) = delete;
  ~KeepOwnCores() { sched_setaffinity(0, sizeof(set_), &set_); }

 private:
  cpu_set_t set_{};
};

// Each layer of stem, cell, mean and classifier on 4 samples as a stage of its own, I and W apart
// and twice, against differences of L = sum(output * r) (the classifier's: its loss).
TEST(CellGradients, OfCellsInputsAndWeights) {
  const KeepOwnCores cores;
  constexpr double kStep = 1e-5;
  // fp32 sums of some hundred products through at most five operations, as
  // tests/exec/cpu/gradients_test has it; of a bias before a norm, which moves nothing, what is
  // left is rounding of terms near 1.
  constexpr double kTolerance = 2e-4;
  Model model;
  cnn::CellBuilder stem({3, 4, 4}, true);
  stem.convolution("conv", 0, {.count = 4}, cnn::square(3));
  cnn::CellBuilder mean({6, 4, 4});
  mean.global_pool("mean", 0);
  model.name = "cells";
  model.family = "cnn";
  model.layers = {
      {"stem", stem.take(), "stem"},
      {"cell", every_operation({4, 4, 4}), "cell"},
      {"mean", mean.take(), "pool"},
      {"fc", HeadShape{.vocabulary = 5, .hidden = 6, .bias = true, .pooled = true}, ""}};
  const CellModel whole(model, 4, 5);
  ASSERT_EQ(whole.words, 3 * 16 + 1);
  std::mt19937 random(6);
  for (int index = 0; index < 4; ++index) {
    CellStage stage(whole, index, random, make_cpu_backend({}));
    const double loss = stage.run_twice();
    if (stage.is_head()) {
      EXPECT_NEAR(loss, stage.objective(), 1e-5);
    }
    for (auto& [name, at, gradient] : stage.operands()) {
      double largest = 0;
      reference::Matrix slopes;
      for (double& value : *at) {
        const double before = value;
        value = before + kStep;
        const double up = stage.objective();
        value = before - kStep;
        slopes.push_back((up - stage.objective()) / (2 * kStep));
        value = before;
        largest = std::max(largest, std::abs(slopes.back()));
      }
      ASSERT_EQ(slopes.size(), gradient.size()) << name;
      for (std::size_t i = 0; i < gradient.size(); ++i)
        ASSERT_NEAR(slopes[i], gradient[i], kTolerance * std::max(largest, 0.1)) << name << i;
    }
  }
}

// AmoebaNet-D(3, 8) on 32 x 32 images, its stem, both kinds of cell, and one behind a reduction,
// whose farther input is halved; 8 samples.
TEST(CellGradients, OfAmoebaNetsCells) {
  const KeepOwnCores cores;
  // fp32 through eight norms and their convolutions, one behind the other.
  constexpr double kTolerance = 1e-3;
  Model model = cnn::amoebanet_d_blocks(3, 8, {3, 32}, 5);
  model.name = "amoebanet";
  model.family = "cnn";
  const CellModel whole(model, 8, 5);
  std::mt19937 random(7);
  std::bernoulli_distribution heads;
  for (int index = 0; index < 6; ++index) {
    CellStage stage(whole, index, random, make_cpu_backend({}));
    stage.run_twice();
    const reference::Matrix got = stage.output(), expected = stage.expected_output();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], kTolerance) << index << " " << i;
    for (auto& [name, at, gradient] : stage.operands()) {
      double norm = 0;
      for (const double value : gradient) norm += value * value;
      for (int trial = 0; trial < 3; ++trial) {
        reference::Matrix direction(gradient.size());
        std::ranges::generate(direction, [&] { return heads(random) ? 1.0 : -1.0; });
        double sum = 0;
        for (std::size_t i = 0; i < gradient.size(); ++i) sum += gradient[i] * direction[i];
        EXPECT_NEAR(slope_along(stage, *at, direction), sum, kTolerance * std::sqrt(norm)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace weir::cell_gradients_test
