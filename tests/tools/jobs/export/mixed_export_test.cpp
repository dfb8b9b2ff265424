// Models whose first blocks are dense and the others of experts, as DeepSeek's are, in
// Megatron-LM's arguments: they come back equal, or what differs is named.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plan/model/readers/layer_list.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/megatron/export/export_blocks.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::mixed_export_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// DeepSeek-V3's kind of model, small: of 8 blocks 3 are dense, 5 have 8 experts in 4 groups, of
// which a token visits 2, and one shared one.
Model like_deepseek() {
  Decoder d = as_decoder(llama_like(8)).value();
  d.block.kv_heads = d.block.heads;
  d.block.latent = {.query = 32, .key_value = 16, .rotary = 4, .value = 8};
  d.block.head_dim = 12;
  d.first_block = d.block;
  d.first_blocks = 3;
  d.block.ffn = 48;
  d.block.experts = 8;
  d.block.experts_per_token = 2;
  d.block.expert_groups = 4;
  d.block.groups_per_token = 2;
  d.block.shared_ffn = 48;
  d.block.router_bias = true;
  Model model = decoder_model(d, 128);
  model.initializer_range = 0.006;
  return model;
}

// Its 4 replicas share the experts of each layer in twos.
Plan in_twos() {
  Plan plan = example();
  plan.ep = 2;
  plan.expert_dispatch = ExpertDispatch::alltoall;
  plan.sequence_parallel = plan.overlap_grad_reduce = true;
  plan.attention = AttentionKind::fused;
  plan.zero = 1;
  return plan;
}

TEST(MixedExport, RunsOfBlocksAreAListsTerms) {
  EXPECT_EQ(layer_frequencies({false, false, false, true, true}), "([0]*3+[1]*2)");
  EXPECT_EQ(layer_frequencies({true, false, true}), "([1]*1+[0]*1+[1]*1)");
}

// Dense blocks are 192 wide and experts 48; of a head's 12 numbers 4 are turned and 8 are not.
TEST(MixedExport, DenseFirstBlocksAndLatentAttentionHaveMegatronsArguments) {
  const ExportedJob job = export_megatron(loaded(in_twos(), like_deepseek()), {});
  const std::string& text = job.files.front().text;
  for (const char* argument :
       {"--moe-layer-freq '([0]*3+[1]*5)'", "--ffn-hidden-size 192", "--moe-ffn-hidden-size 48",
        "--num-experts 8", "--moe-router-topk 2", "--moe-router-num-groups 4",
        "--moe-router-group-topk 2", "--moe-shared-expert-intermediate-size 48",
        "--moe-router-enable-expert-bias", "--moe-router-score-function sigmoid",
        "--multi-latent-attention", "--q-lora-rank 32", "--kv-lora-rank 16", "--qk-head-dim 8",
        "--qk-pos-emb-head-dim 4", "--v-head-dim 8", "--qk-layernorm",
        "--rotary-scaling-factor 1.0"}) {
    EXPECT_THAT(text, HasSubstr(std::string(" ") + argument + " ")) << argument;
  }
  EXPECT_THAT(text, Not(HasSubstr("group-query-attention")));
}

TEST(MixedExport, ReadsBackAsTheSameModelAndPlan) {
  for (const int predicting : {0, 1}) {
    Plan words = in_twos();
    words.prediction_layers = predicting;
    Model model = like_deepseek();
    set_prediction(model, predicting);
    const ResolvedPlan plan = loaded(words, model);
    const ExportedJob job = export_megatron(plan, {});
    const Job read = read_megatron_job(job.files.front().text, "megatron.sh", {});
    EXPECT_EQ(read.plan, plan.plan);
    EXPECT_EQ(to_layer_list(read.model), to_layer_list(plan.model));
    EXPECT_EQ(parameter_count(read.model), parameter_count(plan.model));
    EXPECT_THAT(names(job.not_carried), ElementsAre("model", "data"));
  }
}

// Experts in every second block, without latent attention.
TEST(MixedExport, BlocksThatAlternateReadBack) {
  Model model = llama_like(8);
  for (std::size_t block = 1; block <= 8; block += 2) {
    auto& shape = std::get<TransformerShape>(model.layers[block + 1].shape);
    shape.experts = 4;
    shape.experts_per_token = 1;
    shape.ffn = 96;
  }
  const ResolvedPlan plan = loaded(in_twos(), model);
  const std::string text = export_megatron(plan, {}).files.front().text;
  EXPECT_THAT(text, HasSubstr("--moe-layer-freq '([0]*1+[1]*1+[0]*1+[1]*1+"));
  const Job read = read_megatron_job(text, "megatron.sh", {});
  EXPECT_EQ(read.plan, plan.plan);
  EXPECT_EQ(to_layer_list(read.model), to_layer_list(plan.model));
}

// Positions scaled as YaRN does: the model has that it is so, and none of its numbers.
TEST(MixedExport, ScaledPositionsOfLatentAttentionAreNamed) {
  Model model = like_deepseek();
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape))
      block->angles.scaling = RotaryScaling::other;
  }
  const ExportedJob job = export_megatron(loaded(in_twos(), model), {});
  EXPECT_THAT(job.files.front().text, Not(HasSubstr("rotary-scaling-factor")));
  EXPECT_THAT(job.not_carried, Contains(testing::Field(&Remark::text, HasSubstr("--mscale"))));
}

// What is neither dense nor of experts has no argument a block: the first that has another is said.
TEST(MixedExport, OtherDifferencesAreRefusedByTheirWords) {
  const auto refusal = [](std::size_t block, auto change) {
    Model model = like_deepseek();
    change(std::get<TransformerShape>(model.layers[block + 1].shape));
    const ResolvedPlan plan = loaded(in_twos(), model);
    return complaint([&] { static_cast<void>(export_megatron(plan, {})); });
  };
  EXPECT_THAT(refusal(5, [](TransformerShape& b) { b.window = 32; }),
              HasSubstr("layers: blocks 3 and 5 differ in window"));
  EXPECT_THAT(refusal(1, [](TransformerShape& b) { b.ffn = 256; }),
              HasSubstr("layers: blocks 0 and 1 differ in ffn"));
  EXPECT_THAT(refusal(6,
                      [](TransformerShape& b) {
                        b.experts = 16;
                        b.shared_ffn = 96;
                      }),
              HasSubstr("layers: blocks 3 and 6 differ in experts, shared_ffn"));
  EXPECT_EQ(refusal(0, [](TransformerShape&) {}), "no complaint");
}

}  // namespace
}  // namespace weir::mixed_export_test
