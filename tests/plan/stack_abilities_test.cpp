// What a stack's software runs, and what of a plan lies outside.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/stack_abilities.hpp"

#include <gtest/gtest.h>

#include "plan/words/error.hpp"

namespace weir::stack_abilities_test {
namespace {

// As Megatron-Core's file has it.
StackAbilities megatron() {
  return parse_abilities(
      R"({"abilities": {"schedules": ["1f1b", "interleaved-1f1b"], "whole_rounds": true,
          "zero": [0, 1], "zero_without_pipeline": [0, 1, 2, 3],
          "recompute": ["none", "selective", "full"],
          "rank_orders": ["tp-cp-dp-pp"], "overlap_grad_reduce": false, "cuda_graphs": false,
          "dynamic_cp": false, "context_parallel": false}})",
      "stack.json");
}

Plan pipeline() {
  Plan plan;
  plan.pp = 4;
  plan.dp = 2;
  plan.microbatches = 8;
  plan.schedule = "1f1b";
  return plan;
}

TEST(StackAbilities, WhatItHasIsNotBeyond) {
  Plan plan = pipeline();
  EXPECT_EQ(beyond(megatron(), plan), std::nullopt);
  plan.schedule = "interleaved-1f1b";
  plan.vpp = 2;
  plan.zero = 1;
  plan.recompute.mode = RecomputeMode::full;
  EXPECT_EQ(beyond(megatron(), plan), std::nullopt);
}

TEST(StackAbilities, EachChoiceIsHeldToItsList) {
  const auto lacking = [](auto change) {
    Plan plan = pipeline();
    change(plan);
    return beyond(megatron(), plan).value_or("nothing");
  };
  EXPECT_EQ(lacking([](Plan& p) { p.schedule = "zb-v"; }), "schedule zb-v");
  EXPECT_EQ(lacking([](Plan& p) { p.zero = 3; }), "ZeRO stage 3 in a pipeline");
  EXPECT_EQ(lacking([](Plan& p) { p.recompute.mode = RecomputeMode::stage; }),
            "re-materialisation stage");
  EXPECT_EQ(lacking([](Plan& p) { p.rank_order = RankOrder::tp_cp_pp_dp; }),
            "rank order tp-cp-pp-dp");
  EXPECT_EQ(lacking([](Plan& p) { p.overlap_grad_reduce = true; }),
            "a reduction of gradients beside the backward");
  EXPECT_EQ(lacking([](Plan& p) { p.cuda_graphs = CudaGraphs::of_step(); }), "CUDA graphs");
  EXPECT_EQ(lacking([](Plan& p) {
              p.lengths = {{64}, RowsOf::packed, 64};
            }),
            "context parallelism by each sequence's length");
  EXPECT_EQ(lacking([](Plan& p) { p.cp = 2; }), "context parallelism");
}

// Groups of four micro-batches: ten leave a rest of two, which Megatron refuses when it starts.
TEST(StackAbilities, ChunksWantWholeRounds) {
  Plan plan = pipeline();
  plan.schedule = "interleaved-1f1b";
  plan.vpp = 2;
  plan.microbatches = 10;
  EXPECT_EQ(beyond(megatron(), plan),
            "10 micro-batches with v = 2, which are no multiple of 4 ranks");
  plan.vpp = 1;
  plan.schedule = "1f1b";
  EXPECT_EQ(beyond(megatron(), plan), std::nullopt);
}

// One stage a rank is the other schedule's there; software that lists none has them all.
TEST(StackAbilities, SchedulesOfSeveralStagesWantSeveral) {
  Plan plan = pipeline();
  plan.schedule = "interleaved-1f1b";
  EXPECT_EQ(beyond(megatron(), plan), "schedule interleaved-1f1b with one stage a rank");
  EXPECT_EQ(beyond(StackAbilities(), plan), std::nullopt);
  plan.vpp = 2;
  EXPECT_EQ(beyond(megatron(), plan), std::nullopt);
}

// One rank has no order, and other ZeRO stages; where nothing is shared no order of ranks either.
TEST(StackAbilities, WithoutAPipelineOtherListsHold) {
  Plan plan = pipeline();
  plan.pp = 1;
  plan.schedule = "zb-v";
  plan.zero = 3;
  EXPECT_EQ(beyond(megatron(), plan), std::nullopt);
  StackAbilities none;
  none.pipeline = false;
  EXPECT_EQ(beyond(none, plan), std::nullopt);
  plan.pp = 2;
  EXPECT_EQ(beyond(none, plan), "a pipeline of 2 ranks");
}

// PyTorch's stages have no weight in common: such software has pipelines of models whose head has
// a table of its own.
TEST(StackAbilities, ATiedHeadMayHaveNoPipeline) {
  const StackAbilities titan =
      parse_abilities(R"({"abilities": {"tied_pipeline": false}})", "stack.json");
  Model model;
  model.layers = {{"embedding", EmbeddingShape{.vocabulary = 10, .hidden = 8}, ""},
                  {"head", HeadShape{.vocabulary = 10, .hidden = 8}, ""}};
  Plan plan = pipeline();
  EXPECT_EQ(beyond(abilities_for(titan, model), plan), std::nullopt);
  std::get<HeadShape>(model.layers[1].shape).tied = true;
  EXPECT_EQ(beyond(abilities_for(titan, model), plan), "a pipeline of 4 ranks with a tied head");
  EXPECT_EQ(beyond(abilities_for(megatron(), model), plan), std::nullopt);
  plan.pp = 1;
  EXPECT_EQ(beyond(abilities_for(titan, model), plan), std::nullopt);
}

TEST(StackAbilities, AFileWithoutThemHasAll) {
  const StackAbilities all = parse_abilities("{}", "stack.json");
  EXPECT_EQ(all, StackAbilities{});
  Plan plan = pipeline();
  plan.schedule = "dualpipe";
  plan.zero = 3;
  EXPECT_EQ(beyond(all, plan), std::nullopt);
}

TEST(StackAbilities, AWordThatIsNoneIsRefused) {
  for (const char* text :
       {R"({"abilities": {"schedules": ["2f2b"]}})", R"({"abilities": {"recompute": ["all"]}})",
        R"({"abilities": {"zero": [4]}})", R"({"abilities": {"rank_orders": ["pp-tp"]}})",
        R"({"abilities": {"schedule": ["1f1b"]}})"})
    EXPECT_THROW(static_cast<void>(parse_abilities(text, "stack.json")), InputError) << text;
}

}  // namespace
}  // namespace weir::stack_abilities_test
