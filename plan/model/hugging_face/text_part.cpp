// A nested config holds what differs from its class's defaults alone, so these are here for the
// classes that are nested: transformers 5, models/*/configuration_*.py.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/hugging_face/text_part.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace weir {
namespace {

struct Wrapper {
  std::string_view type, text;  // families: of the file, and of its text where that says none
  std::string_view key = "text_config";
};
constexpr Wrapper kWrappers[] = {
    {"gemma3", "gemma3_text"},
    {"gemma4", "gemma4_text"},
    {"llama4", "llama4_text"},
    {"qwen2_vl", "qwen2_vl_text"},
    {"qwen2_5_vl", "qwen2_5_vl_text"},
    {"qwen3_vl", "qwen3_vl_text"},
    {"qwen3_vl_moe", "qwen3_vl_moe_text"},
    {"mistral3", "mistral"},
    {"kimi_k25", "kimi_k2"},
    {"kimi_vl", "deepseek_v3"},
    {"glm4v", "glm4v_text"},
    {"glm4v_moe", "glm4v_moe_text"},
    {"llava", "llama"},
    {"llava_next", "llama"},
    {"llava_onevision", "qwen2"},
    {"internvl", "qwen2"},
    {"internvl_chat", "qwen2", "llm_config"},
    {"paligemma", "gemma"},
    {"idefics3", "llama"},
    {"smolvlm", "llama"},
    {"deepseek_vl_v2", "deepseek_v2", "language_config"},
};

struct ClassDefaults {
  std::string_view type, config;
};
constexpr ClassDefaults kDefaults[] = {
    {"llama", R"({"vocab_size":32000,"hidden_size":4096,"intermediate_size":11008,
      "num_hidden_layers":32,"num_attention_heads":32,"max_position_embeddings":2048})"},
    {"mistral", R"({"vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,
      "num_hidden_layers":32,"num_attention_heads":32,"max_position_embeddings":131072})"},
    {"qwen2", R"({"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,
      "num_hidden_layers":32,"num_attention_heads":32,"max_position_embeddings":32768})"},
    {"gemma", R"({"vocab_size":256000,"hidden_size":3072,"intermediate_size":24576,
      "num_hidden_layers":28,"num_attention_heads":16,"max_position_embeddings":8192})"},
    {"gemma2", R"({"vocab_size":256000,"hidden_size":2304,"intermediate_size":9216,
      "num_hidden_layers":26,"num_attention_heads":8,"max_position_embeddings":8192})"},
    {"gemma3_text", R"({"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,
      "num_hidden_layers":26,"num_attention_heads":8,"max_position_embeddings":131072})"},
    {"gemma4_text", R"({"vocab_size":262144,"hidden_size":2304,"intermediate_size":9216,
      "num_hidden_layers":30,"num_attention_heads":8,"max_position_embeddings":131072})"},
    {"llama4_text", R"({"vocab_size":202048,"hidden_size":5120,"intermediate_size":8192,
      "num_hidden_layers":48,"num_attention_heads":40,"max_position_embeddings":131072})"},
    {"deepseek_v3", R"({"vocab_size":129280,"hidden_size":7168,"intermediate_size":18432,
      "num_hidden_layers":61,"num_attention_heads":128,"max_position_embeddings":4096})"},
};

// What the class has of what the config does not say, named on a line.
void add_defaults(TextPart& part) {
  const std::string type = part.config["model_type"].get<std::string>();
  const auto* of = std::ranges::find(kDefaults, type, &ClassDefaults::type);
  if (of == std::end(kDefaults)) return;
  std::vector<std::string> taken;
  const Json defaults = Json::parse(of->config);
  for (const auto& [key, value] : defaults.items()) {
    if (part.config.contains(key)) continue;
    part.config[key] = value;
    taken.push_back(fmt::format("{} {}", key, value.dump()));
  }
  if (!taken.empty()) {
    part.remarks.push_back(fmt::format("{}: not said, as the class {} has it: {}", part.where, type,
                                       fmt::join(taken, ", ")));
  }
}

// What beside the text the file describes.
std::string other_parts(const Json& json) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with("vision") || key.starts_with("audio") || key == "projector_config")
      if (value.is_object()) parts.push_back(key);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

TextPart text_part(const Json& json, const std::string& file) {
  TextPart part{.config = json, .where = "", .remarks = {}};
  if (!json.is_object() || !json.contains("model_type") || !json["model_type"].is_string())
    return part;
  const auto* wrapper =
      std::ranges::find(kWrappers, json["model_type"].get<std::string>(), &Wrapper::type);
  if (wrapper == std::end(kWrappers)) return part;
  const std::string key(wrapper->key);
  if (json.contains(key)) {
    JsonObject outer(json, file, "");
    static_cast<void>(outer.object(key));  // throws where it is none
    part.config = json[key];
    part.where = key;
    // The head of a model that generates is tied as the file says, unless its text does.
    const char* tied = "tie_word_embeddings";
    if (json.contains(tied) && !part.config.contains(tied)) part.config[tied] = json[tied];
  } else {
    // The first such files have the text's keys beside the others'.
    part.config.erase("architectures");
    part.config.erase("vision_config");
    part.config.erase("model_type");
  }
  if (!part.config.contains("model_type") || !part.config["model_type"].is_string())
    part.config["model_type"] = std::string(wrapper->text);
  // A nested model has no head of its own to be named by.
  part.config.erase("architectures");
  if (const std::string others = other_parts(json); !others.empty()) {
    part.remarks.push_back(fmt::format("{}: left out: the layers are the text's alone", others));
  }
  if (!part.where.empty()) add_defaults(part);
  return part;
}

}  // namespace weir
