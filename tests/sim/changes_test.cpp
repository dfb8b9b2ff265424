// What explanations offer to try next, and leave out.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/changes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/links/expert_overlap.hpp"
#include "plan/job/recompute.hpp"
#include "sim/explain/what_if.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/sim/small_blocks.hpp"

namespace weir::changes_test {
namespace {

using namespace small_blocks;  // NOLINT(google-build-using-namespace)
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// `shared`: width of the experts that every token visits.
std::vector<Change> offered(const Plan& plan, std::int64_t experts, const Cluster& cluster,
                            std::int64_t shared = 0) {
  const ResolvedPlan loaded = resolved(plan, experts, shared);
  return changes(loaded, builtin(loaded), cluster);
}
std::vector<std::string> rebuilt(const std::vector<Change>& all) {
  std::vector<std::string> words;
  for (const Change& change : all) {
    if (change.choice == "re-materialisation")
      words.push_back(recompute_word(change.plan.recompute));
  }
  return words;
}
std::vector<std::string> offers_of(const std::vector<Change>& all, std::string_view choice) {
  std::vector<std::string> words;
  for (const Change& change : all) {
    if (change.choice == choice) words.push_back(change.to + change.refused);
  }
  return words;
}

// Modules of which Megatron keeps what may be made again: of dense blocks the MLP; of experts their
// norm, all of them, and their activation. To what is rebuilt already a module is added.
TEST(Changes, OfferModulesOfWhichTheStackKeepsSomething) {
  Cluster cluster = h100();
  cluster.stack = megatron();
  Plan plan = plan_of(2);
  plan.schedule = "1f1b";
  EXPECT_THAT(rebuilt(offered(plan, 1, cluster)),
              ElementsAre("selective", "full", "stage", "selective:mlp"));
  plan.recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::moe_act};
  EXPECT_THAT(rebuilt(offered(plan, 4, cluster)),
              ElementsAre("none", "selective", "full", "stage", "selective:layernorm+moe_act",
                          "selective:moe+moe_act"));
  // The activation is of the experts' modules already.
  plan.recompute.modules = BlockModule::moe;
  EXPECT_THAT(rebuilt(offered(plan, 4, cluster)),
              ElementsAre("none", "selective", "full", "stage"));
  // All experts are those that every token visits, too; else these may be made again alone.
  EXPECT_THAT(rebuilt(offered(plan, 4, cluster, 512)),
              ElementsAre("none", "selective", "full", "stage"));
  plan.recompute.modules = BlockModule::moe_act;
  EXPECT_THAT(rebuilt(offered(plan, 4, cluster, 512)),
              ElementsAre("none", "selective", "full", "stage", "selective:layernorm+moe_act",
                          "selective:moe+moe_act", "selective:moe_act+shared_experts"));
  // Weir's own executor rebuilds the attention core alone.
  plan.recompute = {};
  cluster.stack = Stack{};
  EXPECT_THAT(rebuilt(offered(plan, 4, cluster)), ElementsAre("selective", "full", "stage"));
}

// On two nodes a token goes once to each, or once to each expert; on one node that is the same.
TEST(Changes, OfferTheExpertsOtherDispatch) {
  Plan plan = plan_of(16);
  plan.schedule = "1f1b";
  plan.ep = 16;
  plan.expert_dispatch = ExpertDispatch::alltoall;
  EXPECT_THAT(offers_of(offered(plan, 16, h100()), "experts' dispatch"), ElementsAre("once"));
  plan.expert_dispatch = ExpertDispatch::once;
  EXPECT_THAT(offers_of(offered(plan, 16, h100()), "experts' dispatch"), ElementsAre("alltoall"));
  plan.ep = 8;
  EXPECT_THAT(offers_of(offered(plan, 16, h100()), "experts' dispatch"), IsEmpty());
}

// Overlap is proposed where it can be, and goes with a change that cannot have it. Blocks' tensors
// are never proposed to the host, only back, and go back with full re-materialisation.
TEST(Changes, ProposeOnlyWhatATrainerCanHave) {
  Cluster cluster = h100();
  cluster.stack = megatron();
  const auto proposed = [&](const Plan& plan) {
    const ResolvedPlan loaded = resolved(plan, 4);
    return changes(loaded, builtin(loaded), cluster);
  };
  const auto offers = [](const std::vector<Change>& all, std::string_view choice) {
    return std::ranges::count(all, choice, &Change::choice);
  };
  Plan plan = plan_of(2);
  plan.ep = 2;
  plan.schedule = "1f1b";
  EXPECT_EQ(offers(proposed(plan), "overlap of experts' exchanges"), 1);
  EXPECT_EQ(offers(proposed(plan), "what blocks keep"), 0);
  plan.microbatches = 1;
  EXPECT_EQ(offers(proposed(plan), "overlap of experts' exchanges"), 0);
  plan.microbatches = 4;
  plan.pp = 2;
  plan.boundaries = {2};
  EXPECT_EQ(offers(proposed(plan), "overlap of experts' exchanges"), 0);
  plan.pp = 1;
  plan.boundaries = {};
  plan.overlap_experts = true;
  plan.offload_activations = 0.5;
  EXPECT_EQ(offers(proposed(plan), "what blocks keep"), 1);
  int full = 0;
  for (const Change& change : proposed(plan)) {
    EXPECT_FALSE(change.plan.overlap_experts && why_experts_wait(change.plan)) << change.to;
    if (change.plan.recompute.mode != RecomputeMode::full) continue;
    // Their inputs still travel.
    EXPECT_EQ(change.plan.offload_activations, 0.5);
    ++full;
  }
  EXPECT_EQ(full, 1);
}

// Nodes of 8. In Megatron's order the replicas of a stage are neighbours, so that a node has 8 of
// 16; where a replica's two ranks come first, 4.
TEST(Changes, OfferToShareStateWithinANode) {
  Plan plan = plan_of(16);
  plan.pp = 2;
  plan.boundaries = {2};
  plan.schedule = "1f1b";
  plan.zero = 1;
  EXPECT_THAT(offers_of(offered(plan, 1, h100()), "ZeRO"), Contains("among 8 of a node"));
  plan.rank_order = RankOrder::tp_cp_pp_dp;
  EXPECT_THAT(offers_of(offered(plan, 1, h100()), "ZeRO"), Contains("among 4 of a node"));
}

// Each word by itself, where no degree has to change for it: ZeRO's second copy of weights within
// two of four, and one copy of a token for each node.
TEST(Changes, TakeOverWhatAnotherPlanHas) {
  Plan plan = plan_of(4);
  plan.schedule = "1f1b";
  plan.zero = 3;
  plan.ep = 4;
  Plan other = plan;
  other.zero_secondary = 2;
  other.expert_dispatch = ExpertDispatch::once;
  const ResolvedPlan loaded = resolved(plan, 4);
  const auto taken = changes_towards(loaded, other, builtin(loaded), h100());
  EXPECT_THAT(offers_of(taken, "ZeRO"), ElementsAre("among 4, weights within 2 too"));
  EXPECT_THAT(offers_of(taken, "experts' dispatch"), ElementsAre("once"));
  for (const Change& change : taken)
    EXPECT_TRUE(change.plan.zero_secondary == 2 ||
                change.plan.expert_dispatch != plan.expert_dispatch);
  const ResolvedPlan there = resolved(other, 4);
  EXPECT_THAT(changes_towards(there, plan, builtin(there), h100()), SizeIs(2));
}

// What rebuilt blocks have with the host are their inputs, and those of blocks that are kept would
// be all that they keep: with other re-materialisation nothing is there; with other changes it
// stays.
TEST(Changes, LeaveNothingOfKeptBlocksWithTheHost) {
  Plan plan = plan_of(2);
  plan.schedule = "1f1b";
  plan.recompute.mode = RecomputeMode::full;
  plan.offload_activations = 1;
  const ResolvedPlan loaded = resolved(plan);
  int rebuilt_otherwise = 0;
  for (const Change& change : changes(loaded, builtin(loaded), h100())) {
    const bool otherwise = change.plan.recompute.mode != RecomputeMode::full;
    if (otherwise) ++rebuilt_otherwise;
    if (change.choice == "what blocks keep") continue;
    EXPECT_EQ(change.plan.offload_activations, otherwise ? 0 : 1) << change.choice << change.to;
  }
  EXPECT_EQ(rebuilt_otherwise, 3);  // none, selective, stage
}

}  // namespace
}  // namespace weir::changes_test
