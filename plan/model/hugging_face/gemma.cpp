// Gemma, Gemma 2 and Gemma 3's text: Llama's block, embeddings scaled by the root of the width, and
// from 2 on norms of what attention and MLP give and windows of attention.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

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

}  // namespace weir
