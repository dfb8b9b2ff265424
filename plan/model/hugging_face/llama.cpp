// Llama's design and those that are its block with other numbers: Mistral, Qwen2, Qwen3.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {
namespace {

RotaryScaling rotary_scaling(const std::string& type) {
  if (type == "default") return RotaryScaling::none;
  if (type == "linear") return RotaryScaling::linear;
  if (type == "llama3") return RotaryScaling::llama3;
  return RotaryScaling::other;
}

// The keys of rope_scaling; since transformers 5 rope_parameters, which has theta too.
void read_rotary(JsonObject& keys, RotaryAngles& angles) {
  angles.theta = keys.number_or("rope_theta", angles.theta, 1e-3, 1e12);
  const std::string type = keys.text_or("type", "default");
  angles.scaling = rotary_scaling(keys.text_or("rope_type", type));
  if (keys.number_or("partial_rotary_factor", 1, 0, 1) != 1) angles.scaling = RotaryScaling::other;
  if (angles.scaling == RotaryScaling::linear || angles.scaling == RotaryScaling::llama3)
    angles.factor = keys.number("factor", 1, 1e6);
  if (angles.scaling != RotaryScaling::llama3) return;
  angles.low_frequency = keys.number("low_freq_factor", 1e-3, 1e6);
  angles.high_frequency = keys.number("high_freq_factor", 1e-3, 1e6);
  if (angles.high_frequency <= angles.low_frequency)
    keys.fail("high_freq_factor", "expected more than low_freq_factor");
  angles.original_positions = keys.integer("original_max_position_embeddings", 1, kLargestSize);
}

}  // namespace

RotaryAngles rotary_angles(JsonObject& config, double theta) {
  RotaryAngles angles{.theta = config.number_or("rope_theta", theta, 1e-3, 1e12)};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (config.is_null(key)) {
      static_cast<void>(config.at(key));
    } else if (config.has(key)) {
      JsonObject keys = config.object(key);
      // Where blocks with and without a window turn differently: those without.
      const bool by_kind = keys.has("full_attention") && !keys.is_null("full_attention");
      JsonObject full = by_kind ? keys.object("full_attention") : keys;
      read_rotary(full, angles);
    }
  }
  return angles;
}

Decoder llama_like(JsonObject& config, const LlamaDefaults& defaults) {
  require_causal_head(config);
  const BlockSizes sizes = block_sizes(config);
  const std::int64_t vocabulary = vocabulary_size(config);
  TransformerShape block{.hidden = sizes.hidden, .heads = sizes.heads};
  // null means as many as heads, and so does a class without a default.
  const bool all = defaults.kv_heads == 0 || config.is_null("num_key_value_heads");
  block.kv_heads = config.integer_or("num_key_value_heads", all ? sizes.heads : defaults.kv_heads,
                                     1, kLargestSize);
  if (sizes.heads % block.kv_heads != 0)
    config.fail("num_key_value_heads", "does not divide num_attention_heads");
  block.head_dim = config.integer_or("head_dim", defaults.head_dim, 0, kLargestSize);
  // Said by neither file nor class: heads divide the width.
  if (block.head_dim == 0) {
    if (sizes.hidden % sizes.heads != 0)
      config.fail("num_attention_heads", "does not divide hidden_size");
    block.head_dim = sizes.hidden / sizes.heads;
  }
  block.ffn = defaults.ffn_optional
                  ? config.integer_or("intermediate_size", sizes.hidden, 1, kLargestSize)
                  : config.integer("intermediate_size", 1, kLargestSize);
  block.activation = activation(config, "hidden_act", "silu");
  block.norm = NormKind::rms_norm;
  block.gated = block.rotary = true;
  block.angles = rotary_angles(config, defaults.theta);
  block.qk_norm = defaults.qk_norm;
  const bool bias = config.boolean_or("attention_bias", defaults.attention_bias);
  block.qkv_bias = bias || defaults.qkv_bias;
  block.output_bias = bias;
  block.mlp_bias = config.boolean_or("mlp_bias", false);
  block.norm_epsilon = config.number_or("rms_norm_eps", defaults.epsilon, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_dropout", 0);

  const EmbeddingShape embedding{.vocabulary = vocabulary,
                                 .hidden = sizes.hidden,
                                 .tied = config.boolean_or("tie_word_embeddings", defaults.tied)};
  return usual_decoder(embedding, block, sizes.blocks);
}

void turn_in_part(JsonObject& config, TransformerShape& block, double otherwise) {
  if (config.number_or("partial_rotary_factor", otherwise, 0, 1) != 1)
    block.angles.scaling = RotaryScaling::other;
}

Model decoder_of(JsonObject& config, const Decoder& decoder) {
  Model model = decoder_model(decoder);
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  model.max_positions = position_count(config);
  model.longer = decoder.block.rotary;
  return model;
}

void bound_by_window(JsonObject& config, Model& model, std::int64_t otherwise) {
  if (config.is_null("sliding_window")) {
    static_cast<void>(config.at("sliding_window"));
    return;
  }
  const std::int64_t window = config.integer_or("sliding_window", otherwise, 0, kLargestSize);
  if (window == 0) return;
  // Attention is whole within one window; over several it is not modelled.
  model.max_positions = std::min(model.max_positions, window);
  model.longer = false;
}

Model llama_model(JsonObject& config) {
  return decoder_of(config, llama_like(config, {.kv_heads = 0, .qkv_bias = false}));
}

Model mistral_model(JsonObject& config) {
  Model model = decoder_of(config, llama_like(config, {.kv_heads = 8, .qkv_bias = false}));
  bound_by_window(config, model, 4096);
  return model;
}

Model ministral3_model(JsonObject& config) {
  Model model = decoder_of(
      config,
      llama_like(config, {.kv_heads = 8, .qkv_bias = false, .epsilon = 1e-5, .head_dim = 128}));
  bound_by_window(config, model, 0);
  return model;
}

Model qwen2_model(JsonObject& config) {
  require(config, "use_sliding_window", false);
  return decoder_of(config, llama_like(config, {.kv_heads = 32, .qkv_bias = true}));
}

// Qwen2's block with norms of each head's query and key instead of biases.
Model qwen3_model(JsonObject& config) {
  require(config, "use_sliding_window", false);
  return decoder_of(
      config,
      llama_like(config, {.kv_heads = 32, .qkv_bias = false, .head_dim = 128, .qk_norm = true}));
}

}  // namespace weir
