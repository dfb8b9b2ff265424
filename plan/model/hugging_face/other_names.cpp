// Known blocks whose configs name their sizes in their own way, or whose norms are not Llama's:
// Qwen's first, ChatGLM, StarCoder 2, StableLM, Command R, Falcon.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/decoder.hpp"
#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {
namespace {

// Llama's block of these sizes.
TransformerShape llama_block(JsonObject& config, const BlockSizes& sizes) {
  TransformerShape block = even_block(config, sizes);
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  block.gated = block.rotary = true;
  block.qkv_bias = block.output_bias = block.mlp_bias = false;
  return block;
}

Model of_block(JsonObject& config, const TransformerShape& block, std::int64_t blocks,
               EmbeddingShape embedding) {
  embedding.hidden = block.hidden;
  Model model = decoder_model(usual_decoder(embedding, block, blocks));
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  return model;
}

// A size by its name of today, or by the first checkpoints' one.
std::int64_t falcon_size(JsonObject& config, const char* name, const char* older,
                         std::int64_t most) {
  return config.integer(config.has(older) && !config.has(name) ? older : name, 1, most);
}

}  // namespace

// The first Qwen: `intermediate_size` is the width of gate and up together.
Model qwen_model(JsonObject& config) {
  const BlockSizes sizes = block_sizes(config);
  TransformerShape block = llama_block(config, sizes);
  block.head_dim = config.integer_or("kv_channels", block.head_dim, 1, kLargestSize);
  const std::int64_t both = config.integer("intermediate_size", 2, kLargestSize);
  if (both % 2 != 0)
    config.fail("intermediate_size", "expected twice the MLP's width, as this class has it");
  block.ffn = both / 2;
  block.qkv_bias = true;
  require(config, "no_bias", true);
  block.angles = rotary_angles(config, config.number_or("rotary_emb_base", 10000, 1e-3, 1e12));
  block.norm_epsilon = config.number_or("layer_norm_epsilon", 1e-6, 1e-12, 1);
  block.attention_dropout = rate(config, "attn_dropout_prob", 0);
  Model model = of_block(config, block, sizes.blocks,
                         {.vocabulary = vocabulary_size(config),
                          .dropout = rate(config, "emb_dropout_prob", 0),
                          .tied = config.boolean_or("tie_word_embeddings", false)});
  model.max_positions =
      config.integer_or("max_position_embeddings",
                        config.integer_or("seq_length", 8192, 1, kLargestSize), 1, kLargestSize);
  model.longer = true;
  return model;
}

// ChatGLM 2 and 3, GLM-4-9B: Llama's block, half of each head turned.
Model chatglm_model(JsonObject& config) {
  for (const char* key : {"rmsnorm", "post_layer_norm"}) require(config, key, true);
  for (const char* key : {"add_bias_linear", "apply_residual_connection_post_layernorm"})
    require(config, key, false);
  const BlockSizes sizes{config.integer("hidden_size", 1, kLargestSize),
                         config.integer("num_attention_heads", 1, kLargestSize),
                         config.integer("num_layers", 1, kMostLayers)};
  TransformerShape block = llama_block(config, sizes);
  block.head_dim = config.integer_or("kv_channels", block.head_dim, 1, kLargestSize);
  if (config.boolean_or("multi_query_attention", false))
    block.kv_heads = config.integer_or("multi_query_group_num", 1, 1, block.heads);
  block.ffn = config.integer("ffn_hidden_size", 1, kLargestSize);
  block.qkv_bias = config.boolean_or("add_qkv_bias", false);
  block.angles.scaling = RotaryScaling::other;
  block.norm_epsilon = config.number_or("layernorm_epsilon", 1e-5, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_dropout", 0);
  block.residual_dropout = rate(config, "hidden_dropout", 0);
  Model model = of_block(config, block, sizes.blocks,
                         {.vocabulary = config.integer("padded_vocab_size", 1, kLargestSize),
                          .tied = config.boolean_or("tie_word_embeddings", false)});
  model.max_positions = config.integer_or("seq_length", 2048, 1, kLargestSize);
  model.longer = true;
  return model;
}

// StarCoder 2: GPT-2's MLP and biases, grouped heads that are turned.
Model starcoder2_model(JsonObject& config) {
  require_causal_head(config);
  const BlockSizes sizes = block_sizes(config);
  TransformerShape block = even_block(config, sizes);
  block.kv_heads = config.integer_or("num_key_value_heads", 2, 1, kLargestSize);
  if (sizes.heads % block.kv_heads != 0)
    config.fail("num_key_value_heads", "does not divide num_attention_heads");
  block.ffn = config.integer("intermediate_size", 1, kLargestSize);
  block.activation = activation(config, "hidden_act", "gelu_pytorch_tanh");
  block.rotary = true;
  block.angles = rotary_angles(config, 10000);
  block.qkv_bias = block.output_bias = block.mlp_bias = config.boolean_or("use_bias", true);
  block.norm_epsilon = config.number_or("norm_epsilon", 1e-5, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_dropout", 0);
  block.residual_dropout = rate(config, "residual_dropout", 0);
  const EmbeddingShape embedding{.vocabulary = vocabulary_size(config),
                                 .hidden = sizes.hidden,
                                 .dropout = rate(config, "embedding_dropout", 0),
                                 .tied = config.boolean_or("tie_word_embeddings", true)};
  Model model = decoder_of(config, usual_decoder(embedding, block, sizes.blocks));
  // All blocks have the window.
  if (!config.is_null("sliding_window")) {
    const std::int64_t window = config.integer_or("sliding_window", 0, 0, kLargestSize);
    if (window > 0)
      set_windows(model, std::vector<bool>(static_cast<std::size_t>(sizes.blocks), true), window);
  }
  return model;
}

// StableLM: Llama's block with layer norms; a quarter of each head is turned.
Model stablelm_model(JsonObject& config) {
  for (const char* key : {"qk_layernorm", "use_parallel_residual"}) require(config, key, false);
  Decoder decoder = llama_like(config, {.kv_heads = 0, .qkv_bias = false});
  TransformerShape& block = decoder.block;
  block.qkv_bias = config.boolean_or("use_qkv_bias", false);
  block.norm = NormKind::layer_norm;
  block.norm_epsilon = config.number_or("layer_norm_eps", 1e-5, 1e-12, 1);
  block.residual_dropout = rate(config, "hidden_dropout", 0);
  turn_in_part(config, block, 0.25);
  return decoder_of(config, usual_decoder(decoder.embedding, block, decoder.blocks));
}

// Command R: attention and MLP side by side behind one norm without bias, which is told here as the
// norm that has as many numbers; Command R+ has norms of queries and keys, a gain a head.
Model cohere_model(JsonObject& config) {
  Decoder decoder =
      llama_like(config, {.kv_heads = 0, .qkv_bias = false, .theta = 500000, .tied = true});
  TransformerShape& block = decoder.block;
  block.parallel = block.single_norm = true;
  block.qk_norm = block.wide_qk_norm = config.boolean_or("use_qk_norm", false);
  block.norm_epsilon = config.number_or("layer_norm_eps", 1e-5, 1e-12, 1);
  static_cast<void>(config.number_or("logit_scale", 0.0625, 0, 1e6));
  return decoder_of(config, usual_decoder(decoder.embedding, block, decoder.blocks));
}

// Falcon: attention and MLP side by side, behind one norm or one each; a key and a value for all
// heads, or for groups of them.
Model falcon_model(JsonObject& config) {
  require_causal_head(config);
  require(config, "alibi", false);
  const BlockSizes sizes{config.integer("hidden_size", 1, kLargestSize),
                         falcon_size(config, "num_attention_heads", "n_head", kLargestSize),
                         falcon_size(config, "num_hidden_layers", "n_layer", kMostLayers)};
  TransformerShape block = even_block(config, sizes);
  const bool grouped = config.boolean_or("new_decoder_architecture", false);
  const bool one = config.boolean_or("multi_query", true);
  const char* key = config.has("n_head_kv") ? "n_head_kv" : "num_kv_heads";
  block.kv_heads = config.integer_or(key, sizes.heads, 1, kLargestSize);
  if (!grouped && one) block.kv_heads = 1;
  if (sizes.heads % block.kv_heads != 0) config.fail(key, "does not divide the heads");
  block.ffn = config.integer_or("ffn_hidden_size", 4 * sizes.hidden, 1, kLargestSize);
  block.activation = activation(config, "activation", "gelu");
  block.rotary = true;
  block.angles = rotary_angles(config, 10000);
  const bool bias = config.boolean_or("bias", false);
  block.qkv_bias = block.output_bias = block.mlp_bias = bias;
  block.parallel = grouped || config.boolean_or("parallel_attn", true);
  const std::int64_t norms = config.integer_or("num_ln_in_parallel_attn", grouped ? 2 : 1, 1, 2);
  block.single_norm = block.parallel && norms == 1;
  block.norm_epsilon = config.number_or("layer_norm_epsilon", 1e-5, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_dropout", 0);
  block.residual_dropout = rate(config, "hidden_dropout", 0);
  Model model = of_block(config, block, sizes.blocks,
                         {.vocabulary = vocabulary_size(config),
                          .tied = config.boolean_or("tie_word_embeddings", true)});
  model.max_positions = config.integer_or("max_position_embeddings", 2048, 1, kLargestSize);
  model.longer = true;
  return model;
}

}  // namespace weir
