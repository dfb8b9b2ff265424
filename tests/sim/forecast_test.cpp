// What a forecast claims, and what it will not: bases, intervals, blocking transfers, ranks without
// a device.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "costmodel/layers/layer_key.hpp"
#include "costmodel/table/builtin.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/training_cost.hpp"
#include "tools/jobs/torchtitan/words.hpp"

namespace weir::forecast_test {
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

// GPipe on two stages of two layers, with and without an empty one between them: where messages
// take no time it changes nothing, and with a latency it adds two of them, there and back. Its
// memory is what it hands on, 1000 bytes a sample, and nothing of it is left.
TEST(Forecast, AnEmptyStageHandsOn) {
  const auto forecasted = [](std::vector<int> boundaries, double latency) {
    ResolvedPlan resolved = chain(2, 4, "gpipe");
    for (Layer& layer : resolved.model.layers)
      std::get<TimedShape>(layer.shape).boundary = Bytes(1000);
    const int k = static_cast<int>(boundaries.size()) + 1;
    resolved.plan.pp = k;
    resolved.plan.boundaries = std::move(boundaries);
    Costs costs;
    Cluster cluster;
    cluster.devices_per_node = 3;
    cluster.intra = {Seconds(latency), BytesPerSecond(1e30)};
    cluster.stack.empty_stages = true;
    return forecast(derive(resolved.plan, resolved.model,
                           std::get<Schedule>(make_schedule("gpipe", {k, 1, 4}))),
                    costs, cluster);
  };
  const Forecast two = forecasted({2}, 0).forecast;
  const ForecastResult three = forecasted({2, 2}, 0);
  EXPECT_DOUBLE_EQ(two.step_time.count(), 0.030);
  EXPECT_DOUBLE_EQ(three.forecast.step_time.count(), 0.030);
  EXPECT_THAT(three.forecast.warnings, Contains(HasSubstr("1 of 3 stages hold no layer")));
  EXPECT_THAT(two.warnings, Not(Contains(HasSubstr("no layer"))));
  EXPECT_GE(three.forecast.memory[1].peak, Bytes(1024));
  EXPECT_LE(three.forecast.memory[1].peak, Bytes(3 * 1024));
  for (const Counter& counter : three.trace.counters) {
    if (counter.rank == Rank{1}) {
      EXPECT_EQ(counter.samples.back().value, 0) << counter.name;
    }
  }
  EXPECT_NEAR(forecasted({2, 2}, 1e-4).forecast.step_time.count(),
              forecasted({2}, 1e-4).forecast.step_time.count() + 2e-4, 1e-9);
  for (const std::vector<int>& ends : std::vector<std::vector<int>>{{0, 2}, {2, 4}})
    EXPECT_DOUBLE_EQ(forecasted(ends, 0).forecast.step_time.count(), 0.030);
}

// The rank's peak is above half of the memory that it is given: said of a pipeline whose software
// is known to be slow there, and of nothing else.
TEST(Forecast, CrowdedMemoryIsWarnedOf) {
  ResolvedPlan resolved = chain(2, 4, "gpipe");
  for (Layer& layer : resolved.model.layers)
    std::get<TimedShape>(layer.shape).boundary = Bytes(1000);
  resolved =
      derive(resolved.plan, resolved.model, std::get<Schedule>(make_schedule("gpipe", {2, 1, 4})));
  Cluster cluster;
  cluster.devices_per_node = 2;
  cluster.device.memory = Bytes(1);
  const auto warnings = [&] { return forecast(resolved, Costs{}, cluster).forecast.warnings; };
  EXPECT_THAT(warnings(), Not(Contains(HasSubstr("memory is taken"))));
  cluster.stack.memory.crowded = 0.5;
  EXPECT_THAT(warnings(), Contains(HasSubstr("more than 50 % of the memory is taken")));
  cluster.device.memory = Bytes(1'000'000'000);
  EXPECT_THAT(warnings(), Not(Contains(HasSubstr("memory is taken"))));
}

// Layers of 1 ms a pass on one rank: `full` adds their forward to B, 4 x 4 ms in all, and says so
// apart; the last of four micro-batches is spared where it is asked for, 4 ms less. Three layers at
// a time take as long, and so does a stage at once, as an R.
TEST(Forecast, WhatIsRebuiltIsBusyButNotUseful) {
  const auto rank = [](const char* word, bool except_last) {
    ResolvedPlan resolved = chain(1, 4);
    resolved.plan.recompute = parse_recompute_word(word).value();
    resolved.plan.recompute.except_last = except_last;
    const Forecast f =
        forecast(derive(resolved.plan, resolved.model, resolved.schedule), Costs{}, two_cores())
            .forecast;
    EXPECT_EQ(f.metrics.ranks[0].busy, to_nanoseconds(f.step_time));
    return f.metrics.ranks[0];
  };
  using std::chrono::milliseconds;
  for (const char* word : {"full", "full:3", "stage"}) {
    EXPECT_EQ(rank(word, false).rematerialise, milliseconds(16)) << word;
    EXPECT_EQ(rank(word, false).useful, milliseconds(48)) << word;
    EXPECT_EQ(rank(word, true).rematerialise, milliseconds(12)) << word;
    EXPECT_EQ(rank(word, true).busy, milliseconds(60)) << word;
  }
  EXPECT_EQ(rank("0-2", false).rematerialise, milliseconds(12));
  EXPECT_EQ(rank("none", false).rematerialise, milliseconds(0));
}

// Four layers on one rank that each hand on B = 1024 bytes and keep A = 10240, GPipe with three
// micro-batches, whose last outputs wait for their B's. What a layer hands on is given back as soon
// as the next has read it, the kept input of a chunk when its first layer has.
//   none    12 A and 3 outputs; at the first B the gradient of layer 3's input: 12 A + 4 B
//   full    inputs of layers 1 to 3 and an output of each, 12 B; layer 3 is rebuilt: A + B more
//   full:2  of each the input of layer 2 and an output, 6 B; layers 2 and 3 rebuilt: 2 A + 2 B, and
//           layer 2's input is gone: 2 A + 7 B
//   full:3  6 B; when layer 3 is done 5 B are left, then layers 0 to 2: 3 A and the last two
//   outputs full:4  3 B, 4 A and the last two outputs
TEST(Forecast, ChunksKeepOneInputEach) {
  constexpr std::int64_t kA = 10240, kB = 1024;
  const auto peak = [](const char* word) {
    ResolvedPlan resolved = chain(1, 3, "gpipe");
    for (Layer& layer : resolved.model.layers) {
      std::get<TimedShape>(layer.shape).boundary = Bytes(kB);
      std::get<TimedShape>(layer.shape).activation = Bytes(kA);
    }
    resolved.plan.recompute = parse_recompute_word(word).value();
    return forecast(derive(resolved.plan, resolved.model, resolved.schedule), Costs{}, two_cores())
        .forecast.memory[0]
        .peak.count();
  };
  EXPECT_EQ(peak("none"), 12 * kA + 4 * kB);
  EXPECT_EQ(peak("full"), kA + 13 * kB);
  EXPECT_EQ(peak("full:2"), 2 * kA + 7 * kB);
  EXPECT_EQ(peak("full:3"), 3 * kA + 7 * kB);
  EXPECT_EQ(peak("full:4"), 4 * kA + 5 * kB);
}

// Four ranks of a measured machine with two cores share them: all the work, 4 layers * 8
// micro-batches * 3 ms, on two cores is 48 ms at least, where four would take (8 + 3) * 3 = 33.
TEST(Forecast, RanksWithoutADeviceAreOversubscribed) {
  Cluster cluster = two_cores();
  cluster.price_per_gpu_hour = Price{1.5, "USD"};
  const Forecast f = forecast(chain(4, 8), calibrated(), cluster).forecast;
  EXPECT_EQ(f.basis, Basis::oversubscribed);
  EXPECT_FALSE(f.interval);
  EXPECT_GE(f.step_time.count(), 0.048);
  // Two cores are paid for, not four.
  EXPECT_EQ(f.devices, 4);
  EXPECT_EQ(f.shared_devices, 2);
  EXPECT_EQ(f.price_per_hour, (Price{3, "USD"}));
  EXPECT_DOUBLE_EQ(cost_of_steps(f, 1).expected.gpu_hours, 2 * f.step_time.count() / 3600);
  Costs builtin = calibrated();
  builtin.basis = Basis::builtin;
  const Forecast apart = forecast(chain(4, 8), builtin, cluster).forecast;
  EXPECT_DOUBLE_EQ(apart.step_time.count(), 0.033);
  EXPECT_FALSE(apart.shared_devices);
  EXPECT_EQ(apart.price_per_hour, (Price{6, "USD"}));
}

// Replicas need devices too. Two ranks of two replicas on two cores: each replica's ranks share
// one, 2 ranks * 4 micro-batches * 6 ms, where four devices would take (4 + 1) * 6 = 30. One rank
// of three replicas on two: 4 * 12 ms, at two thirds of the speed. Two ranks of two on three: as on
// two, half as fast again as long as both compute, so no faster than their work on three, 32 ms.
TEST(Forecast, ReplicasWithoutADeviceShareThem) {
  const auto of = [](int k, int dp, int cores) {
    ResolvedPlan resolved = chain(k, 4);
    resolved.plan.dp = dp;
    Cluster cluster = two_cores();
    cluster.devices_per_node = cores;
    return forecast(derive(resolved.plan, resolved.model, resolved.schedule), calibrated(), cluster)
        .forecast;
  };
  const Forecast two = of(2, 2, 2);
  EXPECT_EQ(two.basis, Basis::oversubscribed);
  EXPECT_NEAR(two.step_time.count(), 0.048, 1e-6);
  EXPECT_EQ(two.devices, 4);
  EXPECT_EQ(two.shared_devices, 2);
  EXPECT_DOUBLE_EQ(cost_of_steps(two, 1).expected.gpu_hours, 2 * two.step_time.count() / 3600);
  EXPECT_NEAR(of(1, 3, 2).step_time.count(), 0.072, 1e-6);
  const double three = of(2, 2, 3).step_time.count();
  EXPECT_GE(three, 0.032);
  EXPECT_LT(three, 0.048);
  EXPECT_NEAR(of(2, 2, 4).step_time.count(), 0.030, 1e-6);
  EXPECT_FALSE(of(2, 2, 4).shared_devices);
}

// A file may leave multiprocessors out, costs that were measured on a GPU know it all the same.
TEST(Forecast, WhatItsDevicesAreAsFarAsIsKnown) {
  const auto kind = [](const Costs& costs, const Cluster& cluster) {
    return forecast(chain(2, 4), costs, cluster).forecast.device_kind;
  };
  Cluster cluster = two_cores();
  cluster.device.name = "TPU-v3";
  EXPECT_EQ(kind(calibrated(), cluster), DeviceKind::other);
  cluster.device.name = kCpuCore;
  EXPECT_EQ(kind(calibrated(), cluster), DeviceKind::core);
  Costs of_gpu = calibrated();
  of_gpu.backend = "cuda";
  EXPECT_EQ(kind(of_gpu, cluster), DeviceKind::gpu);
  cluster.device.multiprocessors = 132;
  EXPECT_EQ(kind(calibrated(), cluster), DeviceKind::gpu);
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

// A pre-training job of Llama 3 in bf16, its blocks dealt to stages, on DGX H100s of 80 GB cards.
void expect_fits(const char* size, Plan plan, const std::vector<int>& blocks) {
  plan.seq_length = 8192;
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.sequence_parallel = true;
  plan.schedule = "interleaved-1f1b";
  plan.boundaries = boundaries_of_blocks(blocks);
  Model model = decoder_model(torchtitan_llama3(size).value(), plan.seq_length);
  set_attention(model, plan.attention);
  Cluster cluster = load_cluster(std::filesystem::path(WEIR_SOURCE_DIR) /
                                 "tools/examples/clusters/dgx-h100.json");
  cluster.nodes = plan.devices() / cluster.devices_per_node;
  auto schedule = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches});
  const ResolvedPlan resolved = derive(plan, model, std::get<Schedule>(std::move(schedule)));
  const Costs costs = builtin_costs(model, plan.seq_length, plan.dtype, cluster, {plan.split()});
  const Bytes peak = forecast(resolved, costs, cluster).forecast.peak_memory();
  EXPECT_LE(peak, cluster.device.memory) << size << ": " << format_bytes(peak);
}

// NVIDIA's own layouts of 70B on 64 H100s, 128 samples a step (NVIDIA/NeMo@000e8c17a36b,
// scripts/performance/recommended_model_configs/model_configs_h100.csv: fp8 and bf16), and Meta's
// of 405B on 16,384 (Grattafiori et al. 2024, table 4: 16 samples a replica; here a stage a block,
// and the embedding and the head alone on theirs). They were trained on these cards; read as 74.5
// GiB a card would not take the first.
TEST(Forecast, LayoutsThatNvidiaAndMetaTrainedWithFit) {
  expect_fits("70B", {.pp = 8, .vpp = 5, .microbatches = 64, .tp = 4, .dp = 2, .zero = 1},
              std::vector<int>(40, 2));
  expect_fits("70B", {.pp = 4, .vpp = 5, .microbatches = 64, .tp = 4, .cp = 2, .dp = 2, .zero = 1},
              std::vector<int>(20, 4));
  std::vector<int> single(128, 1);
  single.front() = single.back() = 0;
  expect_fits("405B", {.pp = 16, .vpp = 8, .microbatches = 16, .tp = 8, .dp = 128, .zero = 2},
              single);
}

}  // namespace
}  // namespace weir::forecast_test
