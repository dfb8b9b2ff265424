// Families beyond the Llama-like decoders: parameters as published, to the last one; heads by the
// class named first; refusals that name the key; and real configs, where they are.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "plan/job/resolve.hpp"
#include "plan/model/hugging_face/hugging_face.hpp"
#include "plan/model/layer_tensors.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/plan/samples.hpp"

namespace weir::families_test {
namespace {

using testing::HasSubstr;

const std::filesystem::path kModels =
    std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/models";

Model parsed(const std::string& text) {
  return hugging_face_model(parse_json(text, "config.json"), "config.json");
}

std::string refusal(const std::string& text) {
  return complaint([&] { static_cast<void>(parsed(text)); });
}

// The config of `kBert` and so on with a few keys more.
std::string with(const std::string& sizes, const std::string& more) {
  return "{" + sizes + more + "}";
}

const std::string kBert =
    R"("model_type":"bert","hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,
  "intermediate_size":3072,"max_position_embeddings":512,"vocab_size":30522)";
const std::string kVit =
    R"("model_type":"vit","hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,
  "intermediate_size":3072,"image_size":224,"patch_size":16)";
const std::string kT5 =
    R"("model_type":"t5","d_model":512,"d_kv":64,"d_ff":1024,"num_heads":6,"num_layers":8,
  "vocab_size":32128)";
const std::string kMixtral = R"("model_type":"mixtral","hidden_size":4096,"num_attention_heads":32,
  "num_hidden_layers":32,"intermediate_size":14336,"max_position_embeddings":32768,)"
                             R"("vocab_size":32000)";
const std::string kQwen3 = R"("model_type":"qwen3","hidden_size":4096,"num_attention_heads":32,
  "num_key_value_heads":8,"num_hidden_layers":36,"intermediate_size":12288,
  "max_position_embeddings":40960,"vocab_size":151936)";
const std::string kNeox = R"("model_type":"gpt_neox","hidden_size":6144,"num_attention_heads":64,
  "num_hidden_layers":44,"intermediate_size":24576,"max_position_embeddings":2048,)"
                          R"("vocab_size":50432)";

// Mixtral-8x7B, block: 2 h^2 + 2 h 1024 + 8 (3 h 14336) + 8 h + 2 h = 1,451,270,144 with h = 4096;
// 32 of them and
//   2 32000 h + h. Experts, visits and key-value heads are the class's defaults here.
// GPT-NeoX-20B: 44 (12 h^2 + 13 h) + 2 50432 h + 2 h with h = 6144.
// Pythia-160M: 12 (12 768^2 + 13 768) + 2 50304 768 + 2 768.
TEST(Families, DecodersHaveTheirParameters) {
  EXPECT_EQ(parameter_count(parsed(with(kMixtral, ""))), 46'702'792'704);
  EXPECT_EQ(parameter_count(load_model(kModels / "mixtral-8x7b.json")), 46'702'792'704);
  EXPECT_EQ(parameter_count(parsed(with(kNeox, ""))), 20'554'567'680);
  EXPECT_EQ(parameter_count(load_model(kModels / "pythia-160m.json")), 162'322'944);
  EXPECT_EQ(load_model(kModels / "pythia-160m.json").ignored_keys, 0);
}

// Qwen3-8B, block: 4096 (32 + 2 8) 128 + 4096^2 + 3 4096 12288 + 2 4096 and two gains of 128; 36 of
// them and 2 151936 4096 + 4096. Heads of 128 are the class's default.
TEST(Families, AQwen3HasItsParametersAndItsAngles) {
  const Model model = parsed(
      with(kQwen3, R"(,"rope_theta":1000000,"rope_scaling":{"type":"linear","factor":2.0})"));
  EXPECT_EQ(parameter_count(model), 8'190'735'360);
  const auto& block = std::get<TransformerShape>(model.layers[1].shape);
  EXPECT_EQ(block.angles, (RotaryAngles{1e6, RotaryScaling::linear, 2}));
  EXPECT_EQ(block.head_dim, 128);
  EXPECT_TRUE(block.qk_norm && !block.qkv_bias);
  const Model newer =
      parsed(with(kQwen3, R"(,"rope_parameters":{"rope_theta":5e5,"rope_type":"llama3","factor":8.0,
        "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192})"));
  EXPECT_EQ(std::get<TransformerShape>(newer.layers[1].shape).angles,
            (RotaryAngles{5e5, RotaryScaling::llama3, 8, 1, 4, 8192}));
  EXPECT_THAT(refusal(with(kQwen3, R"(,"rope_scaling":{"rope_type":"llama3","factor":8.0})")),
              HasSubstr("rope_scaling.low_freq_factor"));
}

// BERT-base: (30522 + 512 + 2) h + 2 h, 12 (12 h^2 + 13 h), and by class, with h = 768:
//   bare: the pooler h^2 + h;  sequences: the pooler and 2 (h + 1), or as many classes as there are
//   labels; masked LM: the transform h^2 + h + 2 h and a bias of 30522 beside the tied matrix;
//   tokens: 2 (h + 1) alone.
TEST(Families, BertCountsTheClassItsConfigNames) {
  const auto of = [](const std::string& name) {
    return parameter_count(parsed(with(kBert, R"(,"architectures":[")" + name + R"("])")));
  };
  const std::int64_t blocks = 108'891'648;
  EXPECT_EQ(parameter_count(parsed(with(kBert, ""))), 109'482'240);
  EXPECT_EQ(parameter_count(load_model(kModels / "bert-base.json")), 109'482'240);
  EXPECT_EQ(of("BertModel"), blocks + 590'592);
  EXPECT_EQ(of("BertForMaskedLM"), 109'514'298);
  EXPECT_EQ(of("BertForSequenceClassification"), 109'482'240 + 1538);
  EXPECT_EQ(of("BertForTokenClassification"), blocks + 1538);
  EXPECT_EQ(
      parameter_count(parsed(with(kBert, R"(,"architectures":["BertForSequenceClassification"],
            "id2label":{"0":"a","1":"b","2":"c"})"))),
      109'482'240 + 3 * 769);
}

// ViT-B/16 of 224 x 224: patches 768 (3 16^2) + 768, class token 768, 197 positions, 12 (12 h^2 +
// 13 h), norm 2 h: 85,798,656; a 1000-way head adds 769,000, the bare model's pooler 590,592.
TEST(Families, VitSeesPatches) {
  const Model model = load_model(kModels / "vit-b-16.json");
  EXPECT_EQ(parameter_count(model), 86'567'656);
  EXPECT_EQ(model.seq_length, 197);
  EXPECT_EQ(parameter_count(parsed(with(kVit, R"(,"architectures":["ViTModel"])"))), 86'389'248);
  EXPECT_EQ(parameter_count(parsed(with(kVit, ""))), 85'798'656 + 2 * 769)
      << "two classes are the library's default";
}

// T5-base: 32128 h; encoder 12 (4 h^2 + 2 h 3072 + 2 h) + 32 12 + h; decoder 12 (8 h^2 + 2 h 3072 +
// 3 h) + 32 12 + h with h = 768. T5 v1.1 small: heads of 6 x 64 = 384 in a width of 512, a gated
// MLP of three matrices, a head of its own:
//   2 32128 512 + 8 (4 512 384 + 3 512 1024 + 2 512) + 32 6 + 512 + 8 (8 512 384 + 3 512 1024 + 3
//   512) + 32 6 + 512.
TEST(Families, T5HasTwoStacksAndOneTable) {
  EXPECT_EQ(parameter_count(load_model(kModels / "t5-base.json")), 222'903'552);
  const Model small =
      parsed(with(kT5, R"(,"feed_forward_proj":"gated-gelu","tie_word_embeddings":false)"));
  EXPECT_EQ(parameter_count(small), 76'961'152);
  EXPECT_EQ(small.seq_length, 512);
  EXPECT_EQ(small.max_positions, 0) << "relative positions have no end";
}

// Embedding 0, encoder 1 to 8, its norm 9, the decoder's embedding 10 and blocks 11 to 18: each
// reads the norm's output.
TEST(Families, T5sDecoderReadsTheEncoderBySkips) {
  const Model model = parsed(with(kT5, ""));
  ASSERT_EQ(model.skips.size(), 8U);
  for (std::int32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(model.skips[static_cast<std::size_t>(i)].from, 9);
    EXPECT_EQ(model.skips[static_cast<std::size_t>(i)].to, 11 + i);
  }
}

// Four stages of 21 layers: the table is on the first (embedding), the third (the decoder's
// embedding, layer 10, is in [10, 15)) and the last (head).
TEST(Families, T5sTableIsExchangedByAllItsStages) {
  const Model model = parsed(with(kT5, ""));
  ASSERT_EQ(model.layers.size(), 21U);
  Plan plan;
  plan.seq_length = 16;
  plan.pp = 4;
  plan.boundaries = {5, 10, 15};
  const ResolvedPlan resolved =
      derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {4, 1, 1})));
  const auto tied = resolved.lowering.tied;
  ASSERT_EQ(tied.size(), 1U);
  EXPECT_THAT(tied[0], testing::ElementsAre(Stage{0}, Stage{2}, Stage{3}));
}

// What is counted is what is allocated (copies of a tied table apart).
TEST(Families, TensorsHaveAsManyElementsAsAreCounted) {
  for (const std::string& text :
       {with(kMixtral, ""), with(kQwen3, ""), with(kNeox, ""), with(kBert, ""),
        with(kBert, R"(,"architectures":["BertForMaskedLM"])"), with(kVit, ""), with(kT5, ""),
        with(kT5, R"(,"feed_forward_proj":"gated-silu")")}) {
    const Model model = parsed(text);
    for (const Layer& layer : model.layers) {
      const auto* head = std::get_if<HeadShape>(&layer.shape);
      const auto* embedding = std::get_if<EmbeddingShape>(&layer.shape);
      std::int64_t elements = 0;
      if (head != nullptr && head->tied) elements -= head->vocabulary * head->hidden;
      if (embedding != nullptr && embedding->shared)
        elements -= embedding->vocabulary * embedding->hidden;
      for (const ParameterTensor& tensor : layer_tensors(layer, 16, Dtype::bf16).parameters) {
        elements += tensor.elements();
      }
      EXPECT_EQ(elements, parameter_count(layer)) << model.family << " " << layer.name;
    }
  }
}

TEST(Families, RefusalsNameTheKey) {
  EXPECT_THAT(refusal(R"({"model_type":"none"})"),
              HasSubstr("config.json: model_type: unknown family \"none\"; known: gpt2, llama, "));
  EXPECT_THAT(refusal(R"({"model_type":"mamba"})"),
              HasSubstr("config.json: model_type: mamba has Mamba blocks: not modelled"));
  EXPECT_THAT(refusal(with(kBert, R"(,"architectures":["BertForPreTraining"])")),
              HasSubstr("config.json: architectures: \"BertForPreTraining\": expected BertModel"));
  EXPECT_THAT(
      refusal(with(kBert, R"(,"position_embedding_type":"relative_key")")),
      HasSubstr("config.json: position_embedding_type: \"relative_key\": expected absolute"));
  EXPECT_THAT(refusal(with(kBert, R"(,"is_decoder":true)")),
              HasSubstr("config.json: is_decoder: expected false"));
  EXPECT_THAT(refusal(with(kMixtral, R"(,"num_experts_per_tok":9)")),
              HasSubstr("config.json: num_experts_per_tok: exceeds num_local_experts = 8"));
  EXPECT_THAT(refusal(with(kT5, R"(,"feed_forward_proj":"gated-tanh")")),
              HasSubstr("config.json: feed_forward_proj: unknown activation \"tanh\""));
  EXPECT_THAT(
      refusal(
          R"({"model_type":"vit","hidden_size":8,"num_attention_heads":2,"num_hidden_layers":1})"),
      HasSubstr("config.json: image_size: is missing"));
  EXPECT_THAT(refusal(R"({"model_type":"t5","d_model":8})"),
              HasSubstr("config.json: num_heads: is missing"));
}

// An explicit null is Mixtral's "as many as heads", not the class's default of 8.
TEST(Families, NullKeyValueHeadsAreAllHeads) {
  const Model model = parsed(with(kMixtral, R"(,"num_key_value_heads":null)"));
  EXPECT_EQ(std::get<TransformerShape>(model.layers[1].shape).kv_heads, 32);
}

// Real files: known families are read with the parameters of what they name, all others are refused
// by name. The Mixtral there was changed by its vendor to 32 key-value heads: 32 x 2 x 4096 x 3072
// parameters more.
TEST(Families, RealConfigsAreReadOrRefusedByName) {
  const auto samples = sample_folder("hf-config");
  if (!samples) GTEST_SKIP() << "no sample files";
  const std::map<std::string, std::int64_t> expected{{"bert-base-uncased", 109'483'778},
                                                     {"llama-2-7b-chat", 6'738'415'616},
                                                     {"llama-3-8b", 8'030'261'248},
                                                     {"mixtral-8x7b_neuronx_mha", 47'508'099'072},
                                                     {"llama2-70b", 68'976'648'192},
                                                     {"llama3.x-sophgo", 3'212'749'824},
                                                     {"mistral-7b-instruct-v0.2", 7'241'732'096},
                                                     {"phi-2", 2'779'683'840},
                                                     {"qwen2-7b-instruct", 7'615'616'512},
                                                     {"qwen3-8b", 8'190'735'360},
                                                     {"simai_qwen3-235B-A22B", 235'093'634'560},
                                                     {"deepseek-r1", 671'026'419'200},
                                                     {"alpa_opt_125m", 125'239'296},
                                                     {"baichuan2-7b", 7'505'973'248},
                                                     {"chatglm3-6b", 6'243'584'000},
                                                     {"qwen1-72b-chat", 72'287'920'128},
                                                     {"qwen2.5-vl-nested", 3'085'938'688},
                                                     {"gemma3-4b-multimodal", 3'880'263'168}};
  int files = 0;
  std::size_t matched = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*samples)) {
    ++files;
    const std::string name = entry.path().stem().string();
    try {
      const Model model = load_model(entry.path());
      if (const auto found = expected.find(name); found != expected.end()) {
        ++matched;
        EXPECT_EQ(parameter_count(model), found->second) << name;
      }
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(entry.path().string())) << name;
      EXPECT_FALSE(expected.contains(name)) << error.what();
    }
  }
  EXPECT_GT(files, 0);
  EXPECT_EQ(matched, expected.size());
}

}  // namespace
}  // namespace weir::families_test
