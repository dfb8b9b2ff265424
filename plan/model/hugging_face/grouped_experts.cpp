// Grouped-query attention and experts as DeepSeek's router sends to them, under other names:
// GLM-4.5 to 4.7, Solar Open, dots.llm1, ERNIE 4.5, MiniMax-M2; OLMoE and Llama 4.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {
namespace {

Model dense_then_sparse(JsonObject& config, Decoder decoder, const RoutedExperts& experts) {
  decoder.first_block = decoder.block;
  set_routed_experts(config, decoder.block, experts);
  decoder.first_blocks = dense_blocks(config, experts.dense_blocks, decoder.blocks);
  Model model = decoder_of(config, decoder);
  leave_out_predictors(config, model);
  return model;
}

// Where `sparse` says so, counted from 0, blocks become that one.
template <typename Sparse>
void set_blocks(Model& model, const TransformerShape& block, const Sparse& sparse) {
  std::int64_t number = 0;
  for (Layer& layer : model.layers) {
    auto* dense = std::get_if<TransformerShape>(&layer.shape);
    if (dense != nullptr && sparse(number++)) *dense = block;
  }
}

}  // namespace

Model glm4_moe_model(JsonObject& config) {
  const bool norms = config.boolean_or("use_qk_norm", false);
  Decoder decoder =
      llama_like(config, {.kv_heads = 8, .qkv_bias = false, .epsilon = 1e-5, .qk_norm = norms});
  decoder.block.output_bias = false;
  turn_in_part(config, decoder.block, 0.5);
  return dense_then_sparse(config, decoder,
                           {.experts = 128,
                            .visited = 8,
                            .shared = 1,
                            .expert_width = 1408,
                            .dense_blocks = 1,
                            .router_bias = true});
}

// GLM-4.5's block, all with experts: a width of dense ones may stand in the config and is of none.
Model solar_open_model(JsonObject& config) {
  Decoder decoder = llama_like(config, {.kv_heads = 8,
                                        .qkv_bias = false,
                                        .epsilon = 1e-5,
                                        .theta = 1e6,
                                        .head_dim = 128,
                                        .ffn_optional = true});
  decoder.block.output_bias = false;
  return dense_then_sparse(config, decoder,
                           {.experts = 128,
                            .visited = 8,
                            .shared = 1,
                            .expert_width = 1280,
                            .dense_blocks = 0,
                            .router_bias = true});
}

Model dots1_model(JsonObject& config) {
  const Decoder decoder = llama_like(config, {.kv_heads = 32, .qkv_bias = false, .qk_norm = true});
  // A window is of the blocks from max_window_layers on, which are none where all attend fully.
  static_cast<void>(windowed_blocks(config, decoder.blocks, 1));
  return dense_then_sparse(config, decoder,
                           {.experts = 128,
                            .visited = 0,
                            .shared = 2,
                            .expert_width = 1408,
                            .dense_blocks = 0,
                            .router_bias = true});
}

Model ernie45_moe_model(JsonObject& config) {
  require(config, "use_bias", false);
  const Decoder decoder = llama_like(
      config, {.kv_heads = 4, .qkv_bias = false, .epsilon = 1e-5, .theta = 500000, .tied = true});
  TransformerShape sparse = decoder.block;
  sparse.experts = config.integer_or("moe_num_experts", 64, 2, kLargestSize);
  sparse.experts_per_token = config.integer_or("moe_k", 6, 1, sparse.experts);
  sparse.ffn = config.integer_or("moe_intermediate_size", 1536, 1, kLargestSize);
  sparse.shared_ffn = sparse.ffn * config.integer_or("moe_num_shared_experts", 2, 0, 1024);
  sparse.router_bias = true;
  const std::int64_t first = config.integer_or("moe_layer_start_index", 1, 0, kMostLayers);
  std::int64_t last = config.integer_or("moe_layer_end_index", -1, -1, kMostLayers);
  if (last < 0) last = decoder.blocks - 1;
  const std::int64_t step = config.integer_or("moe_layer_interval", 1, 1, kMostLayers);
  Model model = decoder_of(config, decoder);
  set_blocks(model, sparse,
             [&](std::int64_t i) { return (i + 1) % step == 0 && i >= first && i <= last; });
  leave_out_predictors(config, model);
  return model;
}

// Norms of queries and keys over all heads together; a quarter to a half of each is turned.
Model minimax_m2_model(JsonObject& config) {
  Decoder decoder = llama_like(
      config, {.kv_heads = 8, .qkv_bias = false, .theta = 5e6, .head_dim = 128, .qk_norm = true});
  TransformerShape& block = decoder.block;
  block.wide_qk_norm = config.text_or("qk_norm_type", "per_layer") == "per_layer";
  block.qk_norm = config.boolean_or("use_qk_norm", true);
  block.wide_qk_norm = block.wide_qk_norm && block.qk_norm;
  turn_in_part(config, block, 1);
  if (config.integer_or("rotary_dim", block.head_dim, 1, kLargestSize) != block.head_dim)
    block.angles.scaling = RotaryScaling::other;
  block.experts = config.integer_or("num_local_experts", 256, 2, kLargestSize);
  block.experts_per_token = config.integer_or("num_experts_per_tok", 8, 1, block.experts);
  block.shared_ffn = config.integer_or("shared_intermediate_size", 0, 0, kLargestSize);
  block.router_bias = config.boolean_or("use_routing_bias", true);
  if (config.has("attn_type_list") && !config.is_null("attn_type_list")) {
    for (const std::int64_t type : config.integers("attn_type_list", 0, 1)) {
      if (type == 0)
        config.fail("attn_type_list",
                    "expected 1 for each block: linear attention is not modelled");
    }
  }
  Model model = decoder_of(config, decoder);
  const std::int64_t modules = config.integer_or("num_mtp_modules", 0, 0, 1024);
  static_cast<void>(config.integer_or("mtp_transformer_layers", 0, 0, 1024));
  if (config.boolean_or("use_mtp", modules > 0) && modules > 0) {
    model.remarks.push_back(
        fmt::format("num_mtp_modules: {}: layers that predict further tokens are not modelled and "
                    "are left out, "
                    "as the class leaves them out",
                    modules));
  }
  return model;
}

// OLMoE: norms as MiniMax-M2's, all blocks with experts, no shared one.
Model olmoe_model(JsonObject& config) {
  Decoder decoder =
      llama_like(config, {.kv_heads = 0, .qkv_bias = false, .epsilon = 1e-5, .qk_norm = true});
  TransformerShape& block = decoder.block;
  block.wide_qk_norm = true;
  block.experts = config.integer_or("num_experts", 64, 2, kLargestSize);
  block.experts_per_token = config.integer_or("num_experts_per_tok", 8, 1, block.experts);
  block.router_pre_softmax = !config.boolean_or("norm_topk_prob", false);
  return decoder_of(config, decoder);
}

// Llama 4's text: an expert of a token and one that all tokens visit, in every block or every
// second one; three of four blocks attend within chunks, every fourth has no positions. Norms of
// queries and keys have no gains.
Model llama4_model(JsonObject& config) {
  require(config, "attention_bias", false);
  Decoder decoder = llama_like(
      config,
      {.kv_heads = 8, .qkv_bias = false, .epsilon = 1e-5, .theta = 500000, .head_dim = 128});
  static_cast<void>(config.boolean_or("use_qk_norm", true));
  decoder.block.angles.scaling = RotaryScaling::other;
  TransformerShape sparse = decoder.block;
  sparse.experts = config.integer_or("num_local_experts", 16, 1, kLargestSize);
  sparse.experts_per_token = config.integer_or("num_experts_per_tok", 1, 1, sparse.experts);
  sparse.shared_ffn = sparse.ffn;
  decoder.block.ffn = config.integer_or("intermediate_size_mlp", 16384, 1, kLargestSize);
  std::vector<std::int64_t> named;
  if (config.has("moe_layers") && !config.is_null("moe_layers"))
    named = config.integers("moe_layers", 0, kMostLayers);
  const std::int64_t step = config.integer_or("interleave_moe_layer_step", 1, 0, kMostLayers);
  const bool listed = !named.empty();
  Model model = decoder_of(config, decoder);
  set_blocks(model, sparse, [&](std::int64_t i) {
    if (listed) return std::ranges::find(named, i) != named.end();
    return step > 0 && (i + 1) % step == 0;
  });
  if (config.is_null("attention_chunk_size")) {
    static_cast<void>(config.at("attention_chunk_size"));
    return model;
  }
  // Within one chunk attention is whole; over several it is not modelled.
  const std::int64_t chunk = config.integer_or("attention_chunk_size", 8192, 1, kLargestSize);
  model.longer = false;
  if (chunk < model.max_positions) {
    model.max_positions = chunk;
    model.remarks.push_back(fmt::format(
        "attention_chunk_size: {}: attention over several chunks is not modelled: no longer "
        "sequence is forecast",
        chunk));
  }
  return model;
}

}  // namespace weir
