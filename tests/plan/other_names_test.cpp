// Families that are known blocks under another name: parameters as published, or as the class of
// transformers 5.24 has them (AutoModelForCausalLM.from_config on a meta device, with the router's
// correction biases, which it keeps as buffers), to the last one. Texts of models that see; blocks
// that are not known.
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

namespace weir::other_names_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Model model_of(const std::string& text) {
  return hugging_face_model(parse_json(text, "config.json"), "config.json");
}

// Width, blocks, heads, keys' heads, the MLP's width, vocabulary, and keys of the family's own.
std::string config(const std::string& family, std::array<std::int64_t, 6> n,
                   const std::string& more = "") {
  return "{\"model_type\":\"" + family + "\",\"hidden_size\":" + std::to_string(n[0]) +
         ",\"num_hidden_layers\":" + std::to_string(n[1]) +
         ",\"num_attention_heads\":" + std::to_string(n[2]) +
         ",\"num_key_value_heads\":" + std::to_string(n[3]) +
         ",\"intermediate_size\":" + std::to_string(n[4]) +
         ",\"vocab_size\":" + std::to_string(n[5]) + ",\"max_position_embeddings\":32768" + more +
         "}";
}

const std::string kGlm45 = config("glm4_moe", {5120, 92, 96, 8, 12288, 151552},
                                  R"(,"head_dim":128,"attention_bias":true,"n_routed_experts":160,
  "moe_intermediate_size":1536,"first_k_dense_replace":3,"use_qk_norm":true)");
const std::string kMiniMax = config("minimax_m2", {3072, 62, 48, 8, 1536, 200064},
                                    R"(,"head_dim":128,"num_local_experts":256,"rotary_dim":64)");
const std::string kGemma4 = config("gemma4_text", {5376, 60, 32, 16, 21504, 262144},
                                   R"(,"num_global_key_value_heads":4,"attention_k_eq_v":true,
  "hidden_size_per_layer_input":0,"sliding_window":1024)");
const std::string kMaverick = config("llama4_text", {5120, 48, 40, 8, 8192, 202048},
                                     R"(,"num_local_experts":128,"interleave_moe_layer_step":2)");

struct Named {
  std::string what, config;
  std::int64_t parameters;
};

// MiniMax-M2, h = 3072, block: 2 h 48 128 + 2 h 8 128, gains of 48 128 + 8 128 and 2 h, and the
// experts, 256 (3 h 1536 + h + 1); 62 of them and 2 200064 h + h.
TEST(OtherNames, ExpertsHaveTheirParameters) {
  for (const Named& m : std::vector<Named>{
           {"GLM-4.5", kGlm45, 352'797'829'024},
           {"GLM-4.5-Air",
            config("glm4_moe", {4096, 46, 96, 8, 10944, 151552},
                   R"(,"head_dim":128,"attention_bias":true,"num_nextn_predict_layers":1)"),
            106'852'251'264},
           {"GLM-4.7-Flash", config("glm4_moe_lite", {2048, 47, 20, 20, 10240, 154880}),
            29'943'393'920},
           {"MiniMax-M2", kMiniMax, 228'689'764'864},
           {"Llama 4 Scout", config("llama4_text", {5120, 48, 40, 8, 8192, 202048}),
            107'769'861'120},
           {"Llama 4 Maverick", kMaverick, 400'711'848'960},
           {"dots.llm1",
            config("dots1", {4096, 62, 32, 32, 10944, 152064},
                   R"(,"num_experts_per_tok":6,"first_k_dense_replace":1)"),
            142'774'381'696},
           {"ERNIE-4.5-21B-A3B", config("ernie4_5_moe", {2560, 28, 20, 4, 12288, 103424}),
            21'825'437'888},
           {"OLMoE-1B-7B", config("olmoe", {2048, 16, 16, 16, 1024, 50304}), 6'919'161'856},
           {"Granite 3.0 3B-A800M",
            config("granitemoe", {1536, 32, 24, 8, 512, 49155},
                   R"(,"num_local_experts":40,"num_experts_per_tok":8,"tie_word_embeddings":true)"),
            3'298'793'472},
           {"Solar Open", config("solar_open", {4096, 48, 64, 8, 1280, 196608}), 102'651'799'552}})
    EXPECT_EQ(parameter_count(model_of(m.config)), m.parameters) << m.what;
}

// Phi-4, h = 5120, block: 2 h^2 + 2 h 10 128 + 3 h 17920 + 2 h; 40 of them and 2 100352 h + h.
TEST(OtherNames, DenseOnesHaveTheirParameters) {
  for (const Named& m : std::vector<Named>{
           {"Phi-4", config("phi3", {5120, 40, 40, 10, 17920, 100352}), 14'659'507'200},
           {"Phi-3-mini", config("phi3", {3072, 32, 32, 32, 8192, 32064}), 3'821'079'552},
           {"GLM-4-9B", config("glm", {4096, 40, 32, 2, 13696, 151552}), 9'399'951'360},
           {"GLM-4-9B-0414", config("glm4", {4096, 40, 32, 2, 13696, 151552}), 9'400'279'040},
           {"Seed-OSS-36B", config("seed_oss", {5120, 64, 80, 8, 27648, 155136}), 36'151'104'512},
           {"SmolLM3-3B", config("smollm3", {2048, 36, 16, 4, 11008, 128256}), 3'075'098'624},
           {"Granite 3.0 8B",
            config("granite", {4096, 40, 32, 8, 12800, 49155},
                   R"(,"tie_word_embeddings":true,"embedding_multiplier":12.0)"),
            8'170'848'256},
           {"ERNIE-4.5-0.3B", config("ernie4_5", {1024, 18, 16, 2, 3072, 103424}), 360'748'032},
           {"Hunyuan-7B",
            config("hunyuan_v1_dense", {4096, 32, 32, 8, 14336, 128167},
                   R"(,"tie_word_embeddings":true)"),
            7'504'568'320},
           {"InternLM3-8B",
            config("internlm3", {4096, 48, 32, 2, 10240, 128512}, R"(,"head_dim":128)"),
            8'804'241'408},
           {"Ministral 3 8B", config("ministral3", {4096, 34, 32, 8, 14336, 131072}),
            8'489'553'920},
           {"Gemma 4 31B", kGemma4, 30'697'345'280}})
    EXPECT_EQ(parameter_count(model_of(m.config)), m.parameters) << m.what;
}

TEST(OtherNames, OtherNormsAndNamesHaveTheirParameters) {
  for (const Named& m : std::vector<Named>{
           {"StarCoder2-15B",
            config("starcoder2", {6144, 40, 48, 4, 24576, 49152},
                   R"(,"tie_word_embeddings":false)"),
            15'957'889'024},
           {"StarCoder2-3B", config("starcoder2", {3072, 30, 24, 2, 12288, 49152}), 3'030'371'328},
           {"StableLM-3B", config("stablelm", {2560, 32, 32, 32, 6912, 50304}), 2'795'443'200},
           {"Command R", config("cohere", {8192, 40, 64, 64, 22528, 256000}), 34'980'831'232},
           {"Command R+",
            config("cohere", {12288, 64, 96, 8, 33792, 256000}, R"(,"use_qk_norm":true)"),
            103'810'674'688},
           {"Falcon-7B", config("falcon", {4544, 32, 71, 71, 0, 65024}), 6'921'720'704},
           {"Falcon-40B, by its first names",
            R"({"model_type":"falcon","hidden_size":8192,"n_layer":60,"n_head":128,"n_head_kv":8,
                "vocab_size":65024,"new_decoder_architecture":true})",
            41'303'293'952},
           {"Falcon2-11B",
            config("falcon", {4096, 60, 32, 8, 0, 65024},
                   R"(,"num_kv_heads":8,"new_decoder_architecture":true,
                "num_ln_in_parallel_attn":1,"tie_word_embeddings":false)"),
            11'102'822'400}})
    EXPECT_EQ(parameter_count(model_of(m.config)), m.parameters) << m.what;
}

// 40 heads of 128 for 8 keys' heads: experts in every second block, from the second on, behind a
// dense block of twice their width; each with an expert that all tokens visit.
TEST(OtherNames, Llama4HasExpertsInEverySecondBlock) {
  const Model model = model_of(kMaverick);
  const auto& dense = std::get<TransformerShape>(model.layers[1].shape);
  const auto& sparse = std::get<TransformerShape>(model.layers[2].shape);
  EXPECT_EQ(dense.experts, 1);
  EXPECT_EQ(dense.ffn, 16384);
  EXPECT_EQ(sparse.experts, 128);
  EXPECT_EQ(sparse.experts_per_token, 1);
  EXPECT_EQ(sparse.shared_ffn, 8192);
  EXPECT_EQ(model.max_positions, 8192) << "attention over several chunks is not modelled";
}

// Five of six blocks have a window and 16 heads of keys of 256; the sixth has 4 of 512, and one
// product makes its keys and values: 5376 (32 + 4) 512 + 32 512 5376 for both of it.
TEST(OtherNames, Gemma4sFullBlocksHaveValuesThatAreKeys) {
  Model model = model_of(kGemma4);
  model.seq_length = 1024;
  std::vector<int> full;
  for (int l = 1; l <= 12; ++l) {
    const auto& block = std::get<TransformerShape>(model.layers[l].shape);
    if (block.window == 0) full.push_back(l);
    EXPECT_EQ(block.values_are_keys, block.window == 0);
    EXPECT_EQ(block.head_dim, block.window == 0 ? 512 : 256);
  }
  EXPECT_THAT(full, ElementsAre(6, 12));
  const auto& one = model.layers[6];
  EXPECT_EQ(parameter_count(one),
            5376 * 36 * 512 + 32 * 512 * 5376 + 2 * 512 + 3 * 5376 * 21504 + 4 * 5376);
  const auto file = std::filesystem::temp_directory_path() / "weir-other-names-test.json";
  write_file_atomically(file, to_layer_list(model));
  const Model back = load_model(file);
  std::filesystem::remove(file);
  EXPECT_EQ(parameter_count(back), parameter_count(model));
}

// What is counted is what is allocated: norms of queries and keys over all heads, values that are
// keys.
TEST(OtherNames, TensorsHaveAsManyElementsAsAreCounted) {
  for (const std::string& text : {kMiniMax, kGemma4, kGlm45}) {
    expect_counted_as_allocated(model_of(text));
  }
}

// A product of half as many columns beside the queries': 2 h (32 + 4) 512 + 2 32 512 h a token.
TEST(OtherNames, ValuesThatAreKeysCostOneProduct) {
  const Model model = model_of(kGemma4);
  auto block = std::get<TransformerShape>(model.layers[6].shape);
  const double shared = kinds::forward_flops(block, 1024).count();
  block.values_are_keys = false;
  EXPECT_EQ(kinds::forward_flops(block, 1024).count() - shared, 1024.0 * 2 * 5376 * 4 * 512);
}

// Qwen3-VL-8B's text is Qwen3-8B; Kimi-K2.5's is K2. A config within another holds what differs
// from its class: Gemma 3 4B names three sizes, and has 262,208 tokens, 64 more than the text
// alone.
TEST(TextPart, IsTheModel) {
  const std::string qwen =
      R"("hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,
         "num_hidden_layers":36,"intermediate_size":12288,"max_position_embeddings":262144,
         "vocab_size":151936,"head_dim":128)";
  const Model model = model_of(
      R"({"model_type":"qwen3_vl","architectures":["Qwen3VLForConditionalGeneration"],
          "tie_word_embeddings":false,"vision_config":{"depth":27},
          "text_config":{"model_type":"qwen3_vl_text",)" +
      qwen + "}}");
  EXPECT_EQ(parameter_count(model), 8'190'735'360);
  EXPECT_THAT(model.remarks,
              ElementsAre("vision_config: left out: the layers are the text's alone"));
  const Model kimi = model_of(
      R"({"model_type":"kimi_k25","vision_config":{},"text_config":{"model_type":"kimi_k2",
          "vocab_size":163840,"hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,
          "num_attention_heads":64,"n_routed_experts":384,"moe_intermediate_size":2048,
          "first_k_dense_replace":1,"n_group":1,"max_position_embeddings":262144}})");
  EXPECT_EQ(parameter_count(kimi), 1'026'408'232'448);
  const Model gemma = model_of(
      R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":2560,
          "intermediate_size":10240,"num_hidden_layers":34,"sliding_window":1024}})");
  EXPECT_EQ(parameter_count(gemma), 3'880'099'328 + 64 * 2560);
  EXPECT_THAT(gemma.remarks.front(), HasSubstr("text_config: not said, as the class gemma3_text"));
}

// The first files with both have the text's keys at the top: Qwen2.5-VL-3B.
TEST(TextPart, MayStandBesideTheOthers) {
  const Model model = model_of(config("qwen2_5_vl", {2048, 36, 16, 2, 11008, 151936},
                                      R"(,"tie_word_embeddings":true,"vision_config":{"depth":32},
                 "architectures":["Qwen2_5_VLForConditionalGeneration"],
                 "rope_scaling":{"type":"mrope","mrope_section":[16,24,24]})"));
  EXPECT_EQ(parameter_count(model), 3'085'938'688);
}

TEST(TextPart, IsRefusedByItsOwnKeys) {
  const auto refusal = [](const std::string& text) {
    return complaint([&] { static_cast<void>(model_of(text)); });
  };
  EXPECT_THAT(refusal(R"({"model_type":"qwen3_vl","text_config":{"vocab_size":0}})"),
              HasSubstr("config.json: text_config."));
  EXPECT_THAT(refusal(R"({"model_type":"llama4","text_config":7})"), HasSubstr("text_config"));
  EXPECT_THAT(refusal(R"({"model_type":"qwen3_5_moe","text_config":{}})"),
              HasSubstr("gated delta-net blocks"));
}

TEST(UnknownBlocks, AreNamedInOneLine) {
  const auto refusal = [](const std::string& type) {
    return complaint([&] { static_cast<void>(model_of(config(type, {64, 2, 4, 4, 128, 99}))); });
  };
  for (const char* type : {"mamba2", "nemotron_h", "jamba", "falcon_h1", "granitemoehybrid"})
    EXPECT_THAT(refusal(type), HasSubstr("has Mamba blocks")) << type;
  EXPECT_THAT(refusal("qwen3_next"), HasSubstr("gated delta-net"));
  EXPECT_THAT(refusal("deepseek_v32"), HasSubstr("an indexer"));
  EXPECT_THAT(refusal("none_such"), HasSubstr("unknown family \"none_such\"; known: gpt2, llama"));
  EXPECT_THAT(refusal("gemma4_text"), HasSubstr("hidden_size_per_layer_input: expected 0"));
  EXPECT_THAT(complaint([&] {
                static_cast<void>(model_of(
                    config("minimax_m2", {64, 2, 4, 4, 128, 99}, R"(,"attn_type_list":[0,1])")));
              }),
              HasSubstr("attn_type_list"));
}

}  // namespace
}  // namespace weir::other_names_test
