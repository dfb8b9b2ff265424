// Formulas on worked numbers, costs there and back, and the conformal interval.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/costs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "costmodel/fit/intervals.hpp"
#include "costmodel/layers/layer_key.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tests/costmodel/two_blocks.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/plan/unsealed.hpp"

namespace weir::costs_test {
namespace {

using testing::HasSubstr;

// s = 4, h = 8, f = 32: projections 4 * (2*8*24 + 2*8*8) = 2048, scores and mix 4 * 16 * 8 = 512,
// MLP 4 * 2 * 2 * 8 * 32 = 4096; together 6656.
TEST(LayerMath, ABlocksFlops) { EXPECT_EQ(forward_flops(block(), 4).count(), 6656); }

// 2 * 4 tokens * 8 * 100 classes.
TEST(LayerMath, AHeadsFlops) {
  EXPECT_EQ(forward_flops({"h", HeadShape{.vocabulary = 100, .hidden = 8}, ""}, 4).count(), 6400);
}

// A framework that does not tell I from W says null: read as such and written as such, B stays what
// it is, and a schedule that needs them is refused.
TEST(Costs, HalvesOfABackwardMayBeUnknown) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("weir-halves-" + std::to_string(::getpid()));
  Costs costs = costs_of(block(), 4);
  for (auto& [batch, time] : costs.layers.front().by_batch)
    time.i = time.w = Seconds(std::numeric_limits<double>::quiet_NaN());
  save_costs(costs, file);
  const std::string text = read_text_file(file);
  EXPECT_THAT(text, HasSubstr("\"i_s\": null"));
  const Costs read = load_costs(file);
  EXPECT_EQ(to_json(read).dump(), to_json(costs).dump());
  ResolvedPlan plan = two_blocks(2, 1);
  EXPECT_EQ(cost_table(plan, read, {}).table.stages[0].b, Nanoseconds(2'000'000));
  plan.schedule = std::get<Schedule>(make_schedule("zb-h1", {2, 1, 2}));
  try {
    static_cast<void>(cost_table(plan, read, {}));
    FAIL() << "priced without I and W";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("I and W of b are not told apart"));
  }
  const auto one = text.find("\"w_s\": null");
  write_file_atomically(file, unsealed(std::string(text).replace(one, 11, "\"w_s\": 0.001")));
  EXPECT_THROW(static_cast<void>(load_costs(file)), InputError);
  std::filesystem::remove(file);
}

// Size 2 lies a third of the way from 1 to 4: F = 1 + (2.5 - 1)/3 = 1.5 ms a layer. A message of 2
// * 4 * 8 * 4 = 256 bytes occupies 256 ns at 1 GB/s.
TEST(CostTable, InterpolatesBetweenMeasuredSizes) {
  const auto result = cost_table(two_blocks(2, 2), costs_of(block(), 4), {});
  EXPECT_TRUE(result.inside_range);
  EXPECT_EQ(result.table.stages[0].f, Nanoseconds(1'500'000));
  EXPECT_EQ(result.table.stages[0].optimizer, Nanoseconds(100'000));
  EXPECT_EQ(result.table.forward_messages[0].occupancy, Nanoseconds(256));
  EXPECT_EQ(result.table.forward_messages[0].latency, Nanoseconds(2000));
  EXPECT_EQ(result.scratch[0], Bytes(128));
}

// What was measured of one kind of attention says nothing of the other.
TEST(CostTable, KindsOfAttentionAreNotMixed) {
  const ResolvedPlan unfused = two_blocks(2, 2);
  Model model = unfused.model;
  set_attention(model, AttentionKind::fused);
  const ResolvedPlan loaded = derive(unfused.plan, model, unfused.schedule);
  EXPECT_THROW(static_cast<void>(cost_table(loaded, costs_of(block(), 4), {})), InputError);
  Layer fused = block();
  std::get<TransformerShape>(fused.shape).attention = AttentionKind::fused;
  EXPECT_NO_THROW(static_cast<void>(cost_table(loaded, costs_of(fused, 4), {})));
}

// Size 8 is outside: along the last pair, 2.5 + (8 - 4) * 0.5 = 4.5 ms, and said so.
TEST(CostTable, FlagsWhatItExtrapolates) {
  const auto result = cost_table(two_blocks(1, 8), costs_of(block(), 4), {});
  EXPECT_FALSE(result.inside_range);
  EXPECT_EQ(result.table.stages[0].f, Nanoseconds(9'000'000));
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_THAT(result.warnings[0], HasSubstr("micro-batch size 8 is extrapolated"));
}

TEST(CostTable, UnknownLayersAreNamed) {
  try {
    static_cast<void>(cost_table(two_blocks(1, 1), costs_of(block(), 5), {}));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nothing is known of layer b"));
  }
}

TEST(CostsFile, ComesBackTheSameAndIsStrict) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("weir-costs-" + std::to_string(::getpid()));
  Costs costs = costs_of(block(), 4);
  costs.interval = IntervalModel{0.9, 2.5, 0.04, 20};
  costs.correction.f = 1.25;
  costs.by_size = {{1, 1.04}, {8, 0.97}};
  costs.fixed = 0.8;
  costs.range = CalibratedRange{1, 2, 4, 8, {"1f1b", "gpipe"}};
  costs.first_backward_in_w = true;
  save_costs(costs, folder / "a.json");
  save_costs(load_costs(folder / "a.json"), folder / "b.json");
  const std::string bytes = read_text_file(folder / "a.json");
  EXPECT_EQ(read_text_file(folder / "b.json"), bytes);
  // A digit that changed is no cost that anybody measured.
  std::string damaged = bytes;
  damaged.replace(damaged.find("1.25"), 4, "1.35");
  write_file_atomically(folder / "c.json", damaged);
  EXPECT_THAT(complaint([&] { static_cast<void>(load_costs(folder / "c.json")); }),
              HasSubstr("c.json: sha256: the file is not as it was written"));
  write_file_atomically(folder / "c.json", unsealed(damaged));
  EXPECT_EQ(load_costs(folder / "c.json").correction.f, 1.35);
  std::string wrong = unsealed(bytes);
  wrong.replace(wrong.find("\"spread\""), 8, "\"sprout\"");
  write_file_atomically(folder / "c.json", wrong);
  try {
    static_cast<void>(load_costs(folder / "c.json"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("c.json: layers[0].times[0].spread: is missing"));
  }
  std::filesystem::remove_all(folder);
}

// n = 9 at 90 %: the 9th smallest of |r| = 0.01 ... 0.09 over the scale 0.03, so 3; eight plans
// cannot promise it.
TEST(Interval, SplitConformalNeedsNinePlans) {
  std::vector<Miss> misses;
  for (int i = 1; i <= 8; ++i) misses.push_back({(i % 2 == 0 ? 1 : -1) * 0.01 * i, 0});
  EXPECT_FALSE(conformal_interval(misses, 0.9, 0.03));
  misses.push_back({-0.09, 0});
  const auto interval = conformal_interval(misses, 0.9, 0.03);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->quantile, 3);
  EXPECT_DOUBLE_EQ(half_width(*interval, 0), 0.09);
  EXPECT_EQ(interval->calibration_plans, 9);
}

// Model spread 0.03 and jitter 0.04 make a scale of 0.05 (3-4-5): a miss of 0.1 is two scales, and
// a plan without jitter then gets 2 * 0.03, one with as much jitter 2 * 0.05. Without any spread
// the scale stays at a thousandth.
TEST(Interval, JitterWidensThePlansThatHaveIt) {
  const auto interval = conformal_interval(std::vector<Miss>(9, Miss{-0.1, 0.04}), 0.9, 0.03);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->quantile, 2);
  EXPECT_DOUBLE_EQ(half_width(*interval, 0), 0.06);
  EXPECT_DOUBLE_EQ(half_width(*interval, 0.04), 0.1);
  EXPECT_DOUBLE_EQ(scale_of(0, 0), 1e-3);
}

// 400 plans whose misses are normal with a standard deviation of their own, a tenth of them ten
// times noisier. 200 set the interval; of the other 200 it covers as many as its band promises, and
// it does so among the noisy ones too, where one width for all would cover far fewer.
TEST(Interval, CoversQuietAndNoisyPlansAlike) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  const auto draw = [&](int i) {
    const double spread = i % 10 == 0 ? 0.2 : 0.02;
    return Miss{normal(random) * spread, spread};
  };
  std::vector<Miss> setting, held_out;
  for (int i = 0; i < 200; ++i) setting.push_back(draw(i));
  for (int i = 0; i < 200; ++i) held_out.push_back(draw(i));
  const auto joined = conformal_interval(setting, 0.9, 0.0);
  ASSERT_TRUE(joined);
  int hits = 0, noisy_hits = 0, noisy_hits_of_one_width = 0;
  std::vector<Miss> blind = setting;
  for (Miss& miss : blind) miss.jitter_spread = 0;
  const auto one_width = conformal_interval(blind, 0.9, 0.02);
  for (int i = 0; i < 200; ++i) {
    const Miss& miss = held_out[static_cast<std::size_t>(i)];
    const bool hit = std::abs(miss.log_ratio) <= half_width(*joined, miss.jitter_spread);
    hits += hit ? 1 : 0;
    if (i % 10 != 0) continue;
    noisy_hits += hit ? 1 : 0;
    noisy_hits_of_one_width += std::abs(miss.log_ratio) <= half_width(*one_width, 0) ? 1 : 0;
  }
  const CoverageBand band = coverage_band(*joined, 200);
  EXPECT_GE(hits, band.low);
  EXPECT_LE(hits, band.high);
  EXPECT_GE(noisy_hits, 15);  // of 20; P(fewer) of Binomial(20, 0.9) is 0.0113
  EXPECT_LE(noisy_hits_of_one_width, 10);
}

// Nine plans at 90 %: k = 9, so coverage ~ Beta(9, 1), and of one held-out plan P(hit) = 9 / 10:
// both outcomes lie in the central 95 %. Of 19 held out by 19 (k = 18, Beta(18, 2)) P(12 or fewer)
// = 0.0211 and P(13 or fewer) = 0.0448.
TEST(Interval, TheBandIsTheBetaBinomials) {
  const CoverageBand one = coverage_band({0.9, 1, 0.1, 9}, 1);
  EXPECT_EQ(one.low, 0);
  EXPECT_EQ(one.high, 1);
  const CoverageBand many = coverage_band({0.9, 1, 0.1, 19}, 19);
  EXPECT_EQ(many.low, 13);
  EXPECT_EQ(many.high, 19);
}

// Inside what was run: yes; one K, M or schedule beyond it: no, and what to run is named.
TEST(CalibratedRange, SaysWhatWasNeverRun) {
  Plan plan;
  plan.pp = 1;
  plan.microbatches = 4;
  plan.schedule = "gpipe";
  CalibratedRange range = widened({}, plan);
  plan.pp = 2;
  plan.microbatches = 8;
  range = widened(range, plan);
  EXPECT_FALSE(outside(range, plan));
  plan.microbatches = 6;
  EXPECT_FALSE(outside(range, plan));
  plan.schedule = "1f1b";
  EXPECT_THAT(outside(range, plan).value(), HasSubstr("schedule 1f1b"));
  plan.pp = 1;  // one rank: every schedule is the same work
  EXPECT_FALSE(outside(range, plan));
  plan.pp = 4;
  EXPECT_THAT(outside(range, plan).value(), HasSubstr("K = 4 was never run here, only 1 to 2"));
  plan.pp = 2;
  plan.microbatches = 9;
  EXPECT_THAT(outside(range, plan).value(), HasSubstr("M = 9"));
}

}  // namespace
}  // namespace weir::costs_test
