// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/builtin.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/partition/balanced.hpp"
#include "sim/search/partitions/balance.hpp"

namespace weir::partition_test {
namespace {

std::pair<std::int64_t, double> value(const std::vector<std::int64_t>& times,
                                      const std::vector<int>& boundaries) {
  std::int64_t slowest = 0, sum = 0;
  double squares = 0;
  std::size_t next = 0;
  for (std::size_t l = 0; l <= times.size(); ++l) {
    const bool cut =
        l == times.size() || (next < boundaries.size() && boundaries[next] == static_cast<int>(l));
    if (cut && l > 0) {
      slowest = std::max(slowest, sum);
      squares += static_cast<double>(sum) * static_cast<double>(sum);
      sum = 0;
      ++next;
    }
    if (l < times.size()) sum += times[l];
  }
  return {slowest, squares};
}

// The same with boundaries that take time.
std::pair<std::int64_t, double> value(const std::vector<std::int64_t>& times,
                                      const std::vector<int>& boundaries, const CutTimes& cuts) {
  auto [slowest, squares] = value(times, boundaries);
  for (std::size_t s = 0; s < boundaries.size(); ++s) {
    const std::int64_t cut = cuts[s][static_cast<std::size_t>(boundaries[s])];
    slowest = std::max(slowest, cut);
    squares += static_cast<double>(cut) * static_cast<double>(cut);
  }
  return {slowest, squares};
}

// All ways to cut, by recursion.
void all_cuts(int layers, int stages, int from, std::vector<int>& cut,
              std::vector<std::vector<int>>& all) {
  if (stages == 1) {
    all.push_back(cut);
    return;
  }
  for (int at = from; at <= layers - stages + 1; ++at) {
    cut.push_back(at);
    all_cuts(layers, stages - 1, at + 1, cut, all);
    cut.pop_back();
  }
}

// 1 2 3 | 4 5 is the only split of five layers into two stages with a slowest of 9 or less.
TEST(Partition, WorkedExample) {
  const std::vector<std::int64_t> times{1, 2, 3, 4, 5};
  EXPECT_EQ(best_boundaries(times, 2), (std::vector<int>{3}));
  EXPECT_EQ(best_boundaries(times, 1), (std::vector<int>{}));
  EXPECT_EQ(best_boundaries(times, 5), (std::vector<int>{1, 2, 3, 4}));
}

TEST(Partition, StagesBeyondTheLayersStandBeforeTheLast) {
  const std::vector<std::int64_t> times{1, 2, 3};
  EXPECT_EQ(best_boundaries(times, 5), (std::vector<int>{1, 2, 2, 2}));
  EXPECT_EQ(best_boundaries({times.data(), 1}, 3), (std::vector<int>{0, 0}));
}

TEST(Partition, EqualsBruteForce) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::int64_t> times(std::uniform_int_distribution<std::size_t>(1, 9)(random));
    for (auto& time : times) time = std::uniform_int_distribution<std::int64_t>(0, 20)(random);
    const auto layers = static_cast<int>(times.size());
    const int stages = std::uniform_int_distribution<int>(1, layers)(random);
    std::vector<std::vector<int>> all;
    std::vector<int> cut;
    all_cuts(layers, stages, 1, cut, all);
    std::pair best{std::numeric_limits<std::int64_t>::max(), 0.0};
    for (const auto& candidate : all) best = std::min(best, value(times, candidate));
    EXPECT_EQ(value(times, best_boundaries(times, stages)), best) << "seed 7, trial " << trial;
  }
}

// Five layers of 3 in two stages: 9 is the slowest stage with 2 or 3 layers in the first. A cut
// before layer 2 that takes 10 limits the pipeline more than that; one of 13 at both places more
// than a stage of four layers, 12.
TEST(Partition, AvoidsACutThatTakesLongerThanAStage) {
  const std::vector<std::int64_t> times{3, 3, 3, 3, 3};
  const auto best = [&times](const std::vector<std::int64_t>& cut) {
    CutTimes cuts;
    cuts.push_back(cut);
    return best_boundaries(times, 2, cuts);
  };
  EXPECT_EQ(best({0, 1, 1, 1, 1}), (std::vector<int>{2}));
  EXPECT_EQ(best({0, 1, 10, 1, 1}), (std::vector<int>{3}));
  EXPECT_EQ(best({0, 20, 13, 13, 1}), (std::vector<int>{4}));
}

TEST(Partition, WithCutsEqualsBruteForce) {
  std::mt19937_64 random(8);
  const auto pick = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::int64_t> times(static_cast<std::size_t>(1 + pick(7)));
    for (auto& time : times) time = pick(20);
    const auto layers = static_cast<int>(times.size());
    const int stages = 1 + static_cast<int>(pick(layers - 1));
    CutTimes cuts;
    for (int boundary = 1; boundary < stages; ++boundary) {
      if (!cuts.empty() && pick(3) == 0) {
        cuts.push_back_like(static_cast<std::size_t>(pick(boundary - 2)));
        continue;
      }
      std::vector<std::int64_t> by_layer(times.size());
      for (auto& cut : by_layer) cut = pick(40);
      cuts.push_back(std::move(by_layer));
    }
    std::vector<std::vector<int>> all;
    std::vector<int> cut;
    all_cuts(layers, stages, 1, cut, all);
    std::pair best{std::numeric_limits<std::int64_t>::max(), 0.0};
    for (const auto& candidate : all) best = std::min(best, value(times, candidate, cuts));
    EXPECT_EQ(value(times, best_boundaries(times, stages, cuts), cuts), best)
        << "seed 8, trial " << trial;
  }
}

// A tensor that crosses: made before the boundary, read behind it.
struct Tensor {
  int made = 0, last_read = 0;
  std::int64_t bytes = 0;
};

// Layers that say their times and bytes, with skips of whole outputs and of tensors of their own.
Model with_skips(std::mt19937_64& random, std::vector<Tensor>& tensors) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  Model model;
  const int layers = pick(4, 8);
  for (int l = 0; l < layers; ++l) {
    TimedShape shape{.forward = Seconds(pick(10, 300) * 1e-9), .boundary = Bytes(64 * pick(1, 5))};
    shape.backward_input = shape.forward;
    model.layers.push_back({"layer", shape, "timed"});
    tensors.push_back({l, l + 1, shape.boundary.count()});
  }
  for (int n = pick(0, 4); n > 0; --n) {
    const int from = pick(0, layers - 3), to = pick(from + 2, layers - 1);
    if (pick(0, 1) == 0) {
      model.skips.push_back({from, to, std::nullopt});
      tensors[static_cast<std::size_t>(from)].last_read =
          std::max(tensors[static_cast<std::size_t>(from)].last_read, to);
    } else {
      const Bytes bytes(64 * pick(1, 3));
      model.skips.push_back({from, to, bytes});
      tensors.push_back(
          {from + 1, to,
           bytes.count()});  // up to its maker's own boundary it is part of the output
    }
  }
  return model;
}

std::int64_t crossing(const std::vector<Tensor>& tensors, int boundary) {
  std::int64_t bytes = 0;
  for (const Tensor& t : tensors)
    bytes += t.made < boundary && boundary <= t.last_read ? t.bytes : 0;
  return bytes;
}

// Messages and receive slots of one partition, on a link of one byte a nanosecond.
void expect_carried(const ResolvedPlan& loaded, const Costs& costs, const Cluster& cluster,
                    const std::vector<Tensor>& tensors) {
  const CostTable table = cost_table(loaded, costs, cluster).table;
  for (std::int32_t s = 1; s < loaded.plan.pp; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t bytes =
        crossing(tensors, loaded.plan.boundaries[at - 1]) * loaded.plan.micro_batch_size;
    EXPECT_EQ(table.forward_messages[at - 1].occupancy.count(), bytes);
    EXPECT_EQ(table.backward_messages[at].occupancy.count(), bytes);
    const StageMemory memory(loaded.plan, *loaded.part, loaded.stage(Stage{s}), Allocator::arena);
    EXPECT_EQ(memory.input_bytes(), bytes);
  }
}

// Each tensor pays at every boundary between its maker and its last reader: in the messages of
// every partition, in the receive slots of its stages, and so in which partition is the best. F and
// B of 2 samples: 4 times the forward.
TEST(Partition, EveryTensorThatCrossesIsWeighed) {
  std::mt19937_64 random(9);
  Cluster cluster;
  cluster.devices_per_node = 8;
  cluster.intra = {Seconds(0), BytesPerSecond(1e9)};
  Plan plan;
  plan.pp = 3;
  plan.micro_batch_size = 2;
  plan.microbatches = 4;
  plan.slots = 0;
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE("seed 9, trial " + std::to_string(trial));
    std::vector<Tensor> tensors;
    const Model model = with_skips(random, tensors);
    const Costs costs = builtin_costs(model, 0, Dtype::fp32, cluster);
    std::vector<std::int64_t> times;
    std::vector<std::int64_t> by_layer;
    for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
      const auto& shape = std::get<TimedShape>(model.layers[static_cast<std::size_t>(l)].shape);
      times.push_back(std::llround(shape.forward.count() * 1e9) * 4);
      by_layer.push_back(crossing(tensors, l) * 2);
    }
    CutTimes cuts;
    cuts.push_back(by_layer);
    cuts.push_back_like(0);
    std::vector<std::vector<int>> all;
    std::vector<int> cut;
    all_cuts(static_cast<int>(model.layers.size()), 3, 1, cut, all);
    std::pair best{std::numeric_limits<std::int64_t>::max(), 0.0};
    for (const auto& candidate : all) {
      best = std::min(best, value(times, candidate, cuts));
      plan.boundaries = candidate;
      expect_carried(derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {3, 1, 4}))),
                     costs, cluster, tensors);
    }
    EXPECT_EQ(value(times, balanced_boundaries(model, plan, costs, cluster), cuts), best);
  }
}

}  // namespace
}  // namespace weir::partition_test
