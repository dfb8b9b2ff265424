// What follows from a plan, by hand: parameters of a device's part, bytes at a boundary, ties.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/resolve.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/schedule/generators/generators.hpp"

namespace weir::resolve_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Schedule made(const char* name, int k, int v, int m) {
  return std::get<Schedule>(make_schedule(name, {k, v, m}));
}

// Table of 10 x 8, two blocks (h = 8, 2 heads of 4, f = 32), norm, head on the same table; 4 tokens
// a sample in fp32.
Model tied_model() {
  const TransformerShape block{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 32};
  Model model;
  model.layers = {{"embedding", EmbeddingShape{.vocabulary = 10, .hidden = 8, .tied = true}, ""},
                  {"b0", block, ""},
                  {"b1", block, ""},
                  {"norm", NormShape{.hidden = 8}, ""},
                  {"head", HeadShape{.vocabulary = 10, .hidden = 8, .tied = true}, ""}};
  return model;
}

ResolvedPlan resolved(std::vector<int> boundaries, int tp = 1, const char* schedule = "1f1b") {
  Plan plan;
  plan.seq_length = 4;
  plan.pp = static_cast<int>(boundaries.size()) + 1;
  plan.microbatches = 2;
  plan.tp = tp;
  plan.boundaries = std::move(boundaries);
  plan.schedule = schedule;
  return derive(plan, tied_model(), made(schedule, plan.pp, 1, 2));
}

// 12 h^2 + 13 h = 872 of a block, 80 of the table, 16 of the norm. Two devices of tp have half of
// the four products, of their widths' biases 3 h / 2 + f / 2 = 28, and whole the two norms' 32 and
// the biases of what they hand on, 16; of the table 5 rows.
TEST(Resolve, ParametersOfAStage) {
  const ResolvedPlan whole = resolved({2});
  EXPECT_EQ(whole.stages[0].parameters, 80 + 872);
  EXPECT_EQ(whole.stages[1].parameters, 872 + 16 + 80);
  const ResolvedPlan half = resolved({2}, 2);
  EXPECT_EQ(half.stages[0].parameters, 40 + 6 * 64 + 28 + 32 + 16);
  EXPECT_EQ(half.stages[1].parameters, 6 * 64 + 28 + 32 + 16 + 16 + 40);
}

// The table is on the first and the last stage, or on one stage alone. The head's matrix is a use
// of the embedding's.
TEST(Resolve, TiesAreFoundOnce) {
  const ResolvedPlan three = resolved({2, 4});
  ASSERT_EQ(three.ties.size(), 1U);
  EXPECT_EQ(three.ties[0].parameters, 80);
  EXPECT_THAT(three.ties[0].holders, ElementsAre(Stage{0}, Stage{2}));
  EXPECT_THAT(three.lowering.tied, ElementsAre(ElementsAre(Stage{0}, Stage{2})));
  EXPECT_THAT(three.part->ties, ElementsAre(ElementsAre(ParameterId{0, 0}, ParameterId{4, 0})));
  EXPECT_EQ(three.part->weight({4, 0}), (ParameterId{0, 0}));
  EXPECT_EQ(three.part->weight({3, 0}), (ParameterId{3, 0}));
  EXPECT_EQ(three.part->weight({3, 1}), (ParameterId{3, 1}));
  EXPECT_THAT(resolved({}).ties, IsEmpty());
}

// Outputs of 4 x 8 x 4 = 128 bytes; 10 bytes of layer 0's go to layer 3, over both boundaries, and
// are part of its output at its own.
TEST(Resolve, MessagesCarryWhatSkipsSend) {
  ResolvedPlan plain = resolved({1, 2});
  Model model = plain.model;
  model.skips = {{0, 3, Bytes(10)}};
  const ResolvedPlan skipping = derive(plain.plan, model, plain.schedule);
  EXPECT_EQ(skipping.stages[0].input_bytes, 0);
  EXPECT_EQ(skipping.stages[0].output_bytes, 128);
  EXPECT_EQ(skipping.stages[1].input_bytes, 128);
  EXPECT_EQ(skipping.stages[1].output_bytes, 138);
  EXPECT_EQ(skipping.stages[2].input_bytes, 138);
  EXPECT_EQ(skipping.stages[2].output_bytes, 0);  // the loss stays
  EXPECT_EQ(plain.stages[1].output_bytes, 128);
}

// Moved boundaries are a new plan's, and lower again only where the table changes hands.
TEST(Resolve, MovedBoundariesAreANewPlans) {
  const auto same = [](const ResolvedPlan& a, const ResolvedPlan& b) {
    EXPECT_EQ(a.plan, b.plan);
    EXPECT_EQ(a.ties, b.ties);
    EXPECT_EQ(a.lowering.tied, b.lowering.tied);
    ASSERT_EQ(a.program.size(), b.program.size());
    for (std::size_t s = 0; s < a.stages.size(); ++s) {
      EXPECT_EQ(a.stages[s].layers.first, b.stages[s].layers.first);
      EXPECT_EQ(a.stages[s].parameters, b.stages[s].parameters);
      EXPECT_EQ(a.stages[s].output_bytes, b.stages[s].output_bytes);
    }
  };
  same(with_boundaries(resolved({1, 2}), {3, 4}), resolved({3, 4}));
  Model model = tied_model();  // a second table in the middle, as T5's decoder has
  model.layers.insert(model.layers.begin() + 2, model.layers.front());
  Plan plan = resolved({1, 3}).plan;
  const ResolvedPlan first = derive(plan, model, made("1f1b", 3, 1, 2));
  EXPECT_THAT(first.ties[0].holders, ElementsAre(Stage{0}, Stage{1}, Stage{2}));
  plan.boundaries = {3, 4};
  same(with_boundaries(first, {3, 4}), derive(plan, model, made("1f1b", 3, 1, 2)));
}

// Both directions of a bidirectional schedule hold every stage: the second copy is the first's
// twin, and ties are said of one.
TEST(Resolve, ReplicasAreCopies) {
  Plan plan = resolved({2}).plan;
  plan.schedule = "chimera";
  const ResolvedPlan both = derive(plan, tied_model(), made("chimera", 2, 1, 2));
  ASSERT_EQ(both.stages.size(), 4U);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(both.stages[s].parameters, both.stages[s + 2].parameters);
    EXPECT_EQ(both.stages[s].input_bytes, both.stages[s + 2].input_bytes);
  }
  EXPECT_THAT(both.ties[0].holders, ElementsAre(Stage{0}, Stage{1}));
}

}  // namespace
}  // namespace weir::resolve_test
