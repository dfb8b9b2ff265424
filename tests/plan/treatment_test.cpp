// What plans say of training and of formats: words, files, parts of adapters.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/treatment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/plan.hpp"
#include "plan/job/summary.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::treatment_test {
namespace {

using testing::HasSubstr;

Plan read(const Plan& plan) { return parse_plan(to_json(plan), "p.json"); }
Plan bf16() {
  Plan plan;
  plan.model_path = "m.json";
  plan.model_sha256 = std::string(64, '0');
  plan.dtype = Dtype::bf16;
  return plan;
}

// A file of one comes back as it was, byte by byte; what is not said stands in no file.
TEST(TreatmentFile, ComesBackAsItWas) {
  EXPECT_THAT(to_json(bf16()), testing::Not(testing::ContainsRegex("lora|frozen|fp8")));
  Plan plan = bf16();
  plan.lora = {16, parse_products("linear_proj+linear_qkv").value(), 0.05};
  EXPECT_THAT(to_json(plan),
              HasSubstr("\"lora\": {\"rank\": 16, \"targets\": \"linear_qkv+linear_proj\", "
                        "\"dropout\": 0.05},\n"));
  EXPECT_EQ(read(plan), plan);
  EXPECT_EQ(to_json(read(plan)), to_json(plan));
  plan = bf16();
  plan.frozen = parse_layers("0-11,40").value();
  plan.fp8 = Fp8Recipe::blockwise;
  plan.fp8_parameters = true;
  EXPECT_THAT(to_json(plan), HasSubstr("\"fp8\": \"blockwise\",\n  \"fp8_parameters\": true,\n  "
                                       "\"frozen\": \"0-11,40\",\n"));
  EXPECT_EQ(read(plan), plan);
}

// Words that came later stand where they are said.
TEST(TreatmentFile, SaysWhatIsPredictedSharedAndOffloaded) {
  EXPECT_THAT(to_json(bf16()),
              testing::Not(testing::ContainsRegex("prediction|zero_s|offload|newton")));
  Plan plan = bf16();
  plan.prediction_layers = 2;
  plan.prediction_weight = 0.3;
  plan.dp = 8;
  plan.zero = 3;
  plan.zero_shards = 4;
  plan.zero_secondary = 2;
  plan.offload_optimizer = 0.5;
  plan.offload_activations = 0.25;
  plan.ep = 2;
  plan.overlap_experts = true;
  plan.optimizer.kind = OptimizerKind::muon;
  plan.optimizer.momentum = 0.95;
  plan.optimizer.nesterov = true;
  EXPECT_THAT(to_json(plan),
              HasSubstr("\"prediction_layers\": 2,\n  \"prediction_weight\": 0.3,\n"));
  EXPECT_THAT(to_json(plan),
              HasSubstr("\"overlap_experts\": true,\n  \"zero\": 3,\n  \"zero_shards\": 4,\n  "
                        "\"zero_secondary\": 2,\n  \"offload_optimizer\": 0.5,\n  "
                        "\"offload_activations\": 0.25,\n"));
  EXPECT_THAT(to_json(plan), HasSubstr("\"newton_schulz\": 5"));
  EXPECT_EQ(read(plan), plan);
  plan.ep = 1;
  EXPECT_THAT(complaint([&] { static_cast<void>(read(plan)); }),
              HasSubstr("p.json: overlap_experts: expected beside ep above 1 only"));
  plan.overlap_experts = false;
  plan.zero_shards = 3;
  EXPECT_THAT(complaint([&] { static_cast<void>(read(plan)); }),
              HasSubstr("p.json: zero_shards: 3: expected a divisor of the 8 devices"));
}

// Blocks behind the norm need a table in front, rotary positions, and a head of tokens.
TEST(Prediction, IsOfDecodersWithRotaryPositions) {
  Model model;
  EXPECT_THAT(cannot_predict(model).value(), HasSubstr("no table of tokens in front"));
  model.layers = {{"e", EmbeddingShape{.vocabulary = 8, .hidden = 4, .positions = 16}, ""},
                  {"b", TransformerShape{.hidden = 4}, ""},
                  {"n", NormShape{.hidden = 4}, ""},
                  {"h", HeadShape{.vocabulary = 8, .hidden = 4}, ""}};
  EXPECT_THAT(cannot_predict(model).value(), HasSubstr("learned positions"));
  set_prediction(model, 1);
  EXPECT_EQ(model.layers.size(), 4U);
  std::get<EmbeddingShape>(model.layers[0].shape).positions = 0;
  EXPECT_FALSE(cannot_predict(model));
  set_prediction(model, 1);
  EXPECT_FALSE(cannot_predict(model));
  EXPECT_EQ(model.layers.size(), 5U);
}

TEST(TreatmentFile, RefusesContradictions) {
  const auto said = [](const Plan& plan) {
    return complaint([&] { static_cast<void>(read(plan)); });
  };
  Plan plan = bf16();
  plan.lora = {16, all_products(), 0};
  plan.frozen = {{0, 1}};
  EXPECT_THAT(said(plan), HasSubstr("p.json: frozen: expected without lora"));
  plan = bf16();
  plan.fp8_parameters = true;
  EXPECT_THAT(said(plan), HasSubstr("fp8_parameters: expected beside fp8 only"));
  plan.fp8 = Fp8Recipe::delayed;
  plan.dtype = Dtype::fp32;
  EXPECT_THAT(said(plan), HasSubstr("fp8: expected beside dtype bf16 or fp16"));
  std::string text = to_json(bf16());
  text.replace(text.find("\"pp\""), 0, "\"frozen\": \"40,0-11\",\n  ");
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_plan(text, "p.json")); }),
              HasSubstr("frozen: expected ascending layers as 0-11,40"));
}

TEST(Products, AreNamedAsMegatronNamesThem) {
  EXPECT_EQ(to_string(all_products()), "linear_qkv+linear_proj+linear_fc1+linear_fc2");
  EXPECT_EQ(parse_products("linear_fc2+linear_qkv"), parse_products("linear_qkv+linear_fc2"));
  for (const char* other : {"", "linear_qkv+", "q_proj", "linear_qkv,linear_proj"})
    EXPECT_FALSE(parse_products(other).has_value()) << other;
}

// h = 64, 8 heads of 8 of which 4 have keys, gated f = 96, tp 2, r = 4: half of the heads, of the
// keys and of f are here, so qkv makes 32 + 2 x 16 = 64 numbers of 128, fc1 96 of 192. Beside those
// A makes 2 of 4 numbers; beside what reads 32 of 64, or 48 of 96, A makes all 4 of its part.
TEST(AdapterParts, AreDividedAsTheProductsBesideThem) {
  const TransformerShape half{
      .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 8, .ffn = 48, .gated = true};
  const auto parts = adapters_of(half, {4, all_products(), 0}, 2, 2);
  ASSERT_EQ(parts.size(), 4U);
  const auto sizes = [&](std::size_t i) {
    const AdapterPart& p = parts[i];
    return std::vector<std::int64_t>{p.in, p.made, p.rank, p.out, p.whole_out};
  };
  EXPECT_EQ(parts[0].name, "attention.qkv.adapter");
  EXPECT_EQ(sizes(0), (std::vector<std::int64_t>{64, 2, 4, 64, 128}));
  EXPECT_EQ(sizes(1), (std::vector<std::int64_t>{32, 4, 4, 32, 64}));
  EXPECT_EQ(parts[2].name, "mlp.up.adapter");
  EXPECT_EQ(sizes(2), (std::vector<std::int64_t>{64, 2, 4, 96, 192}));
  EXPECT_EQ(sizes(3), (std::vector<std::int64_t>{48, 4, 4, 32, 64}));
  EXPECT_EQ(parts[3].parameters(), 4 * 48 + 32 * 4);
}

// Experts share one adapter a device, for the tokens that visit them; the MLP that every token
// visits has its own.
TEST(AdapterParts, OfExpertsAreShared) {
  TransformerShape block{.hidden = 64, .heads = 8, .kv_heads = 8, .head_dim = 8, .ffn = 32};
  block.experts = 8;
  block.experts_per_token = 2;
  block.shared_ffn = 16;
  block.expert_parts = 4;
  Adapters adapters{4, {}, 0};
  adapters.targets.add(BlockProduct::linear_fc1);
  const auto parts = adapters_of(block, adapters, 1, 1);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].name, "mlp.shared.up.adapter");
  EXPECT_FALSE(parts[0].expert);
  EXPECT_EQ(parts[1].name, "mlp.experts.up.adapter");
  EXPECT_TRUE(parts[1].expert);
  EXPECT_EQ(parts[1].tokens, AdapterTokens::visits);
  EXPECT_EQ(parts[1].parameters(), 4 * (64 + 32));
}

// An embedding, three blocks and a head, of which the first two layers are frozen: what is trained
// begins with the third.
TEST(Treated, LayersSayWhatIsTrainedOfThem) {
  Model model;
  const TransformerShape block{.hidden = 16, .heads = 2, .kv_heads = 2, .head_dim = 8, .ffn = 32};
  model.layers = {{"e", EmbeddingShape{.vocabulary = 64, .hidden = 16}, ""},
                  {"b0", block, ""},
                  {"b1", block, ""},
                  {"b2", block, ""},
                  {"h", HeadShape{.vocabulary = 64, .hidden = 16}, ""}};
  Plan plan = bf16();
  plan.seq_length = 32;
  plan.frozen = {{0, 2}};
  set_treatment(model, plan);
  EXPECT_FALSE(model.layers[1].treated.backward);
  EXPECT_TRUE(model.layers[2].treated.trains());
  plan.frozen.clear();
  plan.lora = {3, all_products(), 0};
  set_treatment(model, plan);
  EXPECT_FALSE(model.layers[0].treated.backward);
  EXPECT_TRUE(model.layers[1].treated.frozen && model.layers[1].treated.trains());
  EXPECT_TRUE(model.layers[4].treated.backward && !model.layers[4].treated.trains());
  plan.tp = 2;
  EXPECT_EQ(cannot_divide(model, plan)->reason, "tp = 2 does not divide the rank 3");
  plan.tp = 1;
  plan.lora.targets = parse_products("linear_fc1_gate").value();  // its MLPs have none
  EXPECT_EQ(cannot_divide(model, plan)->reason, "the model has none of linear_fc1_gate");
}

// Shares as people write them, and not all digits of a third.
TEST(TreatmentSummary, SharesAreShort) {
  Plan plan;
  plan.offload_optimizer = 2.0 / 3;
  plan.offload_activations = 1.0 / 3;
  EXPECT_THAT(summary(plan), HasSubstr(" offload0.667 offload0.333 of activations "));
}

}  // namespace
}  // namespace weir::treatment_test
