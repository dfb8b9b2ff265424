// What a search does with devices that follow each sequence's length.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "costmodel/table/builtin.hpp"
#include "plan/job/resolve.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/model/treatment.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/search/sweep.hpp"
#include "tests/sim/small_blocks.hpp"

namespace weir::lengths_search_test {
namespace {

const std::string kFolder = WEIR_SOURCE_DIR "/tools/examples/models", kModel = "llama-10m.json";

// Eight H100s, rows of 1,024 tokens, eight a step.
SweepRequest request_of(int dynamic_cp) {
  SweepRequest request;
  request.folder = kFolder;
  Plan& base = request.base;
  base.model_path = kModel;
  base.model_sha256 = sha256_hex(read_text_file(kFolder + "/" + kModel));
  base.seq_length = 1024;
  base.dtype = Dtype::bf16;
  base.attention = AttentionKind::fused;
  base.lengths = {.quantiles = {64, 128, 256, 1024}, .rows = RowsOf::packed};
  request.dynamic_cp = dynamic_cp;
  request.pp = {1, 2};
  request.tp = {1, 2};
  request.cp = request.dp = {1, 2, 4, 8};
  request.devices = 8;
  request.exact_devices = true;
  request.global_batch_size = 8;
  request.zero = {0, 1, 3};
  request.schedules = {"1f1b"};
  request.recompute = {Recompute{}, Recompute{.mode = RecomputeMode::full}};
  return request;
}

struct Searched {
  Model model;
  Costs costs;
  Cluster cluster = small_blocks::h100();
  SweepResult result;
};
Searched search(const SweepRequest& request) {
  Searched all{.model = load_model(kFolder + "/" + kModel)};
  all.cluster.stack = small_blocks::megatron();
  set_attention(all.model, AttentionKind::fused);
  all.costs = builtin_costs(all.model, request.base.seq_length, request.base.dtype, all.cluster,
                            splits(request, all.model));
  all.result = sweep(request, all.costs, all.cluster);
  return all;
}

bool follows(const Ranked& ranked) { return ranked.plan.lengths.dynamic_cp > 0; }

// By hand: without a pipeline, of tp 1 and 2 (eight and four devices have the longest, 1,024 tokens
// of 256 each), without ZeRO 3, with and without re-materialisation: 2 x 2 x 2, however cp and dp
// share rows. The step and memory of each are those of the plan alone. All others are there as
// without.
TEST(LengthsSearch, HasEachPlanThatCanFollowThemOnce) {
  const Searched with = search(request_of(256)), without = search(request_of(0));
  std::vector<Ranked> followers, others;
  for (const Ranked& one : with.result.plans) (follows(one) ? followers : others).push_back(one);
  std::set<std::string> kinds;
  for (const Ranked& one : followers) {
    const Plan& plan = one.plan;
    EXPECT_EQ(plan.pp, 1);
    EXPECT_LT(plan.zero, 3);
    kinds.insert(fmt::format("{} {} {}", plan.tp, plan.zero, to_string(plan.recompute.mode)));
    const ResolvedPlan alone =
        derive(plan, with.model,
               std::get<Schedule>(make_schedule(plan.schedule, {1, 1, plan.microbatches, 1})));
    const Forecast expected = forecast(alone, with.costs, with.cluster, {}).forecast;
    EXPECT_NEAR(one.forecast.step_time.count(), expected.step_time.count(), 1e-9);
    EXPECT_EQ(one.forecast.peak_memory(), expected.peak_memory());
  }
  EXPECT_EQ(followers.size(), 8U);
  EXPECT_EQ(kinds.size(), 8U);
  ASSERT_EQ(others.size(), without.result.plans.size());
  for (std::size_t i = 0; i < others.size(); ++i)
    EXPECT_EQ(others[i].plan, without.result.plans[i].plan);
}

// A large space is walked by bounds: as many of the best are wanted as that such as follow lengths
// are among them.
TEST(LengthsSearch, TheBestOfALargeSpaceIsTheBestOfAll) {
  for (const int most : {256, 1024}) {
    SCOPED_TRACE(most);
    SweepRequest request = request_of(most);
    request.vpp = {1, 2};
    request.schedules = {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1"};
    request.microbatches = {8};
    request.recompute.push_back(Recompute{.mode = RecomputeMode::selective});
    request.recompute.push_back(Recompute{.mode = RecomputeMode::stage});
    const Searched all = search(request);
    EXPECT_FALSE(all.result.effort);
    request.keep = 150;
    const Searched best = search(request);
    ASSERT_TRUE(best.result.effort);
    ASSERT_GE(best.result.plans.size(), 150U);
    ASSERT_GE(all.result.plans.size(), best.result.plans.size());
    for (std::size_t i = 0; i < best.result.plans.size(); ++i)
      EXPECT_EQ(best.result.plans[i].forecast.step_time, all.result.plans[i].forecast.step_time);
    EXPECT_TRUE(std::ranges::any_of(best.result.plans, follows));
  }
}

// Two devices have 512 tokens of 256 each, not 1,024.
TEST(LengthsSearch, NoneFollowsWhereTheLongestHasTooFewDevices) {
  SweepRequest request = request_of(256);
  request.tp = {4};
  EXPECT_TRUE(std::ranges::none_of(search(request).result.plans, follows));
}

}  // namespace
}  // namespace weir::lengths_search_test
