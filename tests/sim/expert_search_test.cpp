// What a search does with experts: every way to share them that their number allows, and none where
// a model has none.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/search/space/open_choices.hpp"
#include "sim/search/space/space.hpp"

namespace weir::expert_search_test {
namespace {

using testing::ElementsAre;

Model with_experts(std::int64_t experts) {
  TransformerShape block{.hidden = 16, .heads = 4, .kv_heads = 4, .head_dim = 4, .ffn = 64};
  block.experts = experts;
  block.experts_per_token = experts > 1 ? 2 : 1;
  Model model;
  model.layers = {{"block.0", block, ""}, {"block.1", block, ""}};
  return model;
}

// Eight devices; 12 experts can be shared by 1, 2 and 4 of them.
TEST(ExpertSearch, SharesExpertsWhereTheirNumberAllowsIt) {
  SweepRequest request;
  request.base.seq_length = 32;
  request.devices = 8;
  request.ep.clear();
  Cluster cluster;
  cluster.devices_per_node = 8;
  EXPECT_THAT(with_open_choices(request, with_experts(12), cluster).ep, ElementsAre(1, 2, 4));
  EXPECT_THAT(with_open_choices(request, with_experts(1), cluster).ep, ElementsAre(1));
}

// All of tp divide each expert, or none do; of one tensor-parallel device these are the same. The
// plan in use has another way.
TEST(ExpertSearch, DividesThemByTensorParallelismOrNot) {
  SweepRequest request;
  request.base.seq_length = 32;
  request.devices = 8;
  request.tp = {1, 4};
  request.sequence_parallel_where_it_can = true;
  request.etp.clear();
  const Cluster cluster;
  EXPECT_THAT(with_open_choices(request, with_experts(1), cluster).etp, ElementsAre(0));
  const SweepRequest open = with_open_choices(request, with_experts(8), cluster);
  EXPECT_THAT(open.etp, ElementsAre(0, 1));
  std::vector<std::pair<int, int>> degrees;
  for (const Plan& plan : with_degrees(open, with_experts(8)))
    if (plan.dp == 1 && plan.ep == 1 && plan.cp == 1) degrees.emplace_back(plan.tp, plan.etp);
  EXPECT_THAT(degrees, ElementsAre(std::pair(1, 0), std::pair(4, 0), std::pair(4, 1)));
  ResolvedPlan in_use;
  in_use.plan.etp = 2;
  request.baseline = in_use;
  EXPECT_THAT(with_open_choices(request, with_experts(8), cluster).etp, ElementsAre(0, 1, 2));
}

// dp of 2 and 4 with ep of 1 and 4: the second does not divide the first.
TEST(ExpertSearch, SharesThemAmongReplicasAlone) {
  SweepRequest request;
  request.base.seq_length = 32;
  request.dp = {2, 4};
  request.ep = {1, 4};
  const Model model = with_experts(8);
  int all = 0, can = 0;
  for (const Plan& plan : with_degrees(request, model)) {
    ++all;
    can += cannot_divide(model, plan) ? 0 : 1;
  }
  EXPECT_EQ(all, 4);
  EXPECT_EQ(can, 3);
  EXPECT_EQ(splits(request, model).size(), 2U);
}

}  // namespace
}  // namespace weir::expert_search_test
