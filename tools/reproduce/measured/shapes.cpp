// The shapes of models that measured runs name.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/shapes.hpp"

#include <cctype>

#include "tools/jobs/job/job.hpp"

namespace weir {

Model decoder_of(const DecoderSizes& s, std::int64_t sequence, AttentionKind attention) {
  // GPT's family has biases and positions; Llama's has neither.
  const bool bias = !s.llama;
  const NormKind norm = s.llama ? NormKind::rms_norm : NormKind::layer_norm;
  Decoder d;
  d.embedding = {.vocabulary = s.vocabulary,
                 .hidden = s.hidden,
                 .positions = s.llama ? 0 : sequence,
                 .tied = s.tied};
  d.block = {.hidden = s.hidden,
             .heads = s.heads,
             .kv_heads = s.kv_heads == 0 ? s.heads : s.kv_heads,
             .head_dim = s.hidden / s.heads,
             .ffn = s.ffn == 0 ? 4 * s.hidden : s.ffn,
             .activation = s.llama  ? Activation::silu
                           : s.relu ? Activation::relu
                                    : Activation::gelu_tanh,
             .norm = norm,
             .gated = s.llama,
             .qkv_bias = bias,
             .output_bias = bias,
             .mlp_bias = bias,
             .rotary = s.llama,
             // Megatron's default, of runs that are older than fused attention.
             .attention_dropout = attention == AttentionKind::unfused ? 0.1 : 0};
  d.blocks = s.layers;
  d.norm = {.hidden = s.hidden, .kind = norm};
  d.head = {.vocabulary = s.vocabulary, .hidden = s.hidden, .tied = s.tied};
  Model model = decoder_model(d, sequence);
  set_attention(model, attention);
  return model;
}

std::shared_ptr<const Model> DecoderShelf::get(const DecoderSizes& sizes, std::int64_t sequence,
                                               AttentionKind attention) {
  auto& model = made_[{sizes, sequence, attention}];
  if (!model) model = std::make_shared<const Model>(decoder_of(sizes, sequence, attention));
  return model;
}

const DecoderSizes* known_decoder(const std::string& name) {
  constexpr std::int64_t kLlama2 = 32000, kLlama3 = 128256, kGpt = 51200;
  static const std::map<std::string, DecoderSizes> kKnown{
      {"LLAMA27B", {32, 4096, 32, kLlama2, 32, 11008, true, false}},
      {"LLAMA213B", {40, 5120, 40, kLlama2, 40, 13824, true, false}},
      {"LLAMA270B", {80, 8192, 64, kLlama2, 8, 28672, true, false}},
      {"LLAMA38B", {32, 4096, 32, kLlama3, 8, 14336, true, false}},
      {"LLAMA370B", {80, 8192, 64, kLlama3, 8, 28672, true, false}},
      {"LLAMA3405B", {126, 16384, 128, kLlama3, 8, 53248, true, false}},
      {"GPT35B", {24, 4096, 32, kGpt}},
      {"GPT320B", {44, 6144, 48, kGpt}},
      {"GPT3175B", {96, 12288, 96, kGpt}},
  };
  // Sources spell one model in many ways.
  std::string key;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_')
      key += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  // Llama 3, 3.1 and 3.3 have one shape.
  const auto point = key.find("3.1");
  if (point != std::string::npos) key.erase(point + 1, 2);
  const auto found = kKnown.find(key);
  return found == kKnown.end() ? nullptr : &found->second;
}

}  // namespace weir
