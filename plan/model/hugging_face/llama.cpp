// Llama's design and those that share its block: Mistral, Mixtral, Qwen2, Qwen3.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "plan/model/decoder.hpp"
#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {
namespace {

// What distinguishes the classes that share Llama's block.
struct LlamaDefaults {
  std::int64_t kv_heads;  // 0: as many as heads, which an explicit null always means
  bool qkv_bias;
  double epsilon = 1e-6;
  double theta = 10000;
  std::int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  bool qk_norm = false;
};

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

RotaryAngles rotary_angles(JsonObject& config, double theta) {
  RotaryAngles angles{.theta = config.number_or("rope_theta", theta, 1e-3, 1e12)};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (config.is_null(key)) {
      static_cast<void>(config.at(key));
    } else if (config.has(key)) {
      JsonObject keys = config.object(key);
      read_rotary(keys, angles);
    }
  }
  return angles;
}

// Llama's design: rotary positions, RMS norms, gated SiLU, grouped-query attention.
Model llama_like(JsonObject& config, const LlamaDefaults& defaults) {
  require_causal_head(config);
  const BlockSizes sizes = block_sizes(config);
  const std::int64_t vocabulary = vocabulary_size(config);
  TransformerShape block{.hidden = sizes.hidden, .heads = sizes.heads};
  const bool all = defaults.kv_heads == 0 || config.is_null("num_key_value_heads");
  block.kv_heads = config.integer_or("num_key_value_heads", all ? sizes.heads : defaults.kv_heads,
                                     1, kLargestSize);
  if (sizes.heads % block.kv_heads != 0)
    config.fail("num_key_value_heads", "does not divide num_attention_heads");
  block.head_dim = config.integer_or("head_dim", defaults.head_dim, 0, kLargestSize);
  if (block.head_dim == 0) {
    if (sizes.hidden % sizes.heads != 0)
      config.fail("num_attention_heads", "does not divide hidden_size");
    block.head_dim = sizes.hidden / sizes.heads;
  }
  block.ffn = config.integer("intermediate_size", 1, kLargestSize);
  block.activation = activation(config, "hidden_act", "silu");
  block.norm = NormKind::rms_norm;
  block.gated = block.rotary = true;
  block.angles = rotary_angles(config, defaults.theta);
  block.qk_norm = defaults.qk_norm;
  const bool bias = config.boolean_or("attention_bias", false);
  block.qkv_bias = bias || defaults.qkv_bias;
  block.output_bias = bias;
  block.mlp_bias = config.boolean_or("mlp_bias", false);
  block.norm_epsilon = config.number_or("rms_norm_eps", defaults.epsilon, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_dropout", 0);

  const EmbeddingShape embedding{.vocabulary = vocabulary,
                                 .hidden = sizes.hidden,
                                 .tied = config.boolean_or("tie_word_embeddings", false)};
  Model model = decoder_model(usual_decoder(embedding, block, sizes.blocks));
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  model.max_positions = position_count(config);
  return model;
}

// Attention beyond the window is not modelled, so the window bounds the sequence; 0: there is none.
void bound_by_window(JsonObject& config, Model& model, std::int64_t otherwise) {
  if (config.is_null("sliding_window")) {
    static_cast<void>(config.at("sliding_window"));
    return;
  }
  const std::int64_t window = config.integer_or("sliding_window", otherwise, 0, kLargestSize);
  if (window > 0) model.max_positions = std::min(model.max_positions, window);
}

}  // namespace

Model llama_model(JsonObject& config) {
  return llama_like(config, {.kv_heads = 0, .qkv_bias = false});
}

Model mistral_model(JsonObject& config) {
  Model model = llama_like(config, {.kv_heads = 8, .qkv_bias = false});
  bound_by_window(config, model, 4096);
  return model;
}

// Mistral's block with experts: a router sends each token to a few of them.
Model mixtral_model(JsonObject& config) {
  Model model =
      llama_like(config, {.kv_heads = 8, .qkv_bias = false, .epsilon = 1e-5, .theta = 1e6});
  bound_by_window(config, model, 0);
  const std::int64_t experts = config.integer_or("num_local_experts", 8, 1, kLargestSize);
  const std::int64_t visits = config.integer_or("num_experts_per_tok", 2, 1, kLargestSize);
  if (visits > experts)
    config.fail("num_experts_per_tok", fmt::format("exceeds num_local_experts = {}", experts));
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) {
      block->experts = experts;
      block->experts_per_token = visits;
    }
  }
  return model;
}

Model qwen2_model(JsonObject& config) {
  require(config, "use_sliding_window", false);
  return llama_like(config, {.kv_heads = 32, .qkv_bias = true});
}

// Qwen2's block with norms of each head's query and key instead of biases.
Model qwen3_model(JsonObject& config) {
  require(config, "use_sliding_window", false);
  return llama_like(config, {.kv_heads = 32, .qkv_bias = false, .head_dim = 128, .qk_norm = true});
}

}  // namespace weir
