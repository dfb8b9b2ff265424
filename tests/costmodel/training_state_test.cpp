// Bytes a parameter by optimizer and format, and the table that the ZeRO paper opens with.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/training_state.hpp"

#include <gtest/gtest.h>

namespace weir::training_state_test {
namespace {

std::int64_t bytes_a_parameter(const Optimizer& optimizer, Dtype dtype) {
  const StateBytes bytes = state_bytes(optimizer, dtype);
  return bytes.weights + bytes.gradients + bytes.optimizer;
}

// Weight, gradient, two moments; mixed: 2, an fp32 gradient, master and moments.
TEST(TrainingState, BytesAParameter) {
  const Optimizer sgd{.kind = OptimizerKind::sgd},
      momentum{.kind = OptimizerKind::sgd, .momentum = 0.9};
  EXPECT_EQ(bytes_a_parameter({}, Dtype::fp32), 4 + 4 + 8);
  EXPECT_EQ(bytes_a_parameter({}, Dtype::tf32), 4 + 4 + 8);
  EXPECT_EQ(bytes_a_parameter({}, Dtype::bf16), 2 + 4 + 12);
  EXPECT_EQ(bytes_a_parameter(sgd, Dtype::fp32), 4 + 4);
  EXPECT_EQ(bytes_a_parameter(momentum, Dtype::fp16), 2 + 4 + 8);
  Optimizer rmsprop{.kind = OptimizerKind::rmsprop};
  EXPECT_EQ(bytes_a_parameter(rmsprop, Dtype::fp32), 4 + 4 + 4);
  rmsprop.momentum = 0.9;
  EXPECT_EQ(bytes_a_parameter(rmsprop, Dtype::bf16), 2 + 4 + 12);
  EXPECT_EQ(bytes_a_parameter({.kind = OptimizerKind::adam}, Dtype::fp32), 4 + 4 + 8);
}

// Figure 1: 7.5B parameters, 64 replicas, 2 + 2 + 12 bytes: 120, 31.4, 16.6 and 1.9 GB.
TEST(TrainingState, TheFirstFigureOfZero) {
  const auto gb = [](int zero) {
    return static_cast<double>(zero_share(7'500'000'000, {2, 2, 12}, zero, 64).total().count()) /
           1e9;
  };
  EXPECT_DOUBLE_EQ(gb(0), 120);
  EXPECT_NEAR(gb(1), 31.4, 0.05);
  EXPECT_NEAR(gb(2), 16.6, 0.05);
  EXPECT_NEAR(gb(3), 1.9, 0.05);
}

}  // namespace
}  // namespace weir::training_state_test
