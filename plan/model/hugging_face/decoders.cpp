// Decoders with layer norms and biases: GPT-2, GPT-BigCode, OPT, GPT-NeoX, Phi, BLOOM.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/decoder.hpp"
#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {
namespace {

// Learned positions, pre-norm blocks, final norm, head tied to the token table unless said
// otherwise.
Decoder gpt2_like(JsonObject& config, std::string_view usual_activation) {
  const std::int64_t hidden = config.integer("n_embd", 1, kLargestSize);
  const std::int64_t heads = config.integer("n_head", 1, kLargestSize);
  const std::int64_t blocks = config.integer("n_layer", 1, kMostLayers);
  const std::int64_t vocabulary = config.integer("vocab_size", 1, kLargestSize);
  const std::int64_t positions =
      config.integer(config.has("n_positions") ? "n_positions" : "n_ctx", 1, kLargestSize);
  // An older name of the same: read, so that it is not told as unknown.
  static_cast<void>(config.integer_or("n_ctx", positions, 1, kLargestSize));
  if (hidden % heads != 0)
    config.fail("n_head", fmt::format("does not divide n_embd = {}", hidden));
  const EmbeddingShape embedding{.vocabulary = vocabulary,
                                 .hidden = hidden,
                                 .positions = positions,
                                 .dropout = rate(config, "embd_pdrop", 0.1),
                                 .tied = config.boolean_or("tie_word_embeddings", true)};
  TransformerShape block{
      .hidden = hidden, .heads = heads, .kv_heads = heads, .head_dim = hidden / heads};
  block.ffn = config.integer_or("n_inner", 4 * hidden, 1, kLargestSize);
  block.activation = activation(config, "activation_function", usual_activation);
  block.norm_epsilon = config.number_or("layer_norm_epsilon", 1e-5, 1e-12, 1);
  block.attention_dropout = rate(config, "attn_pdrop", 0.1);
  block.residual_dropout = rate(config, "resid_pdrop", 0.1);
  require(config, "add_cross_attention", false);
  require(config, "scale_attn_weights", true);
  return usual_decoder(embedding, block, blocks);
}

Model initialised(JsonObject& config, const Decoder& decoder) {
  Model model = decoder_model(decoder);
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  return model;
}

// A size by its name of today, or by an older one.
std::int64_t size_of(JsonObject& config, const char* name, const char* older, std::int64_t most) {
  return config.integer(config.has(older) && !config.has(name) ? older : name, 1, most);
}

}  // namespace

Model gpt2_model(JsonObject& config) {
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"})
    require(config, key, false);
  return initialised(config, gpt2_like(config, "gelu_new"));
}

// GPT-BigCode (StarCoder): GPT-2 whose heads share one key and one value.
Model gpt_bigcode_model(JsonObject& config) {
  Decoder decoder = gpt2_like(config, "gelu_pytorch_tanh");
  if (config.boolean_or("multi_query", true)) decoder.block.kv_heads = 1;
  return initialised(config, decoder);
}

// Phi (1, 1.5, 2): attention and MLP side by side behind one norm, a head with bias.
Model phi_model(JsonObject& config) {
  require_causal_head(config);
  require(config, "qk_layernorm", false);
  const BlockSizes sizes = block_sizes(config);
  TransformerShape block = even_block(config, sizes);
  block.kv_heads = config.integer_or("num_key_value_heads", sizes.heads, 1, kLargestSize);
  if (sizes.heads % block.kv_heads != 0)
    config.fail("num_key_value_heads", "does not divide num_attention_heads");
  block.ffn = config.integer("intermediate_size", 1, kLargestSize);
  block.activation = activation(config, "hidden_act", "gelu_new");
  block.parallel = block.single_norm = block.rotary = true;
  // Of a head's numbers; decides no size.
  static_cast<void>(config.number_or("partial_rotary_factor", 0.5, 0, 1));
  block.norm_epsilon = config.number_or("layer_norm_eps", 1e-5, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_dropout", 0);
  block.residual_dropout = rate(config, "resid_pdrop", 0);
  const EmbeddingShape embedding{.vocabulary = vocabulary_size(config),
                                 .hidden = sizes.hidden,
                                 .dropout = rate(config, "embd_pdrop", 0),
                                 .tied = config.boolean_or("tie_word_embeddings", false)};
  Decoder decoder = usual_decoder(embedding, block, sizes.blocks);
  decoder.head.bias = true;
  return decoder_of(config, decoder);
}

// BLOOM: biases on the scores by distance (ALiBi) instead of positions, a norm after the embedding.
Model bloom_model(JsonObject& config) {
  require_causal_head(config);
  require(config, "apply_residual_connection_post_layernorm", false);
  const BlockSizes sizes{size_of(config, "hidden_size", "n_embed", kLargestSize),
                         size_of(config, "n_head", "num_attention_heads", kLargestSize),
                         size_of(config, "n_layer", "num_hidden_layers", kMostLayers)};
  TransformerShape block = even_block(config, sizes);
  block.ffn = 4 * sizes.hidden;
  block.activation = Activation::gelu_tanh;
  block.norm_epsilon = config.number_or("layer_norm_epsilon", 1e-5, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_dropout", 0);
  block.residual_dropout = rate(config, "hidden_dropout", 0);
  const EmbeddingShape embedding{.vocabulary = vocabulary_size(config),
                                 .hidden = sizes.hidden,
                                 .norm = true,
                                 .tied = config.boolean_or("tie_word_embeddings", true)};
  Model model = initialised(config, usual_decoder(embedding, block, sizes.blocks));
  // Distances have no end; this is the length of its training.
  model.seq_length = config.integer_or("seq_length", 2048, 1, kLargestSize);
  return model;
}

// OPT: GPT-2's design with ReLU, two more rows in its position table, and no dropout after the
// embedding.
Model opt_model(JsonObject& config) {
  require_causal_head(config);
  constexpr std::int64_t kUnusedPositions = 2;
  const BlockSizes sizes = block_sizes(config);
  const std::int64_t vocabulary = vocabulary_size(config), positions = position_count(config);
  if (config.integer_or("word_embed_proj_dim", sizes.hidden, 1, kLargestSize) != sizes.hidden) {
    config.fail("word_embed_proj_dim",
                "expected hidden_size: projections around the blocks are not modelled");
  }
  for (const char* key : {"do_layer_norm_before", "layer_norm_elementwise_affine", "enable_bias"}) {
    require(config, key, true);
  }
  require(config, "_remove_final_layer_norm", false);
  TransformerShape block = even_block(config, sizes);
  block.ffn = config.integer("ffn_dim", 1, kLargestSize);
  block.activation = activation(config, "activation_function", "relu");
  block.attention_dropout = rate(config, "attention_dropout", 0);
  block.residual_dropout = rate(config, "dropout", 0.1);
  const EmbeddingShape embedding{.vocabulary = vocabulary,
                                 .hidden = sizes.hidden,
                                 .positions = positions + kUnusedPositions,
                                 .tied = config.boolean_or("tie_word_embeddings", true)};
  Model model = decoder_model(usual_decoder(embedding, block, sizes.blocks));
  model.initializer_range = config.number_or("init_std", 0.02, 0, 10);
  // The two rows more are the table's, not the sequence's.
  model.max_positions = positions;
  return model;
}

// GPT-NeoX (Pythia): rotary positions, layer norms, and attention and MLP side by side on the
// block's input.
Model gpt_neox_model(JsonObject& config) {
  require_causal_head(config);
  const BlockSizes sizes = block_sizes(config);
  const std::int64_t vocabulary = vocabulary_size(config);
  TransformerShape block = even_block(config, sizes);
  block.ffn = config.integer("intermediate_size", 1, kLargestSize);
  block.activation = activation(config, "hidden_act", "gelu");
  block.rotary = true;
  static_cast<void>(
      config.number_or("rotary_pct", 0.25, 0, 1));  // of a head's values: decides no size
  block.parallel = config.boolean_or("use_parallel_residual", true);
  block.qkv_bias = block.output_bias = config.boolean_or("attention_bias", true);
  block.norm_epsilon = config.number_or("layer_norm_eps", 1e-5, 1e-12, 1);
  block.attention_dropout = rate(config, "attention_dropout", 0);
  block.residual_dropout = rate(config, "hidden_dropout", 0);
  const EmbeddingShape embedding{.vocabulary = vocabulary,
                                 .hidden = sizes.hidden,
                                 .dropout = block.residual_dropout,
                                 .tied = config.boolean_or("tie_word_embeddings", false)};
  Model model = decoder_model(usual_decoder(embedding, block, sizes.blocks));
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  model.max_positions = position_count(config);
  model.longer = true;
  return model;
}

}  // namespace weir
