// What plans say of CUDA graphs and of sequences' lengths: words, quantiles, files.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/plan.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::graphs_and_lengths_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Plan small() {
  Plan plan;
  plan.model_path = "m.json";
  plan.model_sha256 = std::string(64, '0');
  plan.seq_length = 4096;
  return plan;
}
Plan read(const Plan& plan) { return parse_plan(to_json(plan), "p.json"); }

TEST(CudaGraphs, WordsComeBack) {
  for (const char* word :
       {"none", "step", "blocks", "attn", "attn+mlp", "attn+moe_router+moe_preprocess", "moe"})
    EXPECT_EQ(to_string(parse_cuda_graphs(word).value()), word);
  EXPECT_EQ(to_string(parse_cuda_graphs("moe_router,attn").value()), "attn+moe_router");
  const auto moe_beside = [](GraphPart part) {
    return cannot_record(CudaGraphs().add(GraphPart::moe).add(part));
  };
  EXPECT_EQ(moe_beside(GraphPart::moe_router), "expected moe without moe_router");
  EXPECT_EQ(moe_beside(GraphPart::attn), std::nullopt);
  EXPECT_EQ(cannot_record(CudaGraphs::of_step()), std::nullopt);
  for (const char* none : {"", "all", "attn+", "moe_preprocess", "moe+moe_router", "step+attn"})
    EXPECT_FALSE(parse_cuda_graphs(none)) << none;
  EXPECT_TRUE(CudaGraphs::of_step().has(GraphPart::moe));
  EXPECT_FALSE(parse_cuda_graphs("attn")->has(GraphPart::mlp));
}

// 201 lengths, 1 to 201 in another order: each second of them. Up to 101 are kept as they are.
TEST(Lengths, QuantilesOfWhatIsCounted) {
  std::vector<int> lengths;
  for (int l = 201; l >= 1; --l) lengths.push_back(l);
  const std::vector<int> quantiles = quantiles_of(lengths);
  EXPECT_EQ(quantiles.size(), 101U);
  EXPECT_EQ(quantiles[0], 1);
  EXPECT_EQ(quantiles[1], 3);
  EXPECT_EQ(quantiles[100], 201);
  EXPECT_THAT(quantiles_of({7, 3, 5}), ElementsAre(3, 5, 7));
}

// With half the most as its mean it is uniform; below that short ones are frequent, and the mean of
// the quantiles is what was said, to their rounding.
TEST(Lengths, QuantilesOfAMeanAndAMost) {
  const auto uniform = quantiles_of(500.0, 1000);
  ASSERT_TRUE(uniform);
  EXPECT_EQ((*uniform)[50], 500);
  EXPECT_EQ((*uniform)[100], 1000);
  const auto skewed = quantiles_of(900.0, 4096);
  ASSERT_TRUE(skewed);
  double sum = 0;
  for (std::size_t q = 0; q + 1 < skewed->size(); ++q)
    sum += ((*skewed)[q] + (*skewed)[q + 1]) / 2.0;
  EXPECT_NEAR(sum / 100, 900, 3);
  EXPECT_LT((*skewed)[50], 900);
  EXPECT_FALSE(quantiles_of(5000.0, 4096));
  EXPECT_FALSE(quantiles_of(0.0, 4096));
}

TEST(GraphsAndLengths, ComeBackInAFile) {
  EXPECT_THAT(to_json(small()), Not(testing::ContainsRegex("lengths|graphs")));
  Plan plan = small();
  plan.cuda_graphs = CudaGraphs::of_blocks();
  plan.lengths = {{16, 200, 4096}, RowsOf::packed};
  EXPECT_THAT(to_json(plan), HasSubstr("\"cuda_graphs\": \"blocks\",\n"));
  EXPECT_THAT(to_json(plan),
              HasSubstr("\"lengths\": {\"quantiles\": [16,200,4096], \"rows\": \"packed\"},\n"));
  EXPECT_EQ(read(plan), plan);
  EXPECT_EQ(to_json(read(plan)), to_json(plan));
}

// Devices by each sequence's length: only where none of them would wait for another's.
TEST(GraphsAndLengths, DevicesThatFollowLengths) {
  Plan plan = small();
  plan.cp = 2;
  plan.dp = 4;
  plan.lengths = {{16, 4096}, RowsOf::packed, 512};
  EXPECT_THAT(to_json(plan), HasSubstr("\"rows\": \"packed\", \"dynamic_cp\": 512},\n"));
  EXPECT_EQ(read(plan), plan);
  EXPECT_EQ(to_text(plan.lengths), "lengths 16 to 4096, packed, a device up to 512 tokens");
  const auto refused = [&](auto change, const char* reason) {
    Plan changed = plan;
    change(changed);
    EXPECT_EQ(cannot_lie_in_rows(changed).value().key, "lengths");
    EXPECT_THAT(cannot_lie_in_rows(changed).value().reason, HasSubstr(reason));
  };
  refused([](Plan& p) { p.lengths.rows = RowsOf::cut; }, "dynamic_cp = 512: expected with packed");
  refused([](Plan& p) { p.pp = 2; }, "expected without a pipeline");
  refused([](Plan& p) { p.ep = 2; }, "expected without expert parallelism");
  refused([](Plan& p) { p.zero = 3; }, "expected without ZeRO 3");
  refused([](Plan& p) { p.cuda_graphs = CudaGraphs::of_blocks(); }, "without CUDA graphs");
  refused([](Plan& p) { p.dp = 3; }, "expected a power of two of cp x dp devices, not 6");
  refused([](Plan& p) { p.cp = p.dp = 1; }, "expected a power of two of cp x dp devices, not 1");
  refused([](Plan& p) { p.dp = 2; },
          "the longest sequence has 4096 tokens, above the 2048 of 4 devices");
}

// A row holds no longer one, but for what is cut; quantiles ascend.
TEST(GraphsAndLengths, AreRefusedInOneLine) {
  Plan plan = small();
  plan.lengths = {{16, 5000}, RowsOf::packed};
  EXPECT_THAT(complaint([&] { static_cast<void>(read(plan)); }),
              HasSubstr("p.json: lengths: the longest has 5000 tokens, expected at most the 4096"));
  plan.lengths.rows = RowsOf::cut;
  EXPECT_EQ(read(plan), plan);
  plan.lengths.quantiles = {16, 8};
  EXPECT_THAT(complaint([&] { static_cast<void>(read(plan)); }),
              HasSubstr("lengths.quantiles: expected 1 to 1001 ascending numbers"));
  std::string text = to_json(small());
  text.replace(text.find("\"slots\""), 0, "\"cuda_graphs\": \"none\",\n  ");
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_plan(text, "p.json")); }),
              HasSubstr("cuda_graphs: expected step, blocks, or parts of blocks"));
}

}  // namespace
}  // namespace weir::graphs_and_lengths_test
