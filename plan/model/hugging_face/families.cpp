// What several families of Hugging Face configs spell alike.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/hugging_face/families.hpp"

#include <fmt/format.h>

#include "plan/model/limits.hpp"

namespace weir {

BlockSizes block_sizes(JsonObject& config) {
  const BlockSizes sizes{config.integer("hidden_size", 1, kLargestSize),
                         config.integer("num_attention_heads", 1, kLargestSize),
                         config.integer("num_hidden_layers", 1, kMostLayers)};
  return sizes;
}

TransformerShape even_block(JsonObject& config, const BlockSizes& sizes) {
  if (sizes.hidden % sizes.heads != 0)
    config.fail("num_attention_heads", "does not divide hidden_size");
  return {.hidden = sizes.hidden,
          .heads = sizes.heads,
          .kv_heads = sizes.heads,
          .head_dim = sizes.hidden / sizes.heads};
}

void append_blocks(Model& model, std::string_view name, const TransformerShape& block,
                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    model.layers.push_back({fmt::format("{}.{}", name, i), block, ""});
}

std::vector<bool> windowed_blocks(JsonObject& config, std::int64_t blocks, std::int64_t period) {
  std::vector<bool> windowed;
  if (config.has("layer_types") && !config.is_null("layer_types")) {
    for (const std::string& type : config.texts("layer_types")) {
      if (type != "sliding_attention" && type != "full_attention")
        config.fail("layer_types", "expected sliding_attention or full_attention, a layer each");
      windowed.push_back(type == "sliding_attention");
    }
    if (static_cast<std::int64_t>(windowed.size()) != blocks)
      config.fail("layer_types", fmt::format("expected {}, one a layer", blocks));
    return windowed;
  }
  for (std::int64_t i = 0; i < blocks; ++i) windowed.push_back((i + 1) % period != 0);
  return windowed;
}

void set_windows(Model& model, const std::vector<bool>& windowed, std::int64_t window) {
  auto next = windowed.begin();
  for (Layer& layer : model.layers) {
    auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block != nullptr && *next++) block->window = window;
  }
}

std::int64_t vocabulary_size(JsonObject& config) {
  return config.integer("vocab_size", 1, kLargestSize);
}
std::int64_t position_count(JsonObject& config) {
  return config.integer("max_position_embeddings", 1, kLargestSize);
}
double rate(JsonObject& config, std::string_view key, double otherwise) {
  return config.number_or(key, otherwise, 0, 0.999);
}

Activation parse_activation(JsonObject& config, std::string_view key, const std::string& name) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
    return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  if (name == "silu" || name == "swish") return Activation::silu;
  config.fail(key, fmt::format("unknown activation \"{}\"; expected gelu_new, gelu, relu or silu",
                               name.substr(0, 40)));
}

Activation activation(JsonObject& config, std::string_view key, std::string_view otherwise) {
  return parse_activation(config, key, config.text_or(key, std::string(otherwise)));
}

std::string architecture(JsonObject& config) {
  if (!config.has("architectures") || config.is_null("architectures")) return "";
  const Json& classes = config.at("architectures");
  if (!classes.is_array() || classes.empty() || !classes.front().is_string()) {
    config.fail("architectures", "expected a list of class names");
  }
  return classes.front().get<std::string>();
}

void require_causal_head(JsonObject& config) {
  const std::string name = architecture(config);
  if (!name.empty() && !name.ends_with("ForCausalLM")) {
    config.fail("architectures",
                fmt::format("\"{}\": expected a class ending in ForCausalLM", name.substr(0, 40)));
  }
}

std::int64_t label_count(JsonObject& config) {
  constexpr std::int64_t kLibraryDefault = 2;
  const std::int64_t number = config.integer_or("num_labels", kLibraryDefault, 1, kLargestSize);
  if (!config.has("id2label") || config.is_null("id2label")) return number;
  const Json& labels = config.at("id2label");
  if (!labels.is_object() || labels.empty())
    config.fail("id2label", "expected an object with an entry for each class");
  return static_cast<std::int64_t>(labels.size());
}

void require(JsonObject& config, std::string_view key, bool modelled) {
  if (config.boolean_or(key, modelled) != modelled) {
    config.fail(key, fmt::format("expected {}: not modelled otherwise", modelled));
  }
}

}  // namespace weir
