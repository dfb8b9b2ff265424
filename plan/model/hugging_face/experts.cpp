// Llama's block with experts: Mixtral, Qwen2-MoE, Qwen3-MoE, gpt-oss.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {
namespace {

struct ExpertCount {
  std::int64_t all, a_token;
};

ExpertCount experts_of(JsonObject& config, const char* key, ExpertCount defaults) {
  const std::int64_t all = config.integer_or(key, defaults.all, 1, kLargestSize);
  const std::int64_t visited =
      config.integer_or("num_experts_per_tok", defaults.a_token, 1, kLargestSize);
  if (visited > all) config.fail("num_experts_per_tok", fmt::format("exceeds {} = {}", key, all));
  return {all, visited};
}

TransformerShape with_experts(TransformerShape block, const ExpertCount& experts) {
  block.experts = experts.all;
  block.experts_per_token = experts.a_token;
  return block;
}

// Qwen's blocks have experts where their number, counted from 1, is a multiple of
// decoder_sparse_step, and mlp_only_layers does not name them.
void set_sparse_blocks(JsonObject& config, Model& model, const TransformerShape& sparse) {
  const std::int64_t step = config.integer_or("decoder_sparse_step", 1, 1, kMostLayers);
  std::vector<std::int64_t> dense;
  if (config.has("mlp_only_layers") && !config.is_null("mlp_only_layers"))
    dense = config.integers("mlp_only_layers", 0, kMostLayers);
  std::int64_t number = 0;
  for (Layer& layer : model.layers) {
    auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr) continue;
    const bool named = std::ranges::find(dense, number) != dense.end();
    ++number;
    if (number % step == 0 && !named) *block = sparse;
  }
}

}  // namespace

// Mistral's block with experts: a router sends each token to a few of them.
Model mixtral_model(JsonObject& config) {
  Decoder decoder =
      llama_like(config, {.kv_heads = 8, .qkv_bias = false, .epsilon = 1e-5, .theta = 1e6});
  decoder.block = with_experts(decoder.block, experts_of(config, "num_local_experts", {8, 2}));
  Model model = decoder_of(config, decoder);
  bound_by_window(config, model, 0);
  return model;
}

// Mixtral's block; `intermediate_size` is an expert's too.
Model granitemoe_model(JsonObject& config) {
  Decoder decoder = llama_like(config, {.kv_heads = 0, .qkv_bias = false});
  decoder.block = with_experts(decoder.block, experts_of(config, "num_local_experts", {8, 2}));
  decoder.embedding.scale = config.number_or("embedding_multiplier", 1, 0, 1e6);
  for (const char* key : {"residual_multiplier", "attention_multiplier", "logits_scaling"})
    static_cast<void>(config.number_or(key, 1, 0, 1e6));
  return decoder_of(config, decoder);
}

// Qwen2's block; beside the experts that a token is sent to one that all tokens pass, weighed by
// the sigmoid of a product with the token.
Model qwen2_moe_model(JsonObject& config) {
  require(config, "use_sliding_window", false);
  const bool bias = config.boolean_or("qkv_bias", true);
  const Decoder decoder = llama_like(config, {.kv_heads = 16, .qkv_bias = bias});
  Model model = decoder_of(config, decoder);
  TransformerShape sparse = with_experts(decoder.block, experts_of(config, "num_experts", {60, 4}));
  sparse.ffn = config.integer_or("moe_intermediate_size", 1408, 1, kLargestSize);
  sparse.shared_ffn = config.integer_or("shared_expert_intermediate_size", 5632, 1, kLargestSize);
  sparse.shared_gate = true;
  sparse.router_pre_softmax = !config.boolean_or("norm_topk_prob", false);
  set_sparse_blocks(config, model, sparse);
  return model;
}

// Qwen3's block; no shared expert.
Model qwen3_moe_model(JsonObject& config) {
  require(config, "use_sliding_window", false);
  const Decoder decoder = llama_like(config, {.kv_heads = 4, .qkv_bias = false, .qk_norm = true});
  Model model = decoder_of(config, decoder);
  const char* key = config.has("num_local_experts") ? "num_local_experts" : "num_experts";
  TransformerShape sparse = with_experts(decoder.block, experts_of(config, key, {128, 8}));
  sparse.ffn = config.integer_or("moe_intermediate_size", 768, 1, kLargestSize);
  sparse.router_pre_softmax = !config.boolean_or("norm_topk_prob", false);
  set_sparse_blocks(config, model, sparse);
  return model;
}

// Biases everywhere, the router's among them; a learned score a head beside those of the keys;
// every other block attends within a window.
Model gpt_oss_model(JsonObject& config) {
  Decoder decoder = llama_like(config, {.kv_heads = 8,
                                        .qkv_bias = false,
                                        .epsilon = 1e-5,
                                        .theta = 150000,
                                        .head_dim = 64,
                                        .attention_bias = true});
  decoder.block = with_experts(decoder.block, experts_of(config, "num_local_experts", {128, 4}));
  decoder.block.mlp_bias = decoder.block.router_bias = decoder.block.sinks = true;
  Model model = decoder_of(config, decoder);
  set_windows(model, windowed_blocks(config, decoder.blocks, 2),
              config.integer_or("sliding_window", 128, 1, kLargestSize));
  return model;
}

}  // namespace weir
