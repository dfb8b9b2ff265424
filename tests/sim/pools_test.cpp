// Forecasts and searches on clusters of several kinds of nodes: against one kind, by hand, and
// against brute force.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>

#include "costmodel/table/builtin.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "sim/search/nodes.hpp"
#include "sim/search/space/placements.hpp"
#include "sim/search/sweep.hpp"

namespace weir::pools_test {
namespace {

using testing::UnorderedElementsAre;

Cluster pool(const std::string& name, int nodes, double slowdown) {
  Cluster cluster;
  cluster.name = name;
  cluster.device.name = "cpu-core";
  cluster.devices_per_node = 2;
  cluster.nodes = nodes;
  cluster.slowdown = slowdown;
  cluster.intra = {Seconds(5e-6), BytesPerSecond(1e9)};
  cluster.inter = {Seconds(20e-6), BytesPerSecond(2e8)};
  return cluster;
}

// Layers from a table: the costs are the table's own, and a pool's slowdown.
class PooledCluster : public testing::Test {
 protected:
  PooledCluster()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-pools-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    request_.folder = folder_;
    request_.base.model_path = "layers.csv";
    request_.base.seq_length = 1;
    request_.schedules = {"gpipe", "1f1b"};
    request_.global_batch_size = 4;
  }
  ~PooledCluster() override { std::filesystem::remove_all(folder_); }

  void use(const std::string& layers) {
    write_file_atomically(folder_ / "layers.csv", layers);
    request_.base.model_sha256 = sha256_hex(layers);
    model_ = load_model(folder_ / "layers.csv");
  }
  [[nodiscard]] Costs costs(const Cluster& cluster) const {
    return builtin_costs(model_, 1, Dtype::fp32, cluster);
  }
  [[nodiscard]] Forecast forecast_of(const Plan& plan, const Cluster& cluster) const {
    return forecast(resolve(plan, folder_), costs(cluster), cluster).forecast;
  }
  [[nodiscard]] Plan plan_of(int pp, std::vector<int> boundaries) const {
    Plan plan = request_.base;
    plan.pp = pp;
    plan.boundaries = std::move(boundaries);
    return plan;
  }

  std::filesystem::path folder_;
  SweepRequest request_;
  Model model_;
};

constexpr const char* kFour =
    "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
    "a,table,1000,1,1,1,4000,10000,4\n";

// Two pools of the same nodes are the cluster of all of them, message by message.
TEST_F(PooledCluster, OfOneKindIsThatCluster) {
  use(kFour);
  const Cluster one = pool("one", 2, 1);
  const Cluster two = pooled("two", {pool("a", 1, 1), pool("b", 1, 1)});
  for (const int dp : {1, 2}) {
    for (const RankOrder order : {RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp}) {
      Plan plan = plan_of(2, {2});
      plan.microbatches = 4;
      plan.dp = dp;
      plan.rank_order = order;
      const Forecast a = forecast_of(plan, one), b = forecast_of(plan, two);
      EXPECT_EQ(a.step_time, b.step_time) << dp;
      EXPECT_EQ(a.peak_memory(), b.peak_memory()) << dp;
    }
  }
}

// One micro-batch, two layers a stage of F 1 ms and B 2 ms, the second rank 2.5 times slower; a
// message of 10,000 bytes at 0.2 GB/s takes 50 + 20 us, each way. No update is timed:
// 2 + 0.07 + 2.5 (2 + 4) + 0.07 + 4 = 21.14 ms. On one node it is 10 + 5 us.
TEST_F(PooledCluster, ASlowerRankTakesLonger) {
  use(kFour);
  const Cluster cluster = pooled("both", {pool("fast", 1, 1), pool("slow", 1, 2.5)});
  Plan plan = plan_of(2, {2});
  plan.placement = {{"fast", 1}, {"slow", 1}};
  EXPECT_NEAR(forecast_of(plan, cluster).step_time.count(), 21.14e-3, 1e-9);
  plan.placement = {{"fast", 2}};
  EXPECT_NEAR(forecast_of(plan, cluster).step_time.count(), 12.03e-3, 1e-9);
  plan.placement = {{"slow", 2}};
  EXPECT_NEAR(forecast_of(plan, cluster).step_time.count(), 30.03e-3, 1e-9);
}

// A rank with a device of each kind waits for the slower one: K 1, four replicas.
TEST_F(PooledCluster, ARankOnTwoKindsIsAsFastAsTheSlower) {
  use(kFour);
  const Cluster cluster = pooled("both", {pool("fast", 1, 1), pool("slow", 1, 2)});
  Plan plan = plan_of(1, {});
  plan.dp = 4;
  const Cluster slow = pool("slow", 2, 2);
  EXPECT_EQ(forecast_of(plan, cluster).step_time, forecast_of(plan, slow).step_time);
}

TEST_F(PooledCluster, EachRankIsHeldToItsOwnMemory) {
  use(kFour);
  Cluster large = pool("large", 1, 1), small = pool("small", 1, 1);
  large.device.memory = Bytes(1 << 20);
  small.device.memory = Bytes(20'000);
  const Cluster cluster = pooled("both", {large, small});
  Plan plan = plan_of(2, {3});  // three layers of 1,000 parameters: 48,000 bytes of state
  plan.placement = {{"large", 1}, {"small", 1}};
  Forecast f = forecast_of(plan, cluster);
  f.memory_limit = cluster.largest_memory();
  EXPECT_THAT(f.rank_memory_limits, testing::ElementsAre(Bytes(1 << 20), Bytes(20'000)));
  EXPECT_EQ(f.fits(), Fits::no);  // one layer's state of 16,000, its activations and messages
  plan.placement = {{"small", 1}, {"large", 1}};
  plan.boundaries = {1};
  f = forecast_of(plan, cluster);
  f.memory_limit = cluster.largest_memory();
  EXPECT_THAT(f.rank_memory_limits, testing::ElementsAre(Bytes(20'000), Bytes(1 << 20)));
}

// K = 3, a device a rank, of pools of 2 and 2: two of either and one of the other, either first.
TEST(Placements, FillOnePoolAfterTheOther) {
  const Cluster cluster = pooled("both", {pool("a", 1, 1), pool("b", 1, 2)});
  Plan plan;
  plan.pp = 3;
  using Placed = std::vector<PlacedRanks>;
  EXPECT_THAT(placements(plan, cluster),
              UnorderedElementsAre(Placed{{"a", 2}, {"b", 1}}, Placed{{"b", 1}, {"a", 2}},
                                   Placed{{"a", 1}, {"b", 2}}, Placed{{"b", 2}, {"a", 1}}));
  plan.pp = 2;
  EXPECT_THAT(placements(plan, cluster), UnorderedElementsAre(Placed{{"a", 2}}, Placed{{"b", 2}}));
  plan.pp = 1;
  plan.dp = 3;  // no pool has three
  EXPECT_THAT(placements(plan, cluster), UnorderedElementsAre(Placed{}));
}

struct Draw {
  std::string layers;
  Cluster cluster;
};

Draw draw(unsigned seed) {
  std::mt19937 random(seed);
  const auto of = [&](int from, int to) {
    return from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1));
  };
  std::string layers =
      "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n";
  const int count = of(4, 6);
  for (int l = 0; l < count; ++l) {
    layers += "l" + std::to_string(l) + ",table," + std::to_string(100 * of(1, 50)) + "," +
              std::to_string(of(1, 9)) + "," + std::to_string(of(1, 9)) + "," +
              std::to_string(of(1, 9)) + "," + std::to_string(1000 * of(1, 9)) + "," +
              std::to_string(1000 * of(1, 90)) + ",1\n";
  }
  return {layers,
          pooled("both", {pool("fast", of(1, 2), 1), pool("slow", 1, 1 + of(1, 20) / 8.0)})};
}

// All placements in contiguous runs, however many of either pool, and all partitions.
TEST_F(PooledCluster, TheWinnerIsThatOfBruteForce) {
  int with_both = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const Draw drawn = draw(seed);
    use(drawn.layers);
    request_.pp = {1, 2, 3};
    request_.devices = drawn.cluster.devices();
    const SweepResult found = sweep(request_, costs(drawn.cluster), drawn.cluster);
    ASSERT_FALSE(found.plans.empty());
    with_both += found.plans.front().plan.placement.size() == 2 ? 1 : 0;
    Seconds best(std::numeric_limits<double>::max());
    const auto layers = static_cast<int>(model_.layers.size());
    const int fast = drawn.cluster.kind(0).devices(), slow = drawn.cluster.kind(1).devices();
    for (const int m : {1, 2, 4}) {
      for (const std::string& schedule : request_.schedules) {
        for (int k = 1; k <= 3; ++k) {
          for (int on_fast = std::max(0, k - slow); on_fast <= std::min(k, fast); ++on_fast) {
            for (const bool fast_first : {true, false}) {
              for (int a = 1; a < (k > 1 ? layers : 2); ++a) {
                for (int b = a + 1; b < (k > 2 ? layers : a + 2); ++b) {
                  Plan plan = plan_of(k, k == 1   ? std::vector<int>{}
                                         : k == 2 ? std::vector{a}
                                                  : std::vector{a, b});
                  plan.schedule = schedule;
                  plan.microbatches = m;
                  plan.micro_batch_size = 4 / m;
                  if (on_fast > 0) plan.placement.push_back({"fast", on_fast});
                  if (on_fast < k) plan.placement.push_back({"slow", k - on_fast});
                  if (!fast_first) std::ranges::reverse(plan.placement);
                  best = std::min(best, forecast_of(plan, drawn.cluster).step_time);
                }
              }
            }
          }
        }
      }
    }
    EXPECT_DOUBLE_EQ(found.plans.front().forecast.step_time.count(), best.count());
  }
  EXPECT_GT(with_both, 5);
}

// No candidate is faster than its bound says, and each is within its ranks' memory.
TEST_F(PooledCluster, BoundsHold) {
  int looked_at = 0, fit = 0;
  for (unsigned seed = 101; seed <= 130; ++seed) {
    SCOPED_TRACE(seed);
    Draw drawn = draw(seed);
    use(drawn.layers);
    drawn.cluster.pools[0].device.memory = drawn.cluster.device.memory = Bytes(150'000);
    drawn.cluster.pools[1].device.memory = Bytes(400'000);
    const Costs its = costs(drawn.cluster);
    request_.pp = {1, 2, 3};
    request_.dp = {1, 2};
    request_.schedules = {"gpipe", "1f1b", "zb-h1"};
    request_.recompute = {{}, {.mode = RecomputeMode::stage}};
    request_.devices = drawn.cluster.devices();
    request_.memory_limit = drawn.cluster.largest_memory();
    SplitCosts known(model_, its, drawn.cluster.stack);
    const Nodes nodes = enumerate(request_, model_, known, drawn.cluster);
    Programs programs;
    const CandidateSources sources{known, drawn.cluster, programs};
    for (const Node& node : nodes.all) {
      Plan plan = nodes.plan(node, request_);
      for (int s = 1; s < plan.pp; ++s) plan.boundaries.push_back(s);
      const CandidateCost cost =
          cost_of(plan, sources, {.memory = request_.memory_limit, .even_if_it_cannot_fit = true});
      ASSERT_TRUE(cost.ranked);
      ++looked_at;
      const Forecast& f = cost.ranked->forecast;
      EXPECT_GE(f.step_time.count() * 1e9, node.bound_ns) << to_json(cost.ranked->plan);
      if (f.fits() != Fits::yes) continue;
      ++fit;
      for (std::size_t r = 0; r < f.memory.size(); ++r)
        EXPECT_LE(f.memory[r].peak, f.rank_memory_limits[r]);
    }
  }
  EXPECT_GT(looked_at, 2000);
  EXPECT_GT(fit, 200);
}

// With one rank the two orders of devices are one plan; with more, one of each.
TEST_F(PooledCluster, OrdersOfDevicesAreSearched) {
  use(kFour);
  const Cluster cluster = pool("one", 2, 1);
  request_.pp = {1, 2};
  request_.dp = {2};
  request_.microbatches = {2};
  request_.schedules = {"1f1b"};
  request_.rank_order = {RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp};
  const SweepResult found = sweep(request_, costs(cluster), cluster);
  EXPECT_EQ(found.candidates, 3);
  // Replicas within nodes send 16,000 bytes of gradients there, stages 10,000 bytes between them;
  // the other way round messages stay within.
  const auto of = [&](RankOrder order) {
    const auto is = [order](const Ranked& ranked) {
      return ranked.plan.pp == 2 && ranked.plan.rank_order == order;
    };
    return std::ranges::find_if(found.plans, is)->forecast.metrics;
  };
  const auto sent = [](const StepMetrics& metrics) { return metrics.step_time; };
  EXPECT_NE(sent(of(RankOrder::tp_cp_dp_pp)), sent(of(RankOrder::tp_cp_pp_dp)));
}

// Walked by bounds, a space of some hundreds is ranked as one that is forecast whole.
TEST_F(PooledCluster, BestFirstFindsWhatAllForecastsDo) {
  for (unsigned seed = 201; seed <= 210; ++seed) {
    SCOPED_TRACE(seed);
    const Draw drawn = draw(seed);
    use(drawn.layers);
    request_.pp = {1, 2, 3};
    request_.dp = {1, 2};
    request_.schedules = {"gpipe", "1f1b", "1f1b-eager", "zb-h1", "zb-h2"};
    request_.recompute = {{}, {.mode = RecomputeMode::stage}};
    request_.zero = {0, 1};
    request_.devices = drawn.cluster.devices();
    const Costs its = costs(drawn.cluster);
    const SweepResult all = sweep(request_, its, drawn.cluster);
    request_.keep = 3;
    const SweepResult best = sweep(request_, its, drawn.cluster);
    request_.keep.reset();
    EXPECT_GT(best.candidates, 256);
    ASSERT_EQ(best.plans.size(), 3U);
    EXPECT_EQ(best.gap, 0);
    for (std::size_t place = 0; place < 3; ++place)
      EXPECT_EQ(best.plans[place].forecast.step_time, all.plans[place].forecast.step_time);
  }
}

}  // namespace
}  // namespace weir::pools_test
