// What not knowing a plan's software, or all of its job, does to its verdict.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/unnamed_software.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <variant>

#include "plan/job/derive.hpp"
#include "plan/model/decoder.hpp"
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

// Forecast at 10 s, and from 10 to 10 e^0.12 s by software that is known: a scale of 0.16 below and
// of 0.2 above (3, 4, 5). Runs lay within one and a half of them.
TEST(UnnamedSoftware, TheIntervalReachesAsFarAsItsOwnSideMayGo) {
  Forecast forecast;
  forecast.step_time = Seconds(10);
  const StepRange range{Seconds(10), Seconds(10 * std::exp(0.12))};
  set_interval(forecast, range, BuiltinInterval{.nominal = 0.85, .half_width = 1.5, .rows = 9});
  ASSERT_TRUE(forecast.interval);
  EXPECT_NEAR(forecast.interval->low.count(), 10 * std::exp(-0.24), 1e-12);
  EXPECT_NEAR(forecast.interval->high.count(), 10 * std::exp(0.3), 1e-12);
  EXPECT_EQ(forecast.interval->nominal, 0.85);
  EXPECT_EQ(forecast.interval_source->rows, 9);
  // What the job says may put the forecast beside the range: no side is less than none.
  forecast.step_time = Seconds(12);
  set_interval(forecast, range, BuiltinInterval{.nominal = 0.85, .half_width = 1});
  EXPECT_NEAR(forecast.interval->high.count(), 12 * std::exp(0.16), 1e-12);
}

// Two stacks, of which one takes a tenth of a second more for a step. Plans of two ways to split
// layers, one asked for again: each step as by itself, whoever asked before, and by the event
// engine, where no program is given, as by the compiled one.
TEST(UnnamedSoftware, ManyPlansAreTimedAsEachByItself) {
  Decoder d;
  d.embedding = {.vocabulary = 5000, .hidden = 512};
  d.block = {.hidden = 512, .heads = 8, .kv_heads = 8, .head_dim = 64, .ffn = 2048};
  d.blocks = 6;
  d.norm = {512, NormKind::layer_norm, 1e-5};
  d.head = {.vocabulary = 5000, .hidden = 512};
  Model model = decoder_model(d);
  model.seq_length = 512;
  const Cluster cluster = load_cluster(std::filesystem::path(WEIR_SOURCE_DIR) /
                                       "tools/examples/clusters/dgx-a100.json");
  Stack quick = cluster.stack, slow = cluster.stack;
  slow.time.step = cluster.stack.time.step + Seconds(0.1);
  const std::vector<Stack> stacks{quick, slow};
  SoftwareSteps steps(model, cluster, stacks);
  std::set<std::int64_t> times;
  for (const int tp : {1, 2, 1}) {
    for (const int m : {4, 8}) {
      Plan plan;
      plan.dtype = Dtype::bf16;
      plan.seq_length = 512;
      plan.pp = 2;
      plan.tp = tp;
      plan.microbatches = m;
      plan.schedule = "1f1b";
      plan.boundaries = {4};
      const ResolvedPlan resolved =
          derive(plan, model, std::get<Schedule>(make_schedule("1f1b", {2, 1, m})));
      const auto program = compile(resolved.program);
      const auto alone = step_range(resolved, cluster, stacks);
      ASSERT_TRUE(alone);
      EXPECT_NEAR((alone->slowest - alone->fastest).count(), 0.1, 1e-6);
      for (const auto* compiled :
           {std::get_if<CompiledProgram>(&program), static_cast<const CompiledProgram*>(nullptr)}) {
        const auto among = steps.of(resolved, compiled);
        ASSERT_TRUE(among);
        EXPECT_EQ(among->fastest, alone->fastest);
        EXPECT_EQ(among->slowest, alone->slowest);
      }
      times.insert(to_nanoseconds(alone->fastest).count());
    }
  }
  EXPECT_EQ(times.size(), 4U);
}

}  // namespace
}  // namespace weir::unnamed_software_test
