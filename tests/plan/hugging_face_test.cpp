// Families of Hugging Face configs: parameters as published, to the last one, and refusals that
// name the key.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/hugging_face/hugging_face.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/resolve.hpp"
#include "plan/model/layer_tensors.hpp"
#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::hugging_face_test {
namespace {

using testing::HasSubstr;

Model parsed(const std::string& text) {
  return hugging_face_model(parse_json(text, "config.json"), "config.json");
}

std::string refusal(const std::string& text) {
  return complaint([&] { static_cast<void>(parsed(text)); });
}

const char* const kLlama2 =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":4096,
  "num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":32,)"
    R"("intermediate_size":11008,
  "max_position_embeddings":4096,"vocab_size":32000,"rms_norm_eps":1e-5})";
const char* const kLlama3 = R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,
  "num_hidden_layers":32,"num_key_value_heads":8,"intermediate_size":14336,)"
                            R"("max_position_embeddings":8192,
  "vocab_size":128256,"tie_word_embeddings":false})";
const char* const kQwen2 = R"({"model_type":"qwen2","hidden_size":3584,"num_attention_heads":28,
  "num_hidden_layers":28,"num_key_value_heads":4,"intermediate_size":18944,)"
                           R"("max_position_embeddings":32768,
  "vocab_size":152064})";
const char* const kMistral = R"({"model_type":"mistral","hidden_size":4096,"num_attention_heads":32,
  "num_hidden_layers":32,"intermediate_size":14336,"max_position_embeddings":32768,)"
                             R"("vocab_size":32000})";
const char* const kOpt =
    R"({"model_type":"opt","hidden_size":768,"num_attention_heads":12,"num_hidden_layers":12,
  "ffn_dim":3072,"max_position_embeddings":2048,"vocab_size":50272,"word_embed_proj_dim":768})";

// A block has 2 h^2 (query, output) + 2 h kv (key, value) + 3 h f + 2 h; beside the blocks 2 V h +
// h. Llama-2-7B: 32 (4 4096^2 + 3 4096 11008 + 8192) + 2 32000 4096 + 4096 = 6,738,415,616.
// Llama-3-8B: 32 (2 4096^2 + 2 4096 1024 + 3 4096 14336 + 8192) + 2 128256 4096 + 4096 =
// 8,030,261,248. Mistral-7B, its 8 key-value heads by default: the same blocks, V = 32000:
// 7,241,732,096. Qwen2-7B: 28 (2 3584^2 + 2 3584 512 + 3584 + 1024 (biases) + 3 3584 18944 + 7168)
// + 2 152064 3584 + 3584
//   = 7,615,616,512.
// OPT-125M: (50272 + 2050) 768 + 12 (12 768^2 + 13 768) + 2 768 = 125,239,296.
TEST(HuggingFace, ParametersAreExact) {
  EXPECT_EQ(parameter_count(parsed(kLlama2)), 6'738'415'616);
  EXPECT_EQ(parameter_count(parsed(kLlama3)), 8'030'261'248);
  EXPECT_EQ(parameter_count(parsed(kMistral)), 7'241'732'096);
  EXPECT_EQ(parameter_count(parsed(kQwen2)), 7'615'616'512);
  EXPECT_EQ(parameter_count(parsed(kOpt)), 125'239'296);
}

// What is counted is what is allocated: the tensors of every layer have as many elements as its
// count (the tied matrix of a head apart, which is a copy).
TEST(HuggingFace, TensorsHaveAsManyElementsAsAreCounted) {
  for (const char* text : {kLlama2, kLlama3, kMistral, kQwen2, kOpt}) {
    const Model model = parsed(text);
    for (const Layer& layer : model.layers) {
      const auto* head = std::get_if<HeadShape>(&layer.shape);
      std::int64_t elements = head != nullptr && head->tied ? -head->vocabulary * head->hidden : 0;
      for (const ParameterTensor& tensor : layer_tensors(layer, 16, Dtype::bf16).parameters) {
        elements += tensor.elements();
      }
      EXPECT_EQ(elements, parameter_count(layer)) << model.family << " " << layer.name;
    }
  }
}

TEST(HuggingFace, LongContextsHaveNoDefaultLength) {
  EXPECT_EQ(parsed(kLlama3).seq_length, 8192);
  EXPECT_EQ(parsed(kQwen2).seq_length, 0);
  EXPECT_EQ(parsed(kMistral).max_positions, 4096) << "its class's window";
}

// Turned positions go on beyond those of the config; a window that all blocks have does not.
TEST(HuggingFace, TurnedPositionsHaveNoEnd) {
  Plan plan;
  plan.seq_length = 131072;
  const Model llama = parsed(kLlama3);
  EXPECT_EQ(llama.max_positions, 8192);
  EXPECT_NO_THROW(require_positions(plan, llama, "plan.json"));
  EXPECT_THROW(require_positions(plan, parsed(kMistral), "plan.json"), InputError);
  plan.seq_length = 4096;
  EXPECT_NO_THROW(require_positions(plan, parsed(kMistral), "plan.json"));
}

TEST(HuggingFace, RefusalsNameTheKey) {
  const auto changed = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_THAT(
      refusal(changed(kLlama2, "LlamaForCausalLM", "LlamaForSequenceClassification")),
      HasSubstr(
          "config.json: architectures: \"LlamaForSequenceClassification\": expected a class"));
  EXPECT_THAT(refusal(changed(kLlama3, R"("num_key_value_heads":8)", R"("num_key_value_heads":7)")),
              HasSubstr("config.json: num_key_value_heads: does not divide num_attention_heads"));
  EXPECT_THAT(refusal(changed(kLlama3, R"("intermediate_size":14336,)", "")),
              HasSubstr("config.json: intermediate_size: is missing"));
  EXPECT_THAT(refusal(changed(kQwen2, R"("qwen2",)", R"("qwen2","use_sliding_window":true,)")),
              HasSubstr("config.json: use_sliding_window: expected false"));
  EXPECT_THAT(
      refusal(changed(kOpt, R"("word_embed_proj_dim":768)", R"("word_embed_proj_dim":512)")),
      HasSubstr("config.json: word_embed_proj_dim: expected hidden_size"));
}

}  // namespace
}  // namespace weir::hugging_face_test
