// What not knowing a plan's software, or all of its job, does to its verdict.
// SPDX-License-Identifier: Apache-2.0
#include "sim/unnamed_software.hpp"

#include <gtest/gtest.h>

#include "plan/schedule/generators/generators.hpp"

namespace weir::unnamed_software_test {
namespace {

// 1024 parameters in bf16, of which the leanest software holds 2 + 2 + 4 bytes each, 8192 in all. A
// peak of 20,000 bytes does not fit 10,000, unless the job rebuilds or offloads what no plan has a
// word for: then it may. In 8,000 not even the state fits.
TEST(UnnamedSoftware, WhatIsRebuiltOrOffloadedMayFitWhereTheStateDoes) {
  Plan plan;
  plan.dtype = Dtype::bf16;
  Model model;
  model.layers = {{"weights", TimedShape{.parameters = 1024}, ""}};
  const ResolvedPlan resolved =
      derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {1, 1, 1})));
  Cluster cluster;
  cluster.device.allocator = Allocator::arena;
  cluster.stack.own_tensors = false;
  Forecast forecast;
  forecast.memory = {{.peak = Bytes(20'000), .upper = Bytes(21'000)}};
  forecast.memory_limit = Bytes(10'000);
  EXPECT_EQ(forecast.fits(), Fits::no);
  bound_by_state(forecast, resolved, cluster);
  EXPECT_EQ(forecast.leanest, std::vector{Bytes(8192)});
  EXPECT_EQ(forecast.fits(), Fits::maybe);
  forecast.memory_limit = Bytes(8'000);
  EXPECT_EQ(forecast.fits(), Fits::no);
}

}  // namespace
}  // namespace weir::unnamed_software_test
