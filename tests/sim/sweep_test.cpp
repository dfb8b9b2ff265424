// The search against brute force: what it ranks first, what it leaves out, and what it marks as a
// trade-off.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>

#include "costmodel/table/builtin.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "sim/explain/outside.hpp"
#include "sim/search/partitions/balance.hpp"
#include "sim/search/partitions/refine.hpp"
#include "sim/search/space/baseline.hpp"
#include "sim/search/sweep_json.hpp"

namespace weir::sweep_test {
namespace {

// Six layers of unequal times (F, I, W of 1..3 ms) and activations, from a table: the costs are the
// table's own.
constexpr const char* kLayers =
    "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
    "a,table,1000,1,1,1,4000,512,2\n"
    "b,table,9000,3,3,2,16000,512,3\n"
    "c,table,4000,2,1,1,8000,64,1\n";

class Sweep : public testing::Test {
 protected:
  Sweep()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-sweep-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    write_file_atomically(folder_ / "layers.csv", kLayers);
    request_.folder = folder_;
    request_.base.model_path = "layers.csv";
    request_.base.model_sha256 = sha256_hex(kLayers);
    request_.base.seq_length = 1;
    request_.pp = {1, 2, 3, 4};
    request_.global_batch_size = 8;
    request_.recompute = {
        {}, {.mode = RecomputeMode::stage}, {.mode = RecomputeMode::stage, .except_last = true}};
    cluster_.device.name = "cpu-core";
    cluster_.devices_per_node = 4;
    cluster_.intra = {Seconds(5e-6), BytesPerSecond(1e9)};
    costs_ = builtin_costs(load_model(folder_ / "layers.csv"), 1, Dtype::fp32, cluster_);
  }
  ~Sweep() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] SweepResult search() const { return sweep(request_, costs_, cluster_); }

  std::filesystem::path folder_;
  SweepRequest request_;
  Cluster cluster_;
  Costs costs_;
};

// Asked once for each of 16 pairs of K and M while candidates are made, then before each of 88 and
// within it: a search that is told to stop from the 61st time on has looked at 44 at most, and how
// good the rest are nobody knows; they are not said to need memory. Told so at once it has found
// nothing, and no plan is called the smallest misfit.
TEST_F(Sweep, StoppedListsWhatItHasFound) {
  const SweepResult whole = search();
  EXPECT_FALSE(whole.stopped_after);
  for (const int k : request_.pp) {
    for (const int m : {1, 2, 4, 8}) {
      for (const std::string& schedule : request_.schedules) {
        const auto has = [=](const Plan& plan) {
          return plan.pp == k && plan.microbatches == m && plan.schedule == schedule;
        };
        request_.families.push_back({"all", schedule, has});
      }
    }
  }
  std::atomic<int> asked = 0;
  request_.stop = [&] { return ++asked > 60; };
  const SweepResult result = search();
  ASSERT_TRUE(result.stopped_after);
  EXPECT_TRUE(result.listed);
  EXPECT_GT(*result.stopped_after, 0);
  EXPECT_LE(*result.stopped_after, 44);
  EXPECT_EQ(result.feasible, *result.stopped_after);
  EXPECT_EQ(result.plans.size(), *result.stopped_after);
  EXPECT_TRUE(std::isinf(result.gap));
  EXPECT_TRUE(std::ranges::is_sorted(
      result.plans, {}, [](const Ranked& ranked) { return ranked.forecast.step_time; }));
  EXPECT_THAT(to_json(result), testing::HasSubstr("\"stopped_after\": "));
  int open = 0;
  for (const FamilyBest& family : result.families) {
    EXPECT_TRUE(family.any);
    EXPECT_EQ(family.not_come_to, !family.best);
    EXPECT_TRUE(family.left_out.empty());
    open += family.not_come_to ? 1 : 0;
  }
  EXPECT_GT(open, 0);
  request_.stop = [] { return true; };
  const SweepResult none = search();
  EXPECT_EQ(none.stopped_after, 0);
  EXPECT_EQ(none.candidates, 0);
  EXPECT_FALSE(none.listed);
  EXPECT_TRUE(none.plans.empty());
}

// The budget ends the listing of a small search as well, which is no signal; processes that search
// together list all, and forecast as many as the first of them says, however late it is for the
// others.
TEST_F(Sweep, ItsBudgetEndsASmallSearch) {
  request_.budget = Seconds(1e-9);
  const SweepResult result = search();
  EXPECT_FALSE(result.listed);
  EXPECT_FALSE(result.stopped_after);
  EXPECT_TRUE(std::isinf(result.gap));
  ASSERT_TRUE(result.effort);
  EXPECT_EQ(result.effort->looked_at, 0);
  EXPECT_FALSE(result.smallest_misfit);
  int blocks = 0;
  request_.party =
      SearchParty{1, 2, [&blocks](const std::string& mine) {
                    EXPECT_EQ(mine, "time");
                    return std::vector<std::string>{++blocks > 2 ? "time" : "no", mine};
                  }};
  const SweepResult together = search();
  EXPECT_TRUE(together.listed);
  EXPECT_EQ(together.candidates, 88);
  EXPECT_EQ(together.effort->looked_at, 32);
  EXPECT_EQ(together.plans.size(), 32);
  EXPECT_EQ(blocks, 6);
}

// Of software with GPipe alone every other schedule is outside. A search for them that found
// nothing in its time is not one that found that there is nothing.
TEST_F(Sweep, WhatLiesOutsideTheStackSaysWhetherItWasCut) {
  request_.within = StackAbilities{.schedules = {"gpipe"}};
  request_.schedules = {"gpipe"};
  const Ranked best = search().plans.front();
  request_.schedules.clear();
  const OutsideRows whole = outside(request_, best, costs_, cluster_);
  EXPECT_FALSE(whole.cut);
  EXPECT_FALSE(whole.rows.empty());
  EXPECT_TRUE(std::ranges::is_sorted(whole.rows, {}, &Rejected::ratio));
  request_.budget = Seconds(1e-9);
  const OutsideRows none = outside(request_, best, costs_, cluster_);
  EXPECT_TRUE(none.cut);
  EXPECT_TRUE(none.rows.empty());
  request_.budget = Seconds(3600);
  EXPECT_FALSE(outside(request_, best, costs_, cluster_).cut);
}

// 4 K's, 4 divisors of 8, 2 schedules, 3 recompute modes; except-last says nothing at M = 1: 4 * 2
// * (4 * 3 - 1) = 88.
TEST_F(Sweep, WalksEveryCombinationAndRanksTheFastestFirst) {
  const SweepResult result = search();
  EXPECT_EQ(result.candidates, 88);
  EXPECT_EQ(result.feasible, 88);
  std::vector<std::string> refused;
  Seconds best{1e9};
  const Model model = load_model(folder_ / "layers.csv");
  SplitCosts known(model, costs_);
  for (const Plan& plan : candidates(request_, model, known, cluster_, refused)) {
    best = std::min(best, forecast(resolve(plan, folder_), costs_, cluster_).forecast.step_time);
  }
  EXPECT_LE(result.plans.front().forecast.step_time, best);  // before its boundaries were refined
  for (const Ranked& ranked : result.plans) EXPECT_GE(ranked.gap, -1e-12) << to_json(ranked.plan);
}

// All partitions of six layers: the refined one is never slower than the even one it started from,
// and of the 4 stages' ten partitions it finds the shortest step here.
TEST_F(Sweep, RefinedPartitionsShortenTheStep) {
  const Model model = load_model(folder_ / "layers.csv");
  int better = 0;
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (int m : {1, 2, 4, 8}) {
      Plan plan = request_.base;
      plan.pp = 4;
      plan.microbatches = m;
      plan.schedule = schedule;
      plan.boundaries = balanced_boundaries(model, plan, costs_, cluster_);
      const auto step = [&](const std::vector<int>& boundaries) {
        Plan other = plan;
        other.boundaries = boundaries;
        return forecast(resolve(other, folder_), costs_, cluster_).forecast.step_time;
      };
      Seconds shortest{1e9};
      for (int a = 1; a < 4; ++a) {
        for (int b = a + 1; b < 5; ++b) {
          for (int c = b + 1; c < 6; ++c) shortest = std::min(shortest, step({a, b, c}));
        }
      }
      const ResolvedPlan resolved = resolve(plan, folder_);
      const Refined refined = refine_boundaries(resolved, LayerCosts(resolved, costs_), cluster_);
      EXPECT_LE(step(refined.boundaries), step(plan.boundaries));
      EXPECT_EQ(step(refined.boundaries), shortest) << schedule << " M " << m;
      better += step(refined.boundaries) < step(plan.boundaries) ? 1 : 0;
      EXPECT_GT(refined.evaluated, 0);
    }
  }
  RecordProperty("better", better);
}

// A candidate fits if the even partition it came from does; it is refined as far as that still
// fits.
TEST_F(Sweep, AMemoryLimitKeepsExactlyThePlansThatFit) {
  std::vector<std::string> refused;
  std::vector<Bytes> peaks;
  const Model model = load_model(folder_ / "layers.csv");
  SplitCosts known(model, costs_);
  for (const Plan& plan : candidates(request_, model, known, cluster_, refused)) {
    peaks.push_back(forecast(resolve(plan, folder_), costs_, cluster_).forecast.peak_memory());
  }
  std::sort(peaks.begin(), peaks.end());
  request_.memory_limit = peaks[peaks.size() / 2];
  const SweepResult limited = search();
  EXPECT_EQ(limited.feasible,
            std::upper_bound(peaks.begin(), peaks.end(), *request_.memory_limit) - peaks.begin());
  EXPECT_LT(limited.feasible, limited.candidates);
  for (const Ranked& ranked : limited.plans)
    EXPECT_LE(ranked.forecast.peak_memory(), *request_.memory_limit);

  request_.memory_limit = peaks.front() - Bytes(1);
  const SweepResult none = search();
  EXPECT_EQ(none.feasible, 0);
  EXPECT_EQ(none.smallest_misfit->forecast.peak_memory(), peaks.front());
}

// By definition, each pair compared: off the front there is a plan no worse in time and memory; on
// it there is none better in one and no worse in the other.
TEST_F(Sweep, TheParetoFrontIsWhatItsDefinitionSays) {
  request_.schedules = {
      "gpipe"};  // where re-materialisation trades time for memory: 1f1b wins both here
  const SweepResult result = search();
  int front = 0;
  for (const Ranked& a : result.plans) {
    bool matched = false, beaten = false;
    for (const Ranked& b : result.plans) {
      if (&a == &b) continue;
      const auto faster = a.forecast.step_time - b.forecast.step_time;
      const auto smaller = a.forecast.peak_memory() - b.forecast.peak_memory();
      const bool no_worse = faster >= Seconds(0) && smaller >= Bytes(0);
      matched |= no_worse;
      beaten |= no_worse && (faster > Seconds(0) || smaller > Bytes(0));
    }
    EXPECT_FALSE(a.pareto && beaten) << to_json(a.plan);
    EXPECT_TRUE(a.pareto || matched) << to_json(a.plan);
    front += a.pareto ? 1 : 0;
  }
  EXPECT_GT(front, 1);
}

TEST_F(Sweep, SaysOnceWhyCombinationsWereLeftOut) {
  request_.pp = {2, 7};
  request_.microbatches = {3, 4};
  EXPECT_THAT(search().refused,
              testing::UnorderedElementsAre("K*v = 7 is above the 6 layers",
                                            "M = 3 does not divide the mini-batch of 8"));
}

// dp 1 with M 1, 2, 4, 8 and dp 2 with M 1, 2, 4, over K 1, 2, 4 within 4 devices (K = 4 has one
// replica), two schedules: 2 (3 x 4 + 2 x 3). Replicas of K = 1 and M = 4 do half of the work each,
// and then reduce.
TEST_F(Sweep, ReplicasShareTheMiniBatch) {
  request_.pp = {1, 2, 4};
  request_.dp = {1, 2};
  request_.zero = {0};
  request_.devices = 4;
  request_.recompute = {{}};
  const SweepResult result = search();
  EXPECT_EQ(result.candidates, 36);
  const auto time = [&](int dp, int microbatches) {
    for (const Ranked& r : result.plans) {
      const Plan& p = r.plan;
      if (p.pp == 1 && p.dp == dp && p.microbatches == microbatches)
        return r.forecast.step_time.count();
    }
    return 0.0;
  };
  const double reduction = 2 * (5e-6 + 0.5 * 4 * (2 * 1000 + 3 * 9000 + 4000) / 1e9);
  EXPECT_NEAR(time(2, 4), time(1, 8) / 2 + reduction, 1e-8);
}

// The eleventh-best plan, or the next whose last boundary can move, its partition and slots kept:
// as many go before it as are faster, or as fast and smaller. With its last boundary moved it is
// none of the candidates, and takes the place its own time gives it.
TEST_F(Sweep, TheBaselineTakesItsPlace) {
  const SweepResult alone = search();
  const auto movable = [](const Ranked& r) {
    const std::vector<int>& b = r.plan.boundaries;
    return b.size() == 1 ? b[0] > 1 : b.size() > 1 && b.back() - 1 > b[b.size() - 2];
  };
  Plan plan = std::find_if(alone.plans.begin() + 10, alone.plans.end(), movable)->plan;
  for (const int moved : {0, 1}) {
    plan.boundaries.back() -= moved;
    request_.baseline = resolve(plan, folder_);
    const SweepResult result = search();
    const Baseline& baseline = *result.baseline;
    const Forecast own = forecast(resolve(plan, folder_), costs_, cluster_).forecast;
    EXPECT_EQ(baseline.ranked.forecast.step_time, own.step_time);
    EXPECT_EQ(baseline.ratio, own.step_time / result.plans.front().forecast.step_time);
    int before = 0;
    for (const Ranked& r : result.plans) {
      const Seconds step = r.forecast.step_time;
      before += step < own.step_time ||
                        (step == own.step_time && r.forecast.peak_memory() < own.peak_memory())
                    ? 1
                    : 0;
    }
    EXPECT_EQ(baseline.place, before + 1);
    EXPECT_EQ(result.candidates, alone.candidates);  // it is beside them, not one of them
  }
  const Forecast own = forecast(*request_.baseline, costs_, cluster_).forecast;
  request_.devices = 1;
  request_.exact_devices = true;
  const Baseline other = search().baseline.value();
  EXPECT_EQ(other.place, std::nullopt);  // it has not the devices that plans have here
  EXPECT_DOUBLE_EQ(*other.device_ratio, *other.ratio * plan.devices());
  request_.devices.reset();
  request_.memory_limit = own.peak_memory() - Bytes(1);
  EXPECT_EQ(search().baseline->place, std::nullopt);
  request_.memory_limit = Bytes(1);  // nothing fits, and the baseline is forecast none the less
  const SweepResult nothing = search();
  EXPECT_TRUE(nothing.plans.empty());
  EXPECT_EQ(nothing.baseline->ranked.forecast.step_time, own.step_time);
  EXPECT_EQ(nothing.baseline->ratio, std::nullopt);
}

// Another job is not a baseline, and the reason names what differs.
TEST_F(Sweep, OnlyTheSameJobIsABaseline) {
  const Model model = load_model(folder_ / "layers.csv");
  Plan plan = request_.base;
  plan.microbatches = 8;
  const auto why = [&](const Plan& p, const Model& m) {
    const auto differs = incomparable({p, m, {}}, request_, model);
    return differs ? differs->key + ": " + differs->reason : "";
  };
  EXPECT_EQ(why(plan, model), "");
  plan.attention = AttentionKind::fused;
  EXPECT_EQ(why(plan, model), "attention: fused; the sweep has unfused");
  plan.attention = AttentionKind::unfused;
  Model other = model;
  other.layers.front().name = "another name";
  EXPECT_EQ(why(plan, other), "");
  other.layers[5].shape = other.layers[4].shape;
  EXPECT_EQ(why(plan, other),
            "model: is not layers.csv: its " + other.layers[5].name + " differs from the sweep's");
  other.layers.pop_back();
  EXPECT_EQ(why(plan, other), "model: is not layers.csv: 5 layers, the sweep's model has 6");
  plan.microbatches = 4;
  EXPECT_EQ(why(plan, model),
            "microbatches: b M D = 1 4 1 makes a mini-batch of 4; the sweep's is 8");
  plan.dp = 2;
  EXPECT_EQ(why(plan, model), "");
  request_.devices = 1;  // other devices are compared one by one
  EXPECT_EQ(why(plan, model), "");
  plan.dtype = Dtype::bf16;
  EXPECT_EQ(why(plan, model), "dtype: bf16; the sweep has fp32");
}

TEST_F(Sweep, OneThreadAndTwoFindTheSame) {
  request_.threads = 1;
  SweepResult one = search();
  request_.threads = 2;
  SweepResult two = search();
  one.seconds = two.seconds = 0;
  EXPECT_EQ(to_json(one), to_json(two));
}

}  // namespace
}  // namespace weir::sweep_test
