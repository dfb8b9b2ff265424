// Families of today: parameters as published, to the last one, and what of their configs is refused
// or left out. Counts without another source are those of keras-team/keras-hub@71453d0
// (keras_hub/src/models/*/*_presets.py) or sums of tensors in AlexsJones/llmfit@bab8c01
// (data/hf_models.json, parameters_raw).
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "plan/model/hugging_face/hugging_face.hpp"
#include "plan/model/layer_kinds.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/plan/counted.hpp"
#include "tests/plan/samples.hpp"

namespace weir::expert_families_test {
namespace {

using testing::HasSubstr;

Model read(const std::string& keys) {
  return hugging_face_model(parse_json("{" + keys + "}", "config.json"), "config.json");
}

// Width, blocks, heads, the MLP's width, vocabulary, and keys of the family's own.
std::string sizes(const std::string& family, std::array<std::int64_t, 5> n,
                  const std::string& more = "") {
  return "\"model_type\":\"" + family + "\",\"hidden_size\":" + std::to_string(n[0]) +
         ",\"num_hidden_layers\":" + std::to_string(n[1]) +
         ",\"num_attention_heads\":" + std::to_string(n[2]) +
         ",\"intermediate_size\":" + std::to_string(n[3]) +
         ",\"vocab_size\":" + std::to_string(n[4]) + ",\"max_position_embeddings\":4096" + more;
}

const std::string kDeepSeekV3 =
    sizes("deepseek_v3", {7168, 61, 128, 18432, 129280}, R"(,"num_nextn_predict_layers":1)");
const std::string kDeepSeekV2Lite =
    sizes("deepseek_v2", {2048, 27, 16, 10944, 102400},
          R"(,"q_lora_rank":null,"moe_intermediate_size":1408,"n_routed_experts":64,
  "n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1)");
const std::string kGptOss =
    sizes("gpt_oss", {2880, 24, 64, 2880, 201088}, R"(,"num_local_experts":32)");
const std::string kQwen2Moe = sizes("qwen2_moe", {2048, 24, 16, 5632, 151936});
const std::string kQwen3Moe =
    sizes("qwen3_moe", {2048, 48, 32, 6144, 151936}, R"(,"head_dim":128,"num_key_value_heads":4)");
const std::string kGemma3 = sizes("gemma3_text", {1152, 26, 4, 6912, 262144},
                                  R"(,"num_key_value_heads":1,"sliding_window":512)");
const std::string kPhi = sizes("phi", {2560, 32, 32, 10240, 51200});
const std::string kBloom =
    R"("model_type":"bloom","hidden_size":14336,"n_layer":70,"n_head":112,"vocab_size":250880)";
const std::string kStarCoder =
    R"("model_type":"gpt_bigcode","n_embd":6144,"n_layer":40,"n_head":48,"n_positions":8192,
  "vocab_size":49152)";

double forward(const Layer& layer, std::int64_t seq_length) {
  return std::visit([&](const auto& s) { return kinds::forward_flops(s, seq_length); }, layer.shape)
      .count();
}
double training(const Model& model, std::int64_t seq_length) {
  double total = 0;
  for (const Layer& layer : model.layers) total += 3 * forward(layer, seq_length);
  return total;
}

TEST(ExpertFamilies, HaveTheirParameters) {
  EXPECT_EQ(parameter_count(read(sizes("mixtral", {6144, 56, 48, 16384, 32768}))), 140'630'071'296);
  EXPECT_EQ(parameter_count(read(kQwen2Moe)), 14'315'784'192);
  EXPECT_EQ(parameter_count(read(sizes("qwen2_moe", {3584, 28, 28, 18944, 151936},
                                       R"(,"num_key_value_heads":4,"num_experts":64,
    "num_experts_per_tok":8,"moe_intermediate_size":2560,
    "shared_expert_intermediate_size":20480)"))),
            57'408'658'944);
  EXPECT_EQ(parameter_count(read(kQwen3Moe)), 30'532'122'624);
  EXPECT_EQ(parameter_count(read(sizes("qwen3_moe", {4096, 94, 64, 12288, 151936},
                                       R"(,"head_dim":128,"num_key_value_heads":4,
    "moe_intermediate_size":1536)"))),
            235'093'634'560);
  EXPECT_EQ(parameter_count(read(kGptOss)), 20'914'757'184);
  EXPECT_EQ(parameter_count(read(sizes("gpt_oss", {2880, 36, 64, 2880, 201088}))), 116'829'156'672);
}

// A V3 block's attention: 7168 1536 + 1536 + 1536 128 192 + 7168 576 + 512 + 512 128 256 +
// 128 128 7168 = 187,107,328 (187,105,280 of them in products). Published without the prediction
// layer: 671,026,419,200 (deepseek-ai/DeepSeek-V3@9b4e978: README_WEIGHTS.md says 671B), of which
// 14,848 = 58 256 keep the experts' loads alike.
TEST(ExpertFamilies, DeepSeeksHaveTheirParameters) {
  const Model v3 = read(kDeepSeekV3);
  EXPECT_EQ(parameter_count(v3), 671'026'419'200);
  const std::int64_t first = parameter_count(v3.layers[1]);
  EXPECT_EQ(first, 187'107'328 + 2 * 7168 + 3 * std::int64_t{7168} * 18432);
  ASSERT_EQ(v3.remarks.size(), 1U);
  EXPECT_THAT(v3.remarks[0], HasSubstr("num_nextn_predict_layers: 1: layers that predict further "
                                       "tokens, which the class leaves out, come in by"));
  EXPECT_EQ(parameter_count(read(kDeepSeekV2Lite)), 15'706'484'224);
  EXPECT_EQ(parameter_count(read(sizes("deepseek_v2", {5120, 60, 128, 12288, 102400},
                                       R"(,"moe_intermediate_size":1536,"n_routed_experts":160,
    "n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1)"))),
            235'741'434'880);
}

// One more block of 187,107,328 + 2 x 7168 + 3 x 7168 x 2048 x (256 + 1) + 256 x 7168 + 256 =
// 11,507,286,272 numbers, 11.5B in README_WEIGHTS.md; in front of it 2 x 7168^2 and three norms of
// 7168. With the module's own copies of table and head, 2 x 129,280 x 7168, the weights' files have
// 684,489,845,504: 671B and 14B, as the model's page says.
TEST(ExpertFamilies, DeepSeekPredictsOneTokenFurther) {
  Model v3 = read(kDeepSeekV3);
  EXPECT_EQ(v3.prediction_layers, 1);
  ASSERT_EQ(v3.layers.size(), 64U);
  EXPECT_EQ(parameter_count(v3.layers[61]), 11'507'286'272);
  set_prediction(v3, 1);
  EXPECT_EQ(v3.layers.at(63).name, "prediction.0");
  EXPECT_EQ(parameter_count(v3.layers[63]), 11'507'286'272 + 2 * 7168 * 7168 + 3 * 7168);
  const std::int64_t copies = 2 * std::int64_t{129280} * 7168;
  EXPECT_EQ(parameter_count(v3) + copies, 684'489'845'504);
  // As often as it is asked for, and gone again.
  set_prediction(v3, 2);
  EXPECT_EQ(v3.layers.size(), 66U);
  EXPECT_EQ(to_layer_list(v3), to_layer_list(read(kDeepSeekV3)));
  set_prediction(v3, 0);
  EXPECT_EQ(parameter_count(v3), 671'026'419'200);
}

// Four of eight groups are drawn first (DeepSeek-V3's config); a token that visits all groups, or a
// greedy V2, draws from all experts. A layer list says it and reads back.
TEST(ExpertFamilies, DeepSeeksDrawGroupsFirst) {
  const auto block = [](const std::string& config) {
    return std::get<TransformerShape>(read(config).layers.at(4).shape);
  };
  const std::string eight = R"(,"n_group":8,"topk_group":4)";
  EXPECT_EQ(block(kDeepSeekV3 + eight).expert_groups, 8);
  EXPECT_EQ(block(kDeepSeekV3 + eight).groups_per_token, 4);
  EXPECT_EQ(block(kDeepSeekV3 + R"(,"n_group":8,"topk_group":8)").expert_groups, 0);
  EXPECT_EQ(block(kDeepSeekV2Lite + R"(,"n_group":8,"topk_group":4,"topk_method":"greedy")")
                .expert_groups,
            0);
  EXPECT_THAT(complaint([&] { read(kDeepSeekV3 + R"(,"n_group":7,"topk_group":4)"); }),
              HasSubstr("n_group: expected two or more groups, as many as divide the experts"));
  const std::string list = to_layer_list(read(kDeepSeekV3 + eight));
  EXPECT_THAT(list, HasSubstr("\"expert_groups\":8"));
  const auto file = std::filesystem::temp_directory_path() / "weir-expert-groups-test.json";
  write_file_atomically(file, list);
  Model again = load_model(file);
  std::filesystem::remove(file);
  EXPECT_EQ(std::get<TransformerShape>(again.layers.at(4).shape).groups_per_token, 4);
}

TEST(ExpertFamilies, DenseOnesHaveTheirParameters) {
  const auto qwen3 = [](std::array<std::int64_t, 5> n, const std::string& more) {
    return parameter_count(read(sizes("qwen3", n, R"(,"num_key_value_heads":8)" + more)));
  };
  const std::string tied = R"(,"tie_word_embeddings":true)";
  EXPECT_EQ(qwen3({1024, 28, 16, 3072, 151936}, tied), 596'049'920);
  EXPECT_EQ(qwen3({5120, 64, 64, 25600, 151936}, ""), 32'762'123'264);
  EXPECT_EQ(parameter_count(
                read(sizes("gemma", {2048, 18, 8, 16384, 256000}, R"(,"num_key_value_heads":1)"))),
            2'506'172'416);
  EXPECT_EQ(parameter_count(read(sizes("gemma", {3072, 28, 16, 24576, 256000}))), 8'537'680'896);
  EXPECT_EQ(parameter_count(read(sizes("gemma2", {2304, 26, 8, 9216, 256000}))), 2'614'341'888);
  EXPECT_EQ(parameter_count(read(
                sizes("gemma2", {3584, 42, 16, 14336, 256000}, R"(,"num_key_value_heads":8)"))),
            9'241'705'984);
  EXPECT_EQ(parameter_count(read(kGemma3)), 999'885'952);
  EXPECT_EQ(parameter_count(read(sizes("gemma3_text", {5376, 62, 32, 21504, 262144},
                                       R"(,"num_key_value_heads":16,"head_dim":128)"))),
            27'009'002'240);
  EXPECT_EQ(parameter_count(read(kPhi)), 2'779'683'840);
  EXPECT_EQ(parameter_count(read(sizes("phi", {2048, 24, 32, 8192, 51200}))), 1'418'270'720);
  // Le Scao et al., 2022, table 3.
  EXPECT_EQ(parameter_count(read(kBloom)), 176'247'271'424);
  EXPECT_EQ(parameter_count(read(kStarCoder)), 15'517'456'384);
}

// More sizes of the same families; Kimi-K2's checkpoint is these and the scales of its weights.
TEST(ExpertFamilies, OtherSizesHaveTheirParameters) {
  const std::string eight = R"(,"num_key_value_heads":8)", one = R"(,"num_key_value_heads":1)";
  const std::string tied = eight + R"(,"tie_word_embeddings":true)";
  const std::string latent = R"(,"n_group":1,"topk_group":1,"first_k_dense_replace":1)";
  struct Published {
    std::string config;
    std::int64_t parameters;
  };
  const auto star = [](int width, int blocks, int heads, int tokens) {
    return R"("model_type":"gpt_bigcode","n_positions":)" +
           std::to_string(width == 2048 ? 2048 : 8192) + ",\"n_embd\":" + std::to_string(width) +
           ",\"n_layer\":" + std::to_string(blocks) + ",\"n_head\":" + std::to_string(heads) +
           ",\"vocab_size\":" + std::to_string(tokens);
  };
  const auto bloom = [](int width, int blocks, int heads) {
    return R"("model_type":"bloom","vocab_size":250880,"hidden_size":)" + std::to_string(width) +
           ",\"n_layer\":" + std::to_string(blocks) + ",\"n_head\":" + std::to_string(heads);
  };
  const std::vector<Published> all{
      {sizes("qwen3", {2048, 28, 16, 6144, 151936}, tied), 1'720'574'976},
      {sizes("qwen3", {2560, 36, 32, 9728, 151936}, tied), 4'022'468'096},
      {sizes("qwen3", {5120, 40, 40, 17408, 151936}, eight), 14'768'307'200},
      {sizes("qwen3_moe", {6144, 62, 96, 8192, 151936},
             eight + R"(,"head_dim":128,"num_experts":160,"moe_intermediate_size":2560)"),
       480'154'875'392},
      {sizes("kimi_k2", {7168, 61, 64, 18432, 163840}, latent + R"(,"n_routed_experts":384)"),
       1'026'408'232'448},
      {sizes("deepseek_v3", {2048, 27, 16, 11264, 163840},
             latent + R"(,"q_lora_rank":null,"n_routed_experts":64,"n_shared_experts":2,
  "num_experts_per_tok":6,"moe_intermediate_size":1408)"),
       15'960'110'208},
      {sizes("gemma2", {4608, 46, 32, 36864, 256000},
             R"(,"num_key_value_heads":16,"head_dim":128)"),
       27'227'128'320},
      {sizes("gemma3_text", {640, 18, 4, 2048, 262144}, one + R"(,"head_dim":256)"), 268'098'176},
      {sizes("gemma3_text", {2560, 34, 8, 10240, 262144}, R"(,"num_key_value_heads":4)"),
       3'880'099'328},
      {sizes("gemma3_text", {3840, 48, 16, 15360, 262144}, eight), 11'765'788'416},
      {bloom(1024, 24, 16), 559'214'592},
      {bloom(2560, 30, 32), 3'002'557'440},
      {star(768, 20, 12, 49152), 164'144'128},
      {star(2048, 24, 16, 49280), 1'124'886'528}};
  for (const Published& p : all)
    EXPECT_EQ(parameter_count(read(p.config)), p.parameters) << p.config;
}

// What is counted is what is allocated.
TEST(ExpertFamilies, TensorsHaveAsManyElementsAsAreCounted) {
  for (const std::string& config : {kDeepSeekV3, kDeepSeekV2Lite, kGptOss, kQwen2Moe, kQwen3Moe,
                                    kGemma3, kPhi, kBloom, kStarCoder}) {
    expect_counted_as_allocated(read(config));
  }
}

// A layer list has words for all of it.
TEST(ExpertFamilies, AreLayerListsToo) {
  const auto file = std::filesystem::temp_directory_path() / "weir-expert-families-test.json";
  for (const std::string& config : {kDeepSeekV3, kGptOss, kQwen2Moe, kGemma3, kPhi}) {
    const Model model = read(config);
    const std::string list = to_layer_list(model);
    write_file_atomically(file, list);
    Model again = load_model(file);
    again.name = model.name;
    EXPECT_EQ(to_layer_list(again), list) << model.family;
    EXPECT_EQ(parameter_count(again), parameter_count(model)) << model.family;
  }
  std::filesystem::remove(file);
}

// Megatron-Bridge's rows divide TFLOP/s by tokens/s: Qwen3-30B 22.8 to 23.1 GFLOP a token of 4096,
// causal scores half, which is 23.08 by the formula of docs/theory.md with that half. Here scores
// count whole, so 3 times 48 blocks' 2 4096 4096 of them are taken off.
TEST(ExpertFamilies, OnlyVisitedExpertsCompute) {
  constexpr double kTokens = 4096;
  const double a_token = training(read(kQwen3Moe), 4096) / kTokens;
  const double masked = 3 * 48 * 2.0 * 4096 * 4096;
  EXPECT_NEAR(a_token - masked, 23.08e9, 0.01e9);
  // V3 without its prediction layer: 250.45 GFLOP; 61 blocks, 128 heads of 192 and of 128.
  const double v3 = training(read(kDeepSeekV3), 4096) / kTokens;
  EXPECT_NEAR(v3 - 3 * 61 * 4096.0 * 128 * (192 + 128), 250.45e9, 0.1e9);
}

// A window of 128: of 256 tokens the first 128 see half as many on average, the others all 128:
// 96 keys where without one there are 128; 4 s q of twice 96.
TEST(ExpertFamilies, WindowsLeaveScoresOut) {
  const Model model = read(kGptOss);
  const auto& windowed = std::get<TransformerShape>(model.layers[1].shape);
  const auto& whole = std::get<TransformerShape>(model.layers[2].shape);
  EXPECT_EQ(windowed.window, 128);
  EXPECT_EQ(whole.window, 0);
  EXPECT_EQ(keys_seen(windowed, 256), 192);
  const double less = forward(model.layers[2], 256) - forward(model.layers[1], 256);
  EXPECT_EQ(less, 4.0 * 256 * (256 - 192) * 64 * 64);
}

TEST(ExpertFamilies, RefusalsNameTheKey) {
  const auto refusal = [](const std::string& keys) {
    return complaint([&] { static_cast<void>(read(keys)); });
  };
  EXPECT_THAT(refusal(kDeepSeekV3 + R"(,"moe_layer_freq":2)"),
              HasSubstr("config.json: moe_layer_freq: expected 1"));
  EXPECT_THAT(refusal(kDeepSeekV3 + R"(,"num_experts_per_tok":512)"),
              HasSubstr("config.json: num_experts_per_tok: exceeds n_routed_experts = 256"));
  EXPECT_THAT(refusal(sizes("deepseek_v2", {64, 2, 4, 128, 100})),
              HasSubstr("config.json: num_experts_per_tok: is missing"));
  EXPECT_THAT(refusal(kGptOss + R"(,"layer_types":["full_attention"])"),
              HasSubstr("config.json: layer_types: expected 24, one a layer"));
  EXPECT_THAT(refusal(kPhi + R"(,"qk_layernorm":true)"),
              HasSubstr("config.json: qk_layernorm: expected false"));
}

// Blocks 1, 3 and 5 of 6 have experts at a step of 2, and block 3 does not where it is named.
TEST(ExpertFamilies, QwensDenseBlocksAreWhereTheConfigSays) {
  const Model model = read(sizes("qwen2_moe", {64, 6, 4, 128, 100},
                                 R"(,"num_key_value_heads":4,"decoder_sparse_step":2,
    "mlp_only_layers":[3])"));
  std::string experts;
  for (std::size_t i = 1; i <= 6; ++i)
    experts += std::get<TransformerShape>(model.layers[i].shape).experts > 1 ? 'e' : 'd';
  EXPECT_EQ(experts, "deddde");
}

TEST(ExpertFamilies, RealConfigsHaveTheirParameters) {
  const auto samples = sample_folder("hf-config");
  if (!samples) GTEST_SKIP() << "no sample files";
  EXPECT_EQ(parameter_count(load_model(*samples / "deepseek-r1.json")), 671'026'419'200);
  EXPECT_EQ(parameter_count(load_model(*samples / "simai_qwen3-235B-A22B.json")), 235'093'634'560);
  EXPECT_EQ(parameter_count(load_model(*samples / "phi-2.json")), 2'779'683'840);
}

}  // namespace
}  // namespace weir::expert_families_test
