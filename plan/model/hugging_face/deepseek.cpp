// DeepSeek-V2, and V3 with its kin (R1, Kimi K2, GLM-4.7-Flash): latent attention, experts after
// the first blocks.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/expert_groups.hpp"
#include "plan/model/hugging_face/families.hpp"
#include "plan/model/limits.hpp"

namespace weir {
namespace {

// Where the classes' defaults differ.
struct DeepSeekDefaults {
  RoutedExperts experts;
  std::int64_t query = 1536, value = 128, unturned = 128;
};

LatentAttention latent_attention(JsonObject& config, const DeepSeekDefaults& defaults) {
  LatentAttention latent;
  if (!config.is_null("q_lora_rank")) {
    latent.query = config.integer_or("q_lora_rank", defaults.query, 1, kLargestSize);
  } else {
    // null: queries are not compressed. The key counts as read all the same.
    static_cast<void>(config.at("q_lora_rank"));
  }
  latent.key_value = config.integer_or("kv_lora_rank", 512, 1, kLargestSize);
  latent.rotary = config.integer_or("qk_rope_head_dim", 64, 1, kLargestSize);
  latent.value = config.integer_or("v_head_dim", defaults.value, 1, kLargestSize);
  return latent;
}

}  // namespace

void set_routed_experts(JsonObject& config, TransformerShape& block,
                        const RoutedExperts& defaults) {
  block.experts = config.integer_or("n_routed_experts", defaults.experts, 2, kLargestSize);
  block.experts_per_token =
      defaults.visited == 0
          ? config.integer("num_experts_per_tok", 1, kLargestSize)
          : config.integer_or("num_experts_per_tok", defaults.visited, 1, kLargestSize);
  if (block.experts_per_token > block.experts)
    config.fail("num_experts_per_tok", fmt::format("exceeds n_routed_experts = {}", block.experts));
  block.ffn = config.integer_or("moe_intermediate_size", defaults.expert_width, 1, kLargestSize);
  // Shared experts are one MLP of their summed width.
  block.shared_ffn = block.ffn * config.integer_or("n_shared_experts", defaults.shared, 0, 1024);
  block.router_bias = defaults.router_bias;
  // Groups of which a token visits all are none. DeepSeek-V2 draws groups where it says how.
  const bool said = config.has("n_group") && !config.is_null("n_group");
  const std::int64_t groups = said ? config.integer("n_group", 1, block.experts) : 1;
  const std::int64_t drawn = groups > 1 ? config.integer("topk_group", 1, groups) : 1;
  if (drawn < groups && config.text_or("topk_method", "noaux_tc") != "greedy") {
    block.expert_groups = groups;
    block.groups_per_token = drawn;
  }
  if (const auto why = cannot_group(block)) config.fail("n_group", *why);
  if (config.integer_or("moe_layer_freq", 1, 1, kMostLayers) != 1)
    config.fail("moe_layer_freq", "expected 1: every block after the first ones has experts");
}

std::int64_t dense_blocks(JsonObject& config, std::int64_t otherwise, std::int64_t blocks) {
  // A list of newer files, a kind a block, says the same.
  if (config.has("mlp_layer_types") && !config.is_null("mlp_layer_types")) {
    std::int64_t dense = 0;
    bool sparse = false;
    for (const std::string& type : config.texts("mlp_layer_types")) {
      if (type == "dense" && sparse)
        config.fail("mlp_layer_types", "expected all dense blocks before those with experts");
      sparse = sparse || type != "dense";
      dense += type == "dense" ? 1 : 0;
    }
    otherwise = dense;
  }
  return config.integer_or("first_k_dense_replace", otherwise, 0, blocks);
}

void leave_out_predictors(JsonObject& config, Model& model) {
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_layers"}) {
    const std::int64_t predicting = config.integer_or(key, 0, 0, 1024);
    if (predicting == 0) continue;
    model.prediction_layers = static_cast<int>(predicting);
    model.remarks.push_back(
        fmt::format("{}: {}: layers that predict further tokens, which the class leaves out, come "
                    "in by a plan's "
                    "prediction_layers alone",
                    key, predicting));
  }
}

namespace {

Model deepseek_model(JsonObject& config, const DeepSeekDefaults& defaults) {
  require_causal_head(config);
  require(config, "attention_bias", false);
  const BlockSizes sizes = block_sizes(config);
  TransformerShape dense{.hidden = sizes.hidden, .heads = sizes.heads, .kv_heads = sizes.heads};
  // Each head makes its keys from the latent ones, so the number decides nothing.
  static_cast<void>(config.integer_or("num_key_value_heads", sizes.heads, 1, kLargestSize));
  dense.latent = latent_attention(config, defaults);
  dense.head_dim = config.integer_or("qk_nope_head_dim", defaults.unturned, 1, kLargestSize) +
                   dense.latent.rotary;
  dense.ffn = config.integer("intermediate_size", 1, kLargestSize);
  dense.activation = activation(config, "hidden_act", "silu");
  dense.norm = NormKind::rms_norm;
  dense.gated = dense.rotary = true;
  dense.qkv_bias = dense.output_bias = dense.mlp_bias = false;
  dense.angles = rotary_angles(config, 10000);
  dense.norm_epsilon = config.number_or("rms_norm_eps", 1e-6, 1e-12, 1);
  dense.attention_dropout = rate(config, "attention_dropout", 0);
  TransformerShape sparse = dense;
  set_routed_experts(config, sparse, defaults.experts);
  const EmbeddingShape embedding{.vocabulary = vocabulary_size(config),
                                 .hidden = sizes.hidden,
                                 .tied = config.boolean_or("tie_word_embeddings", false)};
  Decoder decoder = usual_decoder(embedding, sparse, sizes.blocks);
  decoder.first_block = dense;
  decoder.first_blocks = dense_blocks(config, defaults.experts.dense_blocks, sizes.blocks);
  Model model = decoder_of(config, decoder);
  leave_out_predictors(config, model);
  return model;
}

}  // namespace

Model deepseek_v2_model(JsonObject& config) {
  return deepseek_model(config, {.experts = {.experts = 64,
                                             .visited = 0,
                                             .shared = 2,
                                             .expert_width = 1407,
                                             .dense_blocks = 0,
                                             .router_bias = false}});
}

Model deepseek_v3_model(JsonObject& config) {
  return deepseek_model(config, {.experts = {.experts = 256,
                                             .visited = 8,
                                             .shared = 1,
                                             .expert_width = 2048,
                                             .dense_blocks = 3,
                                             .router_bias = true}});
}

// GLM-4.7-Flash: V3's block of other sizes.
Model glm4_moe_lite_model(JsonObject& config) {
  return deepseek_model(config, {.experts = {.experts = 64,
                                             .visited = 4,
                                             .shared = 1,
                                             .expert_width = 1536,
                                             .dense_blocks = 1,
                                             .router_bias = true},
                                 .query = 768,
                                 .value = 256,
                                 .unturned = 192});
}

}  // namespace weir
