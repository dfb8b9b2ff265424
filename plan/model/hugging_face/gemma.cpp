// Gemma, Gemma 2, and the text of Gemma 3 and 4: Llama's block, embeddings scaled by the root of
// the width, and from 2 on norms of what attention and MLP give and windows of attention.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {
namespace {

// The gain of its norms is 1 + w with w from 0, which trains as a gain from 1 does. Caps of scores
// and logits (Gemma 2) are part of the kernels that make them.
Decoder gemma_like(JsonObject& config, const LlamaDefaults& defaults) {
  Decoder decoder = llama_like(config, defaults);
  // `hidden_act` of the first checkpoints is not what the class computes.
  decoder.block.activation = activation(config, "hidden_activation", "gelu_pytorch_tanh");
  decoder.embedding.scale = std::sqrt(static_cast<double>(decoder.embedding.hidden));
  return decoder;
}

}  // namespace

Model gemma_model(JsonObject& config) {
  return decoder_of(
      config,
      gemma_like(config, {.kv_heads = 16, .qkv_bias = false, .head_dim = 256, .tied = true}));
}

Model gemma2_model(JsonObject& config) {
  Decoder decoder =
      gemma_like(config, {.kv_heads = 4, .qkv_bias = false, .head_dim = 256, .tied = true});
  decoder.block.post_norms = true;
  Model model = decoder_of(config, decoder);
  set_windows(model, windowed_blocks(config, decoder.blocks, 2),
              config.integer_or("sliding_window", 4096, 1, kLargestSize));
  return model;
}

Model gemma3_model(JsonObject& config) {
  Decoder decoder = gemma_like(config, {.kv_heads = 4,
                                        .qkv_bias = false,
                                        .theta = 1e6,
                                        .head_dim = 256,
                                        .qk_norm = true,
                                        .tied = true});
  decoder.block.post_norms = true;
  Model model = decoder_of(config, decoder);
  const std::int64_t period = config.integer_or("sliding_window_pattern", 6, 1, kMostLayers);
  set_windows(model, windowed_blocks(config, decoder.blocks, period),
              config.integer_or("sliding_window", 4096, 1, kLargestSize));
  return model;
}

// Its blocks without a window have wider heads, fewer keys, and values that are the keys. The
// smaller ones add a vector of each block's own to its input, and the one with experts has them
// beside a whole MLP: neither is modelled.
Model gemma4_model(JsonObject& config) {
  if (config.integer_or("hidden_size_per_layer_input", 256, 0, kLargestSize) > 0)
    config.fail("hidden_size_per_layer_input",
                "expected 0: embeddings of each block's own are not modelled");
  if (config.integer_or("num_kv_shared_layers", 0, 0, kMostLayers) > 0)
    config.fail("num_kv_shared_layers", "expected 0: keys of another block are not modelled");
  for (const char* key : {"enable_moe_block", "use_double_wide_mlp"}) require(config, key, false);
  Decoder decoder = gemma_like(config, {.kv_heads = 4,
                                        .qkv_bias = false,
                                        .theta = 1e6,
                                        .head_dim = 256,
                                        .qk_norm = true,
                                        .tied = true});
  decoder.block.post_norms = true;
  decoder.block.angles.scaling = RotaryScaling::other;
  TransformerShape full = decoder.block;
  full.head_dim = config.integer_or("global_head_dim", 512, 1, kLargestSize);
  full.values_are_keys = config.boolean_or("attention_k_eq_v", false);
  const std::int64_t keys =
      config.integer_or("num_global_key_value_heads", full.kv_heads, 1, kLargestSize);
  if (full.values_are_keys) full.kv_heads = keys;
  if (full.heads % full.kv_heads != 0)
    config.fail("num_global_key_value_heads", "does not divide num_attention_heads");
  Model model = decoder_of(config, decoder);
  std::vector<bool> windowed = windowed_blocks(config, decoder.blocks, 6);
  windowed.back() = false;  // the class sees to that
  set_windows(model, windowed, config.integer_or("sliding_window", 512, 1, kLargestSize));
  for (Layer& layer : model.layers) {
    auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block != nullptr && block->window == 0) *block = full;
  }
  return model;
}

}  // namespace weir
