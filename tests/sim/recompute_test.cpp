// The choice of what to rebuild, held to every set of layers.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "costmodel/table/builtin.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/recompute/automatic.hpp"
#include "sim/recompute/front.hpp"

namespace weir::recompute_test {
namespace {

// The least time that saves at least so much, over all sets.
std::int64_t least_time(const std::vector<RebuildItem>& items, std::int64_t saved_bytes) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (unsigned set = 0; set < (1U << items.size()); ++set) {
    std::int64_t time = 0, saved = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      time += items[i].time_ns;
      saved += items[i].saved_bytes;
    }
    if (saved >= saved_bytes) best = std::min(best, time);
  }
  return best;
}

// The first that saves enough is the cheapest of all sets that do, and each is what it says.
TEST(Recompute, ChoicesEqualBruteForce) {
  std::mt19937_64 random(31);
  const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE("seed 31, trial " + std::to_string(trial));
    std::vector<RebuildItem> items;
    // Of few kinds in half of the trials; all sets in half, the front alone in the others.
    const int spread = trial % 2 == 0 ? 2 : 50;
    for (int l = 0, layers = 1 + pick(8); l < layers; ++l)
      items.push_back({l, 1 + pick(spread), pick(spread)});
    const RebuildChoices found = rebuild_choices(items, trial % 4 < 2 ? 20'000 : 60);
    std::int64_t all = 0;
    for (const RebuildItem& item : items) all += item.saved_bytes;
    for (std::int64_t needed = 0; needed <= all; ++needed) {
      const auto first = std::ranges::find_if(
          found.choices, [&](const RebuildChoice& c) { return c.saved_bytes >= needed; });
      ASSERT_NE(first, found.choices.end());
      EXPECT_EQ(first->time_ns, least_time(items, needed));
    }
    for (const RebuildChoice& choice : found.choices) {
      std::int64_t time = 0, saved = 0;
      for (const int layer : choice.layers) {
        time += items[at(layer)].time_ns;
        saved += items[at(layer)].saved_bytes;
      }
      EXPECT_EQ(time, choice.time_ns);
      EXPECT_EQ(saved, choice.saved_bytes);
    }
  }
}

// Five equal layers: one set for each number of them, the first ones.
TEST(Recompute, OfEqualLayersTheFirstOnes) {
  std::vector<RebuildItem> items;
  for (int l = 3; l < 8; ++l) items.push_back({l, 10, 100});
  const RebuildChoices found = rebuild_choices(items);
  ASSERT_EQ(found.choices.size(), 6U);
  EXPECT_EQ(found.choices[2].layers, (std::vector<int>{3, 4}));
  EXPECT_EQ(found.choices[2].saved_bytes, 200);
}

TEST(Recompute, ThinnedChoicesSaySo) {
  std::vector<RebuildItem> items;
  for (int l = 0; l < 12; ++l) items.push_back({l, 1 << l, 1 << l});
  EXPECT_TRUE(rebuild_choices(items).exact);
  const RebuildChoices thin = rebuild_choices(items, 100);
  EXPECT_FALSE(thin.exact);
  EXPECT_EQ(thin.choices.back().saved_bytes, (1 << 12) - 1);
}

class RecomputeAuto : public testing::Test {
 protected:
  RecomputeAuto() {
    cluster_.devices_per_node = 4;
    cluster_.intra = {Seconds(1e-6), BytesPerSecond(1e9)};
  }
  // Layers of unlike times and activations.
  void draw_model(int layers) {
    model_.layers.clear();
    std::uniform_int_distribution<int> pick(1, 20);
    for (int l = 0; l < layers; ++l) {
      TimedShape shape{.forward = Seconds(pick(random_) * 1e-5), .boundary = Bytes(640)};
      shape.backward_input = shape.backward_weight = shape.forward;
      shape.activation = Bytes(pick(random_) * 6400);
      model_.layers.push_back({"layer", shape, "timed"});
    }
  }
  [[nodiscard]] ResolvedPlan plan_with(const Recompute& recompute) const {
    Plan plan;
    plan.pp = 2;
    plan.microbatches = 4;
    plan.boundaries = {3};
    plan.recompute = recompute;
    return derive(plan, model_, std::get<Schedule>(make_schedule("1f1b", {2, 1, 4})));
  }
  [[nodiscard]] Forecast forecast_of(const Costs& costs, const Recompute& recompute) const {
    const ResolvedPlan resolved = plan_with(recompute);
    return forecast(resolved, costs, cluster_, {.detail = ForecastDetail::ranking}).forecast;
  }
  // The shortest step of all sets of layers whose forecast keeps to the limit.
  [[nodiscard]] Seconds shortest(const Costs& costs, Bytes limit) const {
    Seconds best{std::numeric_limits<double>::infinity()};
    const auto layers = model_.layers.size();
    for (unsigned set = 0; set < (1U << layers); ++set) {
      Recompute recompute;
      for (int l = 0; l < static_cast<int>(layers); ++l) {
        if ((set >> l & 1U) == 0) continue;
        recompute.mode = RecomputeMode::full;
        recompute.layers.push_back({l, l + 1});
      }
      const Forecast f = forecast_of(costs, recompute);
      if (f.peak_memory_upper() <= limit) best = std::min(best, f.step_time);
    }
    return best;
  }

  std::mt19937_64 random_{32};
  Model model_;
  Cluster cluster_;
};

TEST_F(RecomputeAuto, EqualsBruteForceOverLayers) {
  int chosen_layers = 0;
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE("seed 32, trial " + std::to_string(trial));
    draw_model(6);
    const Costs costs = builtin_costs(model_, 0, Dtype::fp32, cluster_);
    const Bytes most = forecast_of(costs, {}).peak_memory_upper();
    const Bytes least =
        forecast_of(costs, {.mode = RecomputeMode::full, .layers = {{0, 6}}}).peak_memory_upper();
    for (const double share : {0.1, 0.3, 0.6, 0.9, 1.0}) {
      const auto room = static_cast<double>((most - least).count()) * share;
      const Bytes limit = least + Bytes(static_cast<std::int64_t>(room));
      const ResolvedPlan none = plan_with({});
      const LayerCosts known(none, costs);
      const AutomaticRecompute chosen = automatic_recompute(none, known, cluster_, limit);
      EXPECT_EQ(chosen.fits, Fits::yes);
      EXPECT_TRUE(chosen.exact);
      EXPECT_DOUBLE_EQ(chosen.step.count(), shortest(costs, limit).count()) << "share " << share;
      EXPECT_LE(forecast_of(costs, chosen.recompute).peak_memory_upper(), limit);
      chosen_layers += static_cast<int>(chosen.recompute.layers.size());
    }
  }
  EXPECT_GT(chosen_layers, 12);
}

TEST_F(RecomputeAuto, NoneWhereAllFitsAndAllWhereNothingDoes) {
  draw_model(6);
  const Costs costs = builtin_costs(model_, 0, Dtype::fp32, cluster_);
  const ResolvedPlan none = plan_with({});
  const LayerCosts known(none, costs);
  const auto roomy = automatic_recompute(none, known, cluster_, Bytes(1'000'000'000));
  EXPECT_EQ(roomy.recompute, Recompute());
  const auto tight = automatic_recompute(none, known, cluster_, Bytes(100));
  EXPECT_EQ(tight.fits, Fits::no);
  EXPECT_EQ(recompute_word(tight.recompute), "full");
}

}  // namespace
}  // namespace weir::recompute_test
