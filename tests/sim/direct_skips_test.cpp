// Skips that go directly, forecast: by hand beside a relay, in bounds, memory and fits, and where
// they are refused.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/direct_skips.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "costmodel/layers/layer_key.hpp"
#include "costmodel/links/transfer_fit.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/model/cnn/network.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/engine/compiled_program.hpp"
#include "sim/explain/changes.hpp"
#include "sim/explain/what_if.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/search/sweep.hpp"

namespace weir::direct_skips_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

// The U-Net of tests/plan/direct_skips_test, a level a stage and the classes with the last. Each
// layer takes F 8, B 16 and an update of 2 us; links carry 1 byte a ns without latency.
struct Case {
  ResolvedPlan loaded;
  Costs costs;
  Cluster cluster;

  explicit Case(SkipTransport skips, int microbatches = 1) {
    const Model model =
        cnn::unet_blocks({.depth = 2, .convolutions = 1, .channels = 4, .outputs = 3}, {3, 16});
    Plan plan;
    plan.pp = 5;
    plan.microbatches = microbatches;
    plan.boundaries = {1, 2, 3, 4};
    plan.schedule = "gpipe";
    plan.skips = skips;
    loaded = derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {5, 1, microbatches})));
    for (const Layer& layer : model.layers) {
      LayerCost cost;
      cost.key = layer_key(layer, 0, plan.dtype);
      cost.by_batch[1] = {{Seconds(8e-6), Seconds(12e-6), Seconds(4e-6), Seconds(16e-6)}};
      cost.optimizer = Seconds(2e-6);
      costs.layers.push_back(cost);
    }
    costs.basis = Basis::calibrated;
    costs.link = {Seconds(0), BytesPerSecond(1e9)};
    cluster.devices_per_node = 8;
  }
  [[nodiscard]] ForecastResult result() const { return forecast(loaded, costs, cluster); }
};

const Span& span_of(const Trace& trace, const char* name) {
  return *std::ranges::find_if(trace.spans,
                               [&](const Span& s) { return to_string(s.action) == name; });
}

// One micro-batch passes 6 F and 6 B one after the other, 48 + 96 us, and an update. Relayed, each
// way's messages take 5120 + 6656 + 6656 + 5120 ns on that path; directly 1024 + 512 + 512 + 1024,
// and the skips, 4096 and 2048 ns, run beside it.
TEST(ForecastDirectSkips, LeaveTheLongPath) {
  const Forecast relay = Case(SkipTransport::relay).result().forecast;
  const auto [direct, trace] = Case(SkipTransport::direct).result();
  EXPECT_DOUBLE_EQ(relay.step_time.count(), 193.104e-6);
  EXPECT_DOUBLE_EQ(direct.step_time.count(), 152.144e-6);
  EXPECT_LE(direct.lower_bound, direct.step_time);
  EXPECT_THAT(direct.warnings, Contains(HasSubstr("skips: direct")));
  const Span &there = span_of(trace, "4RECV_F0:0"), &back = span_of(trace, "0RECV_B0:4");
  EXPECT_EQ(there.start, Nanoseconds(8000));
  EXPECT_EQ(there.end, Nanoseconds(8000 + 4096));
  EXPECT_EQ(back.duration(), Nanoseconds(4096));
  EXPECT_EQ(span_of(trace, "1SEND_F0:3").duration(), Nanoseconds(2048));
  // Stage 4 rests until the neighbour's message: the skip has long come.
  const IdleTime& idle = direct.metrics.ranks[4].idle;
  EXPECT_EQ(idle.communication, Nanoseconds(1024));
}

// A stack whose sends keep the sender: stage 0's F is longer by both of its messages, 1024 and
// 4096 ns, and stage 4's B by the gradients of both; nothing is left to the lanes.
TEST(ForecastDirectSkips, KeepASenderThatWaits) {
  Case direct(SkipTransport::direct);
  direct.cluster.stack.time.blocking_messages = true;
  const CostTable table = cost_table(direct.loaded, direct.costs, direct.cluster).table;
  EXPECT_EQ(table.stages[0].f, Nanoseconds(8000 + 1024 + 4096));
  EXPECT_EQ(table.stages[4].b, Nanoseconds(32000 + 1024 + 4096));
  EXPECT_EQ(table.stages[2].f, Nanoseconds(8000 + 512));
  for (const SkipCost& skip : table.skips)
    EXPECT_EQ(skip.forward.occupancy + skip.backward.occupancy, Nanoseconds(0));
}

// Steps without a barrier hand skips' slots on too; transfers that block have no order for them.
TEST(ForecastDirectSkips, RepeatAndAreNotBlocked) {
  const Case direct(SkipTransport::direct, 4);
  const Forecast f =
      forecast(direct.loaded, direct.costs, direct.cluster, {.without_barrier = true}).forecast;
  ASSERT_TRUE(f.without_barrier);
  EXPECT_LE(*f.without_barrier, f.step_time);
  EXPECT_THROW(static_cast<void>(forecast(direct.loaded, direct.costs, direct.cluster,
                                          {.transfers = TransferMode::batched})),
               InputError);
}

// The bottleneck's stage neither holds nor sends the skips, so its peak is at least s1 and s0 lower
// in what F takes, and in what it hands on.
TEST(ForecastDirectSkips, FreeTheStagesBetween) {
  const Forecast relay = Case(SkipTransport::relay).result().forecast;
  const Forecast direct = Case(SkipTransport::direct).result().forecast;
  EXPECT_LE(direct.memory[2].peak + Bytes(2 * 4 * (512 + 1024)), relay.memory[2].peak);
}

// The link is fitted to messages of their own sizes: 1 byte a ns, found again.
TEST(ForecastDirectSkips, AreFittedByTheirSizes) {
  const Case direct(SkipTransport::direct, 3);
  const TransferFit fit = fit_transfers(direct.loaded, direct.result().trace, Link{});
  EXPECT_EQ(fit.sizes, 4);             // 512, 1024, 2048 and 4096 bytes
  EXPECT_EQ(fit.messages, 3 * 2 * 6);  // of four boundaries and two skips
  EXPECT_NEAR(fit.link.bandwidth.count(), 1e9, 1e3);
}

// Costs of a compiled program are of a stage and a kind: it says so, and the event engine runs it.
TEST(ForecastDirectSkips, AreNotCompiled) {
  const auto compiled = compile(Case(SkipTransport::direct).loaded.program);
  ASSERT_TRUE(std::holds_alternative<NotCompiled>(compiled));
  EXPECT_EQ(std::get<NotCompiled>(compiled).reason, "its skips go directly");
}

// A relay's plan may become a direct one, and the other way; v = 2 may not.
TEST(ForecastDirectSkips, AreAChangeThatIsTried) {
  const Case relay(SkipTransport::relay, 2), direct(SkipTransport::direct, 2);
  const auto tried = [](const Case& base) {
    return what_if(base.loaded, changes(base.loaded, base.costs, base.cluster), base.costs,
                   base.cluster, base.result().forecast);
  };
  const auto of = [](const std::vector<WhatIf>& rows, const char* choice) {
    return *std::ranges::find_if(rows,
                                 [&](const WhatIf& row) { return row.change.choice == choice; });
  };
  const WhatIf to_direct = of(tried(relay), "skips");
  EXPECT_EQ(to_direct.change.to, "direct");
  ASSERT_TRUE(to_direct.forecast);
  EXPECT_EQ(to_direct.forecast->step_time, direct.result().forecast.step_time);
  EXPECT_GT(to_direct.gain, 0);
  const std::vector<WhatIf> back = tried(direct);
  EXPECT_EQ(of(back, "skips").change.to, "relay");
  EXPECT_LT(of(back, "skips").gain, 0);
}

TEST(ForecastDirectSkips, AreRefusedInASearch) {
  const Case direct(SkipTransport::direct);
  SweepRequest request;
  request.base = direct.loaded.plan;
  try {
    static_cast<void>(sweep(request, direct.costs, direct.cluster));
    FAIL();
  } catch (const InputError& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("plan: skips: direct: a search is of plans whose skips"));
  }
}

}  // namespace
}  // namespace weir::direct_skips_test
