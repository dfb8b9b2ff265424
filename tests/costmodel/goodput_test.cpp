// Legend: tau useful work between checkpoints, C checkpoint, mu mean time between failures, R
// restart, D downtime.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/goodput.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace weir::goodput_test {
namespace {

const Reliability kExample{Seconds(180), Seconds(5), Seconds(12), Seconds(0)};

// mu = 180, C = 5, R = 12, D = 0, tau = 40: e^(12/180) = 1.068939; e^(45/180) - 1 = e^0.25 - 1 =
// 0.284025; times 180: 1.068939 x 0.284025 x 180 = 54.6489. Goodput 40 / 54.6489 = 0.73195.
TEST(Goodput, ASegmentByHand) {
  EXPECT_NEAR(expected_segment(Seconds(40), kExample).count(), 54.6489, 1e-3);
  EXPECT_NEAR(goodput(Seconds(40), kExample), 0.73195, 1e-5);
  // No failures to speak of: what is left is the checkpoint's share, 40 / 45.
  EXPECT_NEAR(goodput(Seconds(40), {Seconds(1e9), Seconds(5), Seconds(12), Seconds(0)}), 40.0 / 45,
              1e-6);
  EXPECT_EQ(mtbf_of_all(Seconds(3600), 8), Seconds(450));
}

// Young sqrt(2 x 5 x 180) = 42.4264, goodput 0.7315; Daly 42.4264 (1 + sqrt(5/360)/3 + (5/360)/9) -
// 5 = 42.4264 (1 + 0.0392837 + 0.0015432) - 5 = 39.1585, goodput 0.7320; the optimum lies at 39.16,
// goodput 0.7320.
TEST(Goodput, YoungDalyAndTheOptimum) {
  EXPECT_NEAR(young_interval(kExample).count(), 42.4264, 1e-4);
  EXPECT_NEAR(goodput(young_interval(kExample), kExample), 0.7315, 5e-5);
  EXPECT_NEAR(daly_interval(kExample).count(), 39.1585, 1e-4);
  EXPECT_NEAR(goodput(daly_interval(kExample), kExample), 0.7320, 5e-5);
  EXPECT_NEAR(best_interval(kExample).count(), 39.16, 5e-3);
  EXPECT_NEAR(goodput(best_interval(kExample), kExample), 0.7320, 5e-5);
  EXPECT_EQ(daly_interval({Seconds(10), Seconds(20)}), Seconds(10)) << "C = 2 mu";
}

// Against the definition, over five decades of C / mu: no interval near the best one does better.
TEST(Goodput, NothingBeatsTheOptimum) {
  for (const double c : {1e-4, 1e-2, 1.0, 30.0, 100.0, 1000.0}) {
    const Reliability r{Seconds(100), Seconds(c), Seconds(7), Seconds(3)};
    const Seconds best = best_interval(r);
    for (const double factor : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) {
      EXPECT_GE(goodput(best, r) * (1 + 1e-12), goodput(best * factor, r))
          << "C " << c << ", factor " << factor;
    }
  }
  EXPECT_EQ(best_interval({Seconds(100), Seconds(0)}), Seconds(0)) << "free checkpoints";
}

// Brute force over every number of steps: 7 s steps, the optimum of 39.16 s lies between 5 and 6 of
// them.
TEST(Goodput, CheckpointsStandAtStepEnds) {
  for (const double step : {0.5, 7.0, 13.0, 60.0}) {
    const CheckpointPlan plan = best_checkpoints(Seconds(step), kExample);
    std::int64_t most = 1;
    for (std::int64_t k = 2; k < 400; ++k) {
      if (goodput(Seconds(step * k), kExample) > goodput(Seconds(step * most), kExample)) most = k;
    }
    EXPECT_EQ(plan.steps, most) << step;
    EXPECT_DOUBLE_EQ(plan.interval.count(), step * most);
    EXPECT_DOUBLE_EQ(plan.goodput, goodput(plan.interval, kExample));
  }
}

// Time to complete one segment, failure by failure: mean over 40000 seeded runs. Its standard error
// is the sample's deviation over 200; four of them hold but once in 16000 seeds, and the seed is
// fixed.
TEST(Goodput, MonteCarloAgrees) {
  const Reliability cases[] = {kExample,
                               {Seconds(60), Seconds(3), Seconds(10), Seconds(5)},
                               {Seconds(500), Seconds(20), Seconds(0), Seconds(30)}};
  for (const Reliability& r : cases) {
    const double tau = best_interval(r).count();
    std::mt19937_64 random(7);
    // Exponential by inversion, so that every machine draws the same.
    const auto failure = [&] {
      return -r.mtbf.count() * std::log1p(-static_cast<double>(random() >> 11) * 0x1p-53);
    };
    double sum = 0, squares = 0;
    constexpr int kRuns = 40000;
    for (int run = 0; run < kRuns; ++run) {
      double time = 0;
      for (bool restarting = false;;) {
        const double need = restarting ? r.restart.count() : tau + r.checkpoint.count(),
                     next = failure();
        time += std::min(need, next);
        if (next < need) {
          time += r.downtime.count();
          restarting = true;
        } else if (restarting) {
          restarting = false;
        } else {
          break;
        }
      }
      sum += time;
      squares += time * time;
    }
    const double mean = sum / kRuns, error = std::sqrt((squares / kRuns - mean * mean) / kRuns);
    EXPECT_NEAR(mean, expected_segment(Seconds(tau), r).count(), 4 * error);
  }
}

}  // namespace
}  // namespace weir::goodput_test
