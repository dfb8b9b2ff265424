// Families: GPT-2, Llama (with Mistral and Qwen2, which share its block), OPT. A new one is a reader and a row of
// `kFamilies`. SPDX-License-Identifier: Apache-2.0
#include "plan/hugging_face.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "plan/error.hpp"

namespace weir {
namespace {

constexpr std::int64_t kLongestDefault = 8192;  // longer contexts must be asked for

Activation parse_activation(JsonObject& config, std::string_view key, const std::string& name) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  if (name == "silu" || name == "swish") return Activation::silu;
  config.fail(key, fmt::format("unknown activation \"{}\"; expected gelu_new, gelu, relu or silu", name));
}

// GPT-2: learned positions, pre-norm blocks, final norm, head tied to the token table unless said otherwise.
Model gpt2_model(JsonObject& config) {
  Model model;
  const std::int64_t hidden = config.integer("n_embd", 1, kLargestSize);
  const std::int64_t heads = config.integer("n_head", 1, kLargestSize);
  const std::int64_t blocks = config.integer("n_layer", 1, kMostLayers);
  const std::int64_t vocabulary = config.integer("vocab_size", 1, kLargestSize);
  const std::int64_t positions = config.integer(config.has("n_positions") ? "n_positions" : "n_ctx", 1, kLargestSize);
  static_cast<void>(config.integer_or("n_ctx", positions, 1, kLargestSize));
  if (hidden % heads != 0) config.fail("n_head", fmt::format("does not divide n_embd = {}", hidden));
  const bool tied = config.boolean_or("tie_word_embeddings", true);
  model.layers.push_back({"embedding",
                          EmbeddingShape{.vocabulary = vocabulary,
                                         .hidden = hidden,
                                         .positions = positions,
                                         .dropout = config.number_or("embd_pdrop", 0.1, 0, 0.999),
                                         .tied = tied},
                          ""});
  TransformerShape block{.hidden = hidden, .heads = heads, .kv_heads = heads, .head_dim = hidden / heads};
  block.ffn = config.integer_or("n_inner", 4 * hidden, 1, kLargestSize);
  block.activation = parse_activation(config, "activation_function", config.text_or("activation_function", "gelu_new"));
  block.norm_epsilon = config.number_or("layer_norm_epsilon", 1e-5, 1e-12, 1);
  block.attention_dropout = config.number_or("attn_pdrop", 0.1, 0, 0.999);
  block.residual_dropout = config.number_or("resid_pdrop", 0.1, 0, 0.999);
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    if (config.boolean_or(key, false)) config.fail(key, "expected false: not modelled");
  }
  if (!config.boolean_or("scale_attn_weights", true)) config.fail("scale_attn_weights", "expected true");
  for (std::int64_t i = 0; i < blocks; ++i) model.layers.push_back({fmt::format("block.{}", i), block, ""});
  model.layers.push_back({"norm", NormShape{hidden, NormKind::layer_norm, block.norm_epsilon}, ""});
  model.layers.push_back({"head", HeadShape{.vocabulary = vocabulary, .hidden = hidden, .tied = tied}, ""});
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  model.max_positions = positions;
  return model;
}

// Keys by which the families of one design name the same things.
struct DecoderSizes {
  std::int64_t hidden, heads, blocks, vocabulary, positions;
};

DecoderSizes decoder_sizes(JsonObject& config) {
  const DecoderSizes sizes{
      config.integer("hidden_size", 1, kLargestSize), config.integer("num_attention_heads", 1, kLargestSize),
      config.integer("num_hidden_layers", 1, kMostLayers), config.integer("vocab_size", 1, kLargestSize),
      config.integer("max_position_embeddings", 1, kLargestSize)};
  return sizes;
}

// The class named first must be the causal language model: other classes have other heads.
void require_causal_head(JsonObject& config) {
  if (!config.has("architectures") || config.is_null("architectures")) return;
  const Json& classes = config.at("architectures");
  if (!classes.is_array() || classes.empty() || !classes.front().is_string()) {
    config.fail("architectures", "expected a list of class names");
  }
  const std::string name = classes.front().get<std::string>();
  if (!name.ends_with("ForCausalLM")) {
    config.fail("architectures", fmt::format("\"{}\": expected a class ending in ForCausalLM", name.substr(0, 40)));
  }
}

// What distinguishes the classes that share Llama's block.
struct LlamaDefaults {
  std::int64_t kv_heads;  // 0: as many as heads
  bool qkv_bias;
};

// Llama's design: rotary positions, RMS norms, gated SiLU, grouped-query attention.
Model llama_like(JsonObject& config, const LlamaDefaults& defaults) {
  require_causal_head(config);
  const DecoderSizes sizes = decoder_sizes(config);
  TransformerShape block{.hidden = sizes.hidden, .heads = sizes.heads};
  block.kv_heads = config.integer_or("num_key_value_heads", defaults.kv_heads > 0 ? defaults.kv_heads : sizes.heads, 1,
                                     kLargestSize);
  if (sizes.heads % block.kv_heads != 0) config.fail("num_key_value_heads", "does not divide num_attention_heads");
  block.head_dim = config.integer_or("head_dim", 0, 0, kLargestSize);
  if (block.head_dim == 0) {
    if (sizes.hidden % sizes.heads != 0) config.fail("num_attention_heads", "does not divide hidden_size");
    block.head_dim = sizes.hidden / sizes.heads;
  }
  block.ffn = config.integer("intermediate_size", 1, kLargestSize);
  block.activation = parse_activation(config, "hidden_act", config.text_or("hidden_act", "silu"));
  block.norm = NormKind::rms_norm;
  block.gated = block.rotary = true;
  const bool bias = config.boolean_or("attention_bias", false);
  block.qkv_bias = bias || defaults.qkv_bias;
  block.output_bias = bias;
  block.mlp_bias = config.boolean_or("mlp_bias", false);
  block.norm_epsilon = config.number_or("rms_norm_eps", 1e-6, 1e-12, 1);
  block.attention_dropout = config.number_or("attention_dropout", 0, 0, 0.999);

  const bool tied = config.boolean_or("tie_word_embeddings", false);
  Model model;
  model.layers.push_back(
      {"embedding", EmbeddingShape{.vocabulary = sizes.vocabulary, .hidden = sizes.hidden, .tied = tied}, ""});
  for (std::int64_t i = 0; i < sizes.blocks; ++i) model.layers.push_back({fmt::format("block.{}", i), block, ""});
  model.layers.push_back({"norm", NormShape{sizes.hidden, NormKind::rms_norm, block.norm_epsilon}, ""});
  model.layers.push_back({"head", HeadShape{.vocabulary = sizes.vocabulary, .hidden = sizes.hidden, .tied = tied}, ""});
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  model.max_positions = sizes.positions;
  return model;
}

Model llama_model(JsonObject& config) { return llama_like(config, {.kv_heads = 0, .qkv_bias = false}); }

// Attention beyond the window is not modelled, so the window bounds the sequence; null means there is none.
Model mistral_model(JsonObject& config) {
  Model model = llama_like(config, {.kv_heads = 8, .qkv_bias = false});
  if (config.is_null("sliding_window")) return model;
  model.max_positions = std::min(model.max_positions, config.integer_or("sliding_window", 4096, 1, kLargestSize));
  return model;
}

Model qwen2_model(JsonObject& config) {
  if (config.boolean_or("use_sliding_window", false)) config.fail("use_sliding_window", "expected false: not modelled");
  return llama_like(config, {.kv_heads = 32, .qkv_bias = true});
}

// OPT: GPT-2's design with ReLU, two more rows in its position table, and no dropout after the embedding.
Model opt_model(JsonObject& config) {
  require_causal_head(config);
  constexpr std::int64_t kUnusedPositions = 2;
  const DecoderSizes sizes = decoder_sizes(config);
  if (sizes.hidden % sizes.heads != 0) config.fail("num_attention_heads", "does not divide hidden_size");
  if (config.integer_or("word_embed_proj_dim", sizes.hidden, 1, kLargestSize) != sizes.hidden) {
    config.fail("word_embed_proj_dim", "expected hidden_size: projections around the blocks are not modelled");
  }
  for (const char* key : {"do_layer_norm_before", "layer_norm_elementwise_affine", "enable_bias"}) {
    if (!config.boolean_or(key, true)) config.fail(key, "expected true: not modelled");
  }
  if (config.boolean_or("_remove_final_layer_norm", false)) config.fail("_remove_final_layer_norm", "expected false");
  TransformerShape block{
      .hidden = sizes.hidden, .heads = sizes.heads, .kv_heads = sizes.heads, .head_dim = sizes.hidden / sizes.heads};
  block.ffn = config.integer("ffn_dim", 1, kLargestSize);
  block.activation = parse_activation(config, "activation_function", config.text_or("activation_function", "relu"));
  block.attention_dropout = config.number_or("attention_dropout", 0, 0, 0.999);
  block.residual_dropout = config.number_or("dropout", 0.1, 0, 0.999);
  const bool tied = config.boolean_or("tie_word_embeddings", true);
  Model model;
  model.layers.push_back({"embedding",
                          EmbeddingShape{.vocabulary = sizes.vocabulary,
                                         .hidden = sizes.hidden,
                                         .positions = sizes.positions + kUnusedPositions,
                                         .tied = tied},
                          ""});
  for (std::int64_t i = 0; i < sizes.blocks; ++i) model.layers.push_back({fmt::format("block.{}", i), block, ""});
  model.layers.push_back({"norm", NormShape{sizes.hidden, NormKind::layer_norm, block.norm_epsilon}, ""});
  model.layers.push_back({"head", HeadShape{.vocabulary = sizes.vocabulary, .hidden = sizes.hidden, .tied = tied}, ""});
  model.initializer_range = config.number_or("init_std", 0.02, 0, 10);
  model.max_positions = sizes.positions;
  return model;
}

struct Family {
  std::string_view type;
  Model (*read)(JsonObject&);
};
constexpr std::array<Family, 5> kFamilies{{{"gpt2", gpt2_model},
                                           {"llama", llama_model},
                                           {"mistral", mistral_model},
                                           {"qwen2", qwen2_model},
                                           {"opt", opt_model}}};

}  // namespace

Model hugging_face_model(const Json& json, const std::string& file) {
  JsonObject config(json, file, "");
  const std::string type = config.text("model_type");
  const auto family = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) { return f.type == type; });
  if (family == kFamilies.end()) {
    std::string known;
    for (const Family& f : kFamilies) known += (known.empty() ? "" : ", ") + std::string(f.type);
    config.fail("model_type", fmt::format("unknown family \"{}\"; known: {}", type.substr(0, 40), known));
  }
  Model model = family->read(config);
  model.family = type;
  model.seq_length = model.max_positions <= kLongestDefault ? model.max_positions : 0;
  // These say what a config is, not what its model computes.
  static_cast<void>(config.text_or("torch_dtype", ""));
  if (config.has("architectures")) static_cast<void>(config.at("architectures"));
  model.ignored_keys = static_cast<int>(config.unread().size());
  return model;
}

}  // namespace weir
