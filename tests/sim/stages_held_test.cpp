// What stages hold, of which those that are alike are counted once.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "costmodel/table/builtin.hpp"
#include "plan/job/recompute.hpp"
#include "plan/job/resolve.hpp"
#include "plan/model/decoder.hpp"
#include "sim/search/memory_bound.hpp"

namespace weir::stages_held_test {
namespace {

// Cuts with many equal stages and with none, ends that are tied, and blocks that are rebuilt by
// twos, so that of a cut some stages rebuild a block more: each stage holds what it holds asked for
// by itself.
TEST(StagesHeld, AmongOthersAreAsEachByItself) {
  const Cluster cluster = load_cluster(std::filesystem::path(WEIR_SOURCE_DIR) /
                                       "tools/examples/clusters/dgx-a100.json");
  for (const bool tied : {false, true}) {
    Decoder d;
    d.embedding = {.vocabulary = 5000, .hidden = 512};
    d.block = {.hidden = 512, .heads = 8, .kv_heads = 8, .head_dim = 64, .ffn = 2048};
    d.blocks = 12;
    d.norm = {512, NormKind::layer_norm, 1e-5};
    d.head = {.vocabulary = 5000, .hidden = 512};
    d.head.tied = tied;
    Model model = decoder_model(d);
    model.seq_length = 512;
    for (const char* recompute : {"none", "full", "full:5"}) {
      Plan plan;
      plan.dtype = Dtype::bf16;
      plan.seq_length = 512;
      plan.recompute = parse_recompute_word(recompute).value();
      const Costs costs =
          builtin_costs(model, plan.seq_length, plan.dtype, cluster, {plan.split()});
      const LayerCosts known(plan, model, costs, cluster.stack);
      for (const std::vector<int>& cuts :
           {std::vector{0, 4, 7, 10, 15}, std::vector{0, 3, 5, 7, 9, 11, 15},
            std::vector{0, 1, 2, 9, 13, 14, 15}}) {
        std::vector<StagePart> stages;
        for (std::size_t s = 0; s + 1 < cuts.size(); ++s)
          stages.push_back(stage_part(*known.part(), {cuts[s], cuts[s + 1]}));
        const std::vector<StageHeld> held = stages_held(plan, known, stages, cluster);
        ASSERT_EQ(held.size(), stages.size());
        for (std::size_t s = 0; s < stages.size(); ++s) {
          SCOPED_TRACE(testing::Message()
                       << recompute << ", stage " << s << " of " << stages.size());
          const StageHeld alone = stages_held(plan, known, {&stages[s], 1}, cluster).front();
          EXPECT_EQ(held[s].always, alone.always);
          EXPECT_EQ(held[s].kept, alone.kept);
          EXPECT_EQ(held[s].kept_split, alone.kept_split);
          EXPECT_EQ(held[s].forward, alone.forward);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir::stages_held_test
