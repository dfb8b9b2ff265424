// AdamW of the CPU against the same steps in double, with moments long enough that a rounded
// 1 - beta would show.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "exec/cpu/kernels.hpp"

namespace weir::cpu {
namespace {

// 1 - 0.9999 taken in fp32 is 1.0001659e-4: every second moment would be 1.7e-4 too large while the
// moments are young. A step of fp32 rounds by 6e-8 at most, so 500 of them stay below 3e-5, and the
// root of the moment, which the weight moves by, below half of that.
TEST(Update, AdamWFollowsDoublePrecision) {
  constexpr int kSteps = 500;
  constexpr std::size_t kCount = 64;
  Optimizer o;
  o.kind = OptimizerKind::adamw;
  o.beta1 = 0.9;
  o.beta2 = 0.9999;
  o.learning_rate = 1e-3;
  o.weight_decay = 0.1;
  std::vector<float> w(kCount, 1.0F), m(kCount, 0.0F), v(kCount, 0.0F), g(kCount);
  std::vector<double> w64(kCount, 1.0), m64(kCount, 0.0), v64(kCount, 0.0);
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(0.1F, 1.0F);  // of one sign: moments grow
  for (int step = 1; step <= kSteps; ++step) {
    for (float& value : g) value = uniform(random);
    const float* gradient = g.data();
    update({step, true, o}, {&gradient, 1}, kCount, w.data(), m.data(), v.data());
    for (std::size_t i = 0; i < kCount; ++i) {
      m64[i] = o.beta1 * m64[i] + (1 - o.beta1) * g[i];
      v64[i] = o.beta2 * v64[i] + (1 - o.beta2) * g[i] * g[i];
      const double first = m64[i] / (1 - std::pow(o.beta1, step));
      const double second = v64[i] / (1 - std::pow(o.beta2, step));
      w64[i] -=
          o.learning_rate * (o.weight_decay * w64[i] + first / (std::sqrt(second) + o.epsilon));
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(m[i] / m64[i], 1, 3e-5);
    EXPECT_NEAR(v[i] / v64[i], 1, 3e-5);
    EXPECT_NEAR((1 - w[i]) / (1 - w64[i]), 1, 3e-5);
  }
}

}  // namespace
}  // namespace weir::cpu
