// Families that are Llama's block under another name, with biases, norms or angles of their own:
// what a class computes beside it is a scale, which no size hangs on.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {
namespace {

// Phi-3 to 4: all blocks attend within the window where there is one.
void set_common_window(JsonObject& config, Model& model, std::int64_t blocks) {
  if (config.is_null("sliding_window")) {
    static_cast<void>(config.at("sliding_window"));
    return;
  }
  const std::int64_t window = config.integer_or("sliding_window", 0, 0, kLargestSize);
  if (window > 0)
    set_windows(model, std::vector<bool>(static_cast<std::size_t>(blocks), true), window);
}

// GLM: biases of queries, keys and values alone; half of each head is turned.
Decoder glm_like(JsonObject& config) {
  Decoder decoder = llama_like(config, {.kv_heads = 2,
                                        .qkv_bias = false,
                                        .epsilon = 1.5625e-07,
                                        .head_dim = 128,
                                        .attention_bias = true});
  decoder.block.output_bias = false;
  turn_in_part(config, decoder.block, 0.5);
  return decoder;
}

}  // namespace

Model phi3_model(JsonObject& config) {
  Decoder decoder = llama_like(config, {.kv_heads = 0, .qkv_bias = false, .epsilon = 1e-5});
  turn_in_part(config, decoder.block, 1);
  decoder.block.residual_dropout = rate(config, "resid_pdrop", 0);
  decoder.embedding.dropout = rate(config, "embd_pdrop", 0);
  Model model = decoder_of(config, decoder);
  set_common_window(config, model, decoder.blocks);
  return model;
}

Model glm_model(JsonObject& config) { return decoder_of(config, glm_like(config)); }

// What attention and MLP give is normalised too.
Model glm4_model(JsonObject& config) {
  Decoder decoder = glm_like(config);
  decoder.block.post_norms = true;
  return decoder_of(config, decoder);
}

Model seed_oss_model(JsonObject& config) {
  Decoder decoder = llama_like(
      config, {.kv_heads = 8, .qkv_bias = false, .head_dim = 128, .attention_bias = true});
  decoder.block.output_bias = config.boolean_or("attention_out_bias", false);
  decoder.block.residual_dropout = rate(config, "residual_dropout", 0.1);
  return decoder_of(config, decoder);
}

// Every fourth block has no positions.
Model smollm3_model(JsonObject& config) {
  require(config, "use_sliding_window", false);
  Decoder decoder =
      llama_like(config, {.kv_heads = 4, .qkv_bias = false, .theta = 2e6, .tied = true});
  decoder.block.angles.scaling = RotaryScaling::other;
  return decoder_of(config, decoder);
}

// Scales of embedding, residuals, scores and logits.
Model granite_model(JsonObject& config) {
  Decoder decoder = llama_like(config, {.kv_heads = 0, .qkv_bias = false});
  decoder.embedding.scale = config.number_or("embedding_multiplier", 1, 0, 1e6);
  for (const char* key : {"residual_multiplier", "attention_multiplier", "logits_scaling"})
    static_cast<void>(config.number_or(key, 1, 0, 1e6));
  return decoder_of(config, decoder);
}

Model ernie45_model(JsonObject& config) {
  require(config, "use_bias", false);
  return decoder_of(config, llama_like(config, {.kv_heads = 2,
                                                .qkv_bias = false,
                                                .epsilon = 1e-5,
                                                .theta = 500000,
                                                .head_dim = 128,
                                                .tied = true}));
}

Model hunyuan_model(JsonObject& config) {
  const bool norms = config.boolean_or("use_qk_norm", true);
  return decoder_of(
      config,
      llama_like(config, {.kv_heads = 0, .qkv_bias = false, .epsilon = 1e-5, .qk_norm = norms}));
}

// InternLM 2 and 3; the first ones have biases of attention (`bias`).
Model internlm_model(JsonObject& config) {
  Decoder decoder = llama_like(config, {.kv_heads = 0, .qkv_bias = false, .epsilon = 1e-5});
  const bool bias = config.boolean_or("bias", false);
  decoder.block.qkv_bias = config.boolean_or("qkv_bias", bias);
  decoder.block.output_bias = bias;
  return decoder_of(config, decoder);
}

// Baichuan: Llama's block; the larger ones say no positions but a length, and have biases on their
// scores by distance (ALiBi) in place of turned heads.
Model baichuan_model(JsonObject& config) {
  const bool turned = config.has("max_position_embeddings");
  Decoder decoder = llama_like(config, {.kv_heads = 0, .qkv_bias = false});
  decoder.block.rotary = turned;
  if (turned) {
    static_cast<void>(config.integer_or("model_max_length", 0, 0, kLargestSize));
    return decoder_of(config, decoder);
  }
  Model model = decoder_model(decoder);
  model.initializer_range = config.number_or("initializer_range", 0.02, 0, 10);
  model.seq_length = config.integer_or("model_max_length", 4096, 1, kLargestSize);
  return model;
}

Model mimo_model(JsonObject& config) {
  Model model = qwen2_model(config);
  leave_out_predictors(config, model);
  return model;
}

}  // namespace weir
