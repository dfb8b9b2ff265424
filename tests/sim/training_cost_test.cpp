// What training costs: by hand from a step's time, the devices and the tokens.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/training_cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace weir::training_cost_test {
namespace {

// 64 GPUs, a step of 12.5 s, 4,194,304 tokens in it, and nine of ten such steps within 10 to 15 s.
Forecast of_64_gpus() {
  Forecast f;
  f.stack = "typical";
  f.device_kind = DeviceKind::gpu;
  f.devices = 64;
  f.step_time = Seconds(12.5);
  f.tokens_per_s = 4194304 / 12.5;
  f.interval = StepInterval{Seconds(10), Seconds(15), 0.9};
  return f;
}

// A step is 64 x 12.5 / 3600 = 0.222222 GPU-hours. A billion tokens are 1e9 / 4,194,304 = 238.41858
// steps, so 238.41858 x 0.222222 = 52.98191 GPU-hours; with steps of 10 and of 15 s 0.8 and 1.2
// times as much, 42.38553 and 63.57829.
TEST(TrainingCost, ABillionTokensByHand) {
  const Forecast f = of_64_gpus();
  EXPECT_NEAR(cost_of_steps(f, 1).expected.gpu_hours, 0.2222222, 1e-7);
  const TrainingCost cost = cost_of_tokens(f, kBillion).value();
  EXPECT_NEAR(cost.expected.gpu_hours, 52.98191, 1e-5);
  EXPECT_NEAR(cost.low.value().gpu_hours, 42.38553, 1e-5);
  EXPECT_NEAR(cost.high.value().gpu_hours, 63.57829, 1e-5);
  EXPECT_FALSE(cost.expected.price);
  EXPECT_EQ(cost_text(f), "52.98 GPU-hours a billion tokens");
  EXPECT_EQ(training_text(f), "");
  const auto json = training_cost_json(f);
  EXPECT_FALSE(json["billion_tokens"].contains("price"));
  EXPECT_FALSE(json.contains("training"));
  EXPECT_NEAR(json["billion_tokens"]["gpu_hours_interval"][1].get<double>(), 63.57829, 1e-5);
}

// At 2.50 USD a GPU-hour 64 of them are 160 USD an hour. 2e12 tokens are 2000 billions: 105,963.8
// GPU-hours, 264,909.6 USD, and 476,837.2 steps of 12.5 s, 5,960,464 s or 68 days and 23.7 hours.
TEST(TrainingCost, AWholeTrainingInMoney) {
  Forecast f = of_64_gpus();
  f.price_per_hour = Price{160, "USD"};
  f.training_tokens = 2e12;
  const TrainingCost cost = cost_of_training(f).value();
  EXPECT_NEAR(cost.expected.gpu_hours, 105963.8, 0.1);
  EXPECT_NEAR(cost.expected.price.value().amount, 264909.6, 0.1);
  EXPECT_NEAR(cost.low.value().price.value().amount, 0.8 * 264909.6, 0.1);
  EXPECT_NEAR(cost.time.count(), 5960464, 1);
  EXPECT_EQ(cost_text(f), "52.98 GPU-hours (132.45 USD) a billion tokens");
  EXPECT_EQ(training_text(f),
            "2,000,000,000,000 tokens: 106,000 GPU-hours (84,770 to 127,200), 264,900 USD (211,900 "
            "to 317,900), 69 d 0 h");
  const auto json = training_cost_json(f)["training"];
  EXPECT_EQ(json["currency"], "USD");
  EXPECT_NEAR(json["price_interval"][1].get<double>(), 1.2 * 264909.6, 0.2);
  EXPECT_EQ(json["tokens"], 2e12);
}

// With a goodput of 0.8 a quarter more is trained and paid.
TEST(TrainingCost, FailuresArePaidForWhereTheyAreForecast) {
  Forecast f = of_64_gpus();
  f.training_tokens = kBillion;
  f.goodput = GoodputForecast{{}, {}};
  f.goodput->checkpoints.goodput = 0.8;
  EXPECT_NEAR(cost_of_training(f).value().expected.gpu_hours, 52.98191 / 0.8, 1e-4);
  // The billion beside it is of steps alone.
  EXPECT_NEAR(cost_of_tokens(f, kBillion).value().expected.gpu_hours, 52.98191, 1e-5);
}

// A job that fails before any step is done is never at its end.
TEST(TrainingCost, WhatNeverEndsHasNoCost) {
  Forecast f = of_64_gpus();
  f.price_per_hour = Price{160, "USD"};
  f.training_tokens = 1234567;
  for (const double goodput : {0.0, 1e-300, std::nan("")}) {
    f.goodput = GoodputForecast{{}, {}};
    f.goodput->checkpoints.goodput = goodput;
    EXPECT_FALSE(cost_of_training(f));
    EXPECT_TRUE(training_cost_json(f)["training"].is_null());
    EXPECT_EQ(training_text(f), "1,234,567 tokens: never done, failures leave no time to train");
  }
}

// The shorter step is the cheaper one of equal devices, prices and tokens alone.
TEST(TrainingCost, WhereStepsDoNotTellWhichIsCheaper) {
  const Forecast f = of_64_gpus();
  Forecast slower = f;
  slower.step_time = Seconds(13);
  slower.tokens_per_s = 4194304 / 13.0;
  EXPECT_TRUE(costs_go_with_steps(f, slower));
  Forecast of_32 = slower, dear = slower, larger = slower;
  of_32.devices = 32;
  dear.price_per_hour = Price{160, "USD"};
  larger.tokens_per_s = 2 * 4194304 / 13.0;
  for (const Forecast& other : {of_32, dear, larger}) EXPECT_FALSE(costs_go_with_steps(f, other));
}

// Samples that are no sequences have no tokens: a thousand steps are 222.2 GPU-hours. Cores without
// a price are told in JSON alone, durations that were given are of no job.
TEST(TrainingCost, WhatIsNotKnownIsNotTold) {
  Forecast f = of_64_gpus();
  f.tokens_per_s.reset();
  f.interval.reset();
  EXPECT_FALSE(cost_of_tokens(f, kBillion));
  EXPECT_EQ(cost_text(f), "222.2 GPU-hours a thousand steps");
  EXPECT_TRUE(training_cost_json(f)["billion_tokens"].is_null());
  EXPECT_TRUE(training_cost_json(f)["step"]["gpu_hours_interval"].is_null());
  f.device_kind = DeviceKind::core;
  EXPECT_EQ(cost_text(f), "");
  EXPECT_EQ(cost_clause(f), "");
  f.price_per_hour = Price{0.64, "EUR"};
  EXPECT_EQ(cost_text(f), "222.2 core-hours (2.22 EUR) a thousand steps");
  // A file that does not say what its devices are.
  f.device_kind = DeviceKind::other;
  EXPECT_EQ(cost_clause(f), ", 222.2 device-hours (2.22 EUR) a thousand steps");
  f.stack.clear();
  EXPECT_TRUE(training_cost_json(f).is_null());
}

}  // namespace
}  // namespace weir::training_cost_test
