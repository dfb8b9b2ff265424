// What a forecast claims, and what it will not: bases, intervals, blocking transfers, ranks without
// a device.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/layers/layer_key.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

using testing::Contains;
using testing::HasSubstr;

// Layers of 1 ms F, 1 ms I and 1 ms W each, as a user's layers.csv would give them.
ResolvedPlan chain(int k, int m, const char* schedule = "1f1b") {
  Model model;
  model.family = "timed";
  for (int layer = 0; layer < 4; ++layer) {
    model.layers.push_back({"l",
                            TimedShape{.forward = Seconds(1e-3),
                                       .backward_input = Seconds(1e-3),
                                       .backward_weight = Seconds(1e-3)},
                            "x"});
  }
  Plan plan;
  plan.pp = k;
  plan.microbatches = m;
  plan.schedule = schedule;
  for (int s = 1; s < k; ++s) plan.boundaries.push_back(s * 4 / k);
  return derive(plan, model, std::get<Schedule>(make_schedule(schedule, {k, 1, m})));
}

Costs calibrated() {
  Costs costs;
  costs.basis = Basis::calibrated;
  costs.interval = IntervalModel{0.9, 2.5, 0.02, 20};
  CalibratedRange range;
  for (int k = 1; k <= 2; ++k) range = widened(range, chain(k, 4 * k).plan);
  costs.range = range;
  return costs;
}

Cluster two_cores() {
  Cluster cluster;
  cluster.devices_per_node = 2;
  return cluster;
}

// Two stages of 2 ms F and 4 ms B: (4 + 1) * 6 = 30 ms, and e^(+-0.05) of it, 2.5 times the model's
// spread of 0.02.
TEST(Forecast, AnIntervalInsideWhatWasRun) {
  const Forecast f = forecast(chain(2, 4), calibrated(), two_cores()).forecast;
  EXPECT_DOUBLE_EQ(f.step_time.count(), 0.030);
  ASSERT_TRUE(f.interval);
  EXPECT_NEAR(f.interval->low.count(), 0.030 * std::exp(-0.05), 1e-12);
  EXPECT_NEAR(f.interval->high.count(), 0.030 * std::exp(0.05), 1e-12);
  EXPECT_EQ(f.peak_in_flight, (std::vector<std::int32_t>{2, 1}));
}

// One stage, one micro-batch: F of 4 ms and B of 8 ms. F takes between 1 and 3 times as long, so
// steps lie evenly between 12 and 20 ms. Nine tenths of the medians of five lie between 12 + 8 *
// 0.1893 = 13.51 and 18.49 ms: a jitter of log(18.49 / 13.51) / 2 = 0.157, and the interval is 2.5
// sqrt(0.02^2 + 0.157^2) = 0.395 to either side.
TEST(Forecast, JitterWidensTheInterval) {
  Costs costs = calibrated();
  costs.jitter.f = {1, 3};
  const ResolvedPlan one = chain(1, 1);
  costs.range = widened(*costs.range, one.plan);
  const Forecast g = forecast(one, costs, two_cores()).forecast;
  EXPECT_NEAR(g.jitter_spread, std::log(18.49 / 13.51) / 2, 0.03);
  ASSERT_TRUE(g.interval);
  EXPECT_NEAR(std::log(g.interval->high / g.step_time), 2.5 * std::hypot(0.02, g.jitter_spread),
              1e-12);
  EXPECT_NEAR(std::log(g.step_time / g.interval->low), 2.5 * std::hypot(0.02, g.jitter_spread),
              1e-12);
}

TEST(Forecast, NoneOutsideAndItSaysWhatToRun) {
  const Forecast many = forecast(chain(2, 16), calibrated(), two_cores()).forecast;
  EXPECT_FALSE(many.interval);
  EXPECT_THAT(many.warnings,
              Contains(HasSubstr("no interval: M = 16 was never run here, only 4 to 8")));
  const Forecast other = forecast(chain(2, 4, "gpipe"), calibrated(), two_cores()).forecast;
  EXPECT_FALSE(other.interval);
  EXPECT_THAT(other.warnings, Contains(HasSubstr("schedule gpipe")));
  Costs builtin = calibrated();
  builtin.basis = Basis::builtin;
  EXPECT_FALSE(forecast(chain(2, 4), builtin, two_cores()).forecast.interval);
}

// Four ranks of a measured machine with two cores share them: all the work, 4 layers * 8
// micro-batches * 3 ms, on two cores is 48 ms at least, where four would take (8 + 3) * 3 = 33.
TEST(Forecast, RanksWithoutADeviceAreOversubscribed) {
  const Forecast f = forecast(chain(4, 8), calibrated(), two_cores()).forecast;
  EXPECT_EQ(f.basis, Basis::oversubscribed);
  EXPECT_FALSE(f.interval);
  EXPECT_GE(f.step_time.count(), 0.048);
  Costs builtin = calibrated();
  builtin.basis = Basis::builtin;
  EXPECT_DOUBLE_EQ(forecast(chain(4, 8), builtin, two_cores()).forecast.step_time.count(), 0.033);
}

// 1F1B crosses by rendezvous and does not in NCCL groups, where a rank waits for both of its
// messages.
TEST(Forecast, BlockingTransfersWaitOrDeadlock) {
  Costs costs = calibrated();
  costs.link = {Seconds(1e-3), BytesPerSecond(1e9)};
  const Seconds buffered = forecast(chain(2, 8), costs, two_cores()).forecast.step_time;
  const Seconds batched =
      forecast(chain(2, 8), costs, two_cores(), {.transfers = TransferMode::batched})
          .forecast.step_time;
  EXPECT_GE(batched, buffered);
  EXPECT_THROW(static_cast<void>(forecast(chain(2, 8), costs, two_cores(),
                                          {.transfers = TransferMode::rendezvous})),
               NoFeasiblePlan);
}

// F = I = W = 2 ms, K = 2, M = 8. 1F1B's first rank starts first and ends last, so that steps
// cannot overlap: 54 ms either way. ZB-H2's ranks are all busy from their first action to their
// last: a step then takes M (F + I + W) = 48 ms.
TEST(Forecast, StepsWithoutABarrierOverlapWhereTheScheduleLetsThem) {
  const auto both = [](const char* schedule) {
    const Forecast f =
        forecast(chain(2, 8, schedule), calibrated(), two_cores(), {.without_barrier = true})
            .forecast;
    return std::pair(f.step_time.count(), f.without_barrier.value().count());
  };
  EXPECT_EQ(both("1f1b"), std::pair(0.054, 0.054));
  EXPECT_EQ(both("zb-h2"), std::pair(0.050, 0.048));
}

// A device that has no bf16 at all: the share of its fp16 rate, where it says one. One layer of
// 1e12 FLOPs a sample forward, three times that in a step of 12 ms: 2.5e14 a second.
TEST(Forecast, SixteenBitsHaveTheirOwnPeak) {
  Model model;
  model.family = "cnn";
  model.layers = {{"l", SizedShape{.forward = Flops(1e12), .output = 1}, "conv"}};
  Plan plan;
  plan.seq_length = 1;
  plan.dtype = Dtype::fp16;
  const ResolvedPlan resolved =
      derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 1})));
  Cluster cluster = two_cores();
  cluster.device.peak_fp32 = FlopsPerSecond(1e13);
  cluster.device.peak_fp16 = FlopsPerSecond(5e14);
  Costs costs;
  LayerCost cost;
  cost.key = layer_key(model.layers[0], 1, Dtype::fp16);
  cost.by_batch[1] = {{Seconds(4e-3), Seconds(4e-3), Seconds(4e-3), Seconds(8e-3)}};
  costs.layers = {cost};
  const Forecast f = forecast(resolved, costs, cluster).forecast;
  EXPECT_DOUBLE_EQ(f.step_time.count(), 0.012);
  ASSERT_TRUE(f.mfu);
  EXPECT_NEAR(*f.mfu, 2.5e14 / 5e14, 1e-12);
  cluster.device.peak_fp16 = FlopsPerSecond(0);  // what it lacks runs in fp32
  EXPECT_NEAR(*forecast(resolved, costs, cluster).forecast.mfu, 25, 1e-9);
}

}  // namespace
}  // namespace weir
