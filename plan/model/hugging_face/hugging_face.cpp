// The table of families: a new one is a reader under plan/model/hugging_face/ and a row of
// `kFamilies`; one whose block is not known may have a row of `kUnknownBlocks`.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/hugging_face/hugging_face.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "plan/model/hugging_face/families.hpp"
#include "plan/model/hugging_face/text_part.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// "3 unknown keys ignored: a, b, c", the first of many.
std::string ignored(const std::vector<std::string>& keys) {
  constexpr std::size_t kMost = 12;
  const std::size_t named = std::min(keys.size(), kMost);
  std::string line =
      fmt::format("{} unknown key{} ignored: {}", keys.size(), keys.size() == 1 ? "" : "s",
                  fmt::join(keys.begin(), keys.begin() + named, ", "));
  if (named < keys.size()) line += fmt::format(" and {} more", keys.size() - named);
  return line;
}

constexpr std::int64_t kLongestDefault = 8192;  // longer contexts must be asked for

struct Family {
  std::string_view type;
  Model (*read)(JsonObject&);
};
constexpr Family kFamilies[] = {{"gpt2", gpt2_model},
                                {"llama", llama_model},
                                {"mistral", mistral_model},
                                {"ministral3", ministral3_model},
                                {"mixtral", mixtral_model},
                                {"granitemoe", granitemoe_model},
                                {"qwen", qwen_model},
                                {"qwen2", qwen2_model},
                                {"qwen2_vl_text", qwen2_model},
                                {"qwen2_5_vl_text", qwen2_model},
                                {"qwen2_moe", qwen2_moe_model},
                                {"qwen3", qwen3_model},
                                {"qwen3_vl_text", qwen3_model},
                                {"qwen3_moe", qwen3_moe_model},
                                {"qwen3_vl_moe_text", qwen3_moe_model},
                                {"deepseek_v2", deepseek_v2_model},
                                {"deepseek_v3", deepseek_v3_model},
                                {"kimi_k2", deepseek_v3_model},
                                {"glm4_moe_lite", glm4_moe_lite_model},
                                {"gpt_oss", gpt_oss_model},
                                {"gemma", gemma_model},
                                {"gemma2", gemma2_model},
                                {"gemma3_text", gemma3_model},
                                {"gemma4_text", gemma4_model},
                                {"llama4_text", llama4_model},
                                {"glm4_moe", glm4_moe_model},
                                {"glm4v_moe_text", glm4_moe_model},
                                {"solar_open", solar_open_model},
                                {"dots1", dots1_model},
                                {"minimax_m2", minimax_m2_model},
                                {"olmoe", olmoe_model},
                                {"ernie4_5", ernie45_model},
                                {"ernie4_5_moe", ernie45_moe_model},
                                {"glm", glm_model},
                                {"glm4", glm4_model},
                                {"glm4v_text", glm4_model},
                                {"chatglm", chatglm_model},
                                {"phi", phi_model},
                                {"phi3", phi3_model},
                                {"seed_oss", seed_oss_model},
                                {"smollm3", smollm3_model},
                                {"granite", granite_model},
                                {"hunyuan_v1_dense", hunyuan_model},
                                {"internlm", internlm_model},
                                {"internlm2", internlm_model},
                                {"internlm3", internlm_model},
                                {"baichuan", baichuan_model},
                                {"mimo", mimo_model},
                                {"starcoder2", starcoder2_model},
                                {"stablelm", stablelm_model},
                                {"cohere", cohere_model},
                                {"falcon", falcon_model},
                                {"bloom", bloom_model},
                                {"gpt_bigcode", gpt_bigcode_model},
                                {"opt", opt_model},
                                {"gpt_neox", gpt_neox_model},
                                {"bert", bert_model},
                                {"t5", t5_model},
                                {"vit", vit_model}};

// Families that a config may well name, and what of their blocks no shape here has.
struct UnknownBlock {
  std::string_view type, what;
};
constexpr UnknownBlock kUnknownBlocks[] = {
    {"mamba", "Mamba blocks"},
    {"mamba2", "Mamba blocks"},
    {"falcon_mamba", "Mamba blocks"},
    {"jamba", "Mamba blocks beside attention"},
    {"bamba", "Mamba blocks beside attention"},
    {"zamba", "Mamba blocks beside attention"},
    {"zamba2", "Mamba blocks beside attention"},
    {"nemotron_h", "Mamba blocks beside attention"},
    {"falcon_h1", "Mamba blocks beside attention"},
    {"granitemoehybrid", "Mamba blocks beside attention"},
    {"plamo2", "Mamba blocks beside attention"},
    {"qwen3_next", "gated delta-net blocks beside attention"},
    {"qwen3_5", "gated delta-net blocks beside attention"},
    {"qwen3_5_text", "gated delta-net blocks beside attention"},
    {"qwen3_5_moe", "gated delta-net blocks beside attention"},
    {"qwen3_5_moe_text", "gated delta-net blocks beside attention"},
    {"olmo_hybrid", "gated delta-net blocks beside attention"},
    {"kimi_linear", "delta-net blocks beside attention"},
    {"minimax", "linear attention beside the usual one"},
    {"minimax_text_01", "linear attention beside the usual one"},
    {"bailing_hybrid", "linear attention beside the usual one"},
    {"deepseek_v32", "an indexer that chooses the keys of each query"},
    {"deepseek_v4", "keys that are compressed and chosen"},
    {"glm_moe_dsa", "an indexer that chooses the keys of each query"},
    {"lfm2", "convolutions beside attention"},
    {"lfm2_moe", "convolutions beside attention"},
    {"recurrent_gemma", "recurrent blocks beside attention"},
    {"rwkv", "recurrent blocks"},
    {"xlstm", "recurrent blocks"},
    {"gemma3n", "embeddings and predictions of each block's own"},
    {"gemma3n_text", "embeddings and predictions of each block's own"},
    {"mimo_v2_flash", "values that are narrower than keys"},
    {"longcat_flash", "two attentions a block, and experts that do nothing"},
    {"mllama", "attention to images in some blocks"},
    {"olmo2", "norms behind attention and MLP alone"},
    {"olmo3", "norms behind attention and MLP alone"},
    {"exaone4", "norms behind attention and MLP alone"},
    {"nemotron", "squares of ReLU, which no activation here is"},
    {"arcee", "squares of ReLU, which no activation here is"},
    {"apertus", "xIELU, which no activation here is"},
    {"clip", "two stacks, of images and of text"},
};

[[noreturn]] void refuse_family(const JsonObject& config, const std::string& type) {
  const auto* unknown = std::ranges::find(kUnknownBlocks, type, &UnknownBlock::type);
  if (unknown != std::end(kUnknownBlocks)) {
    config.fail("model_type", fmt::format("{} has {}: not modelled; layers of such a model can be "
                                          "given by their sizes or times (docs/formats.md)",
                                          type, unknown->what));
  }
  std::vector<std::string_view> known;
  for (const Family& family : kFamilies) known.push_back(family.type);
  config.fail("model_type", fmt::format("unknown family \"{}\"; known: {}", type.substr(0, 40),
                                        fmt::join(known, ", ")));
}

}  // namespace

Model hugging_face_model(const Json& json, const std::string& file) {
  const TextPart text = text_part(json, file);
  JsonObject config(text.config, file, text.where);
  const std::string type = config.text("model_type");
  const auto* family = std::ranges::find(kFamilies, type, &Family::type);
  if (family == std::end(kFamilies)) refuse_family(config, type);
  Model model = family->read(config);
  model.family = type;
  model.remarks.insert(model.remarks.begin(), text.remarks.begin(), text.remarks.end());
  if (model.seq_length == 0 && model.max_positions <= kLongestDefault)
    model.seq_length = model.max_positions;
  // These say what a config is, not what its model computes.
  static_cast<void>(config.text_or("torch_dtype", ""));
  if (config.has("architectures")) static_cast<void>(config.at("architectures"));
  const std::vector<std::string> unread = config.unread();
  model.ignored_keys = static_cast<int>(unread.size());
  if (!unread.empty()) model.remarks.push_back(ignored(unread));
  return model;
}

}  // namespace weir
