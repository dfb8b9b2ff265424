// The readers of Hugging Face families, and what they share. Each takes the config's top object and
// gives the model of the class that `architectures` names first, or of the family's usual one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/model/decoder.hpp"
#include "plan/model/model.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

// decoders.cpp
[[nodiscard]] Model gpt2_model(JsonObject& config);
[[nodiscard]] Model opt_model(JsonObject& config);
[[nodiscard]] Model gpt_neox_model(JsonObject& config);
[[nodiscard]] Model gpt_bigcode_model(JsonObject& config);
[[nodiscard]] Model phi_model(JsonObject& config);
[[nodiscard]] Model bloom_model(JsonObject& config);
// llama.cpp
[[nodiscard]] Model llama_model(JsonObject& config);
[[nodiscard]] Model mistral_model(JsonObject& config);
[[nodiscard]] Model ministral3_model(JsonObject& config);
[[nodiscard]] Model qwen2_model(JsonObject& config);
[[nodiscard]] Model qwen3_model(JsonObject& config);
// llama_kin.cpp
[[nodiscard]] Model phi3_model(JsonObject& config);
[[nodiscard]] Model glm_model(JsonObject& config);
[[nodiscard]] Model glm4_model(JsonObject& config);
[[nodiscard]] Model seed_oss_model(JsonObject& config);
[[nodiscard]] Model smollm3_model(JsonObject& config);
[[nodiscard]] Model granite_model(JsonObject& config);
[[nodiscard]] Model ernie45_model(JsonObject& config);
[[nodiscard]] Model hunyuan_model(JsonObject& config);
[[nodiscard]] Model internlm_model(JsonObject& config);
[[nodiscard]] Model baichuan_model(JsonObject& config);
[[nodiscard]] Model mimo_model(JsonObject& config);
// other_names.cpp
[[nodiscard]] Model qwen_model(JsonObject& config);
[[nodiscard]] Model chatglm_model(JsonObject& config);
[[nodiscard]] Model starcoder2_model(JsonObject& config);
[[nodiscard]] Model stablelm_model(JsonObject& config);
[[nodiscard]] Model cohere_model(JsonObject& config);
[[nodiscard]] Model falcon_model(JsonObject& config);
// experts.cpp
[[nodiscard]] Model mixtral_model(JsonObject& config);
[[nodiscard]] Model granitemoe_model(JsonObject& config);
[[nodiscard]] Model qwen2_moe_model(JsonObject& config);
[[nodiscard]] Model qwen3_moe_model(JsonObject& config);
[[nodiscard]] Model gpt_oss_model(JsonObject& config);
// grouped_experts.cpp
[[nodiscard]] Model glm4_moe_model(JsonObject& config);
[[nodiscard]] Model solar_open_model(JsonObject& config);
[[nodiscard]] Model dots1_model(JsonObject& config);
[[nodiscard]] Model ernie45_moe_model(JsonObject& config);
[[nodiscard]] Model minimax_m2_model(JsonObject& config);
[[nodiscard]] Model olmoe_model(JsonObject& config);
[[nodiscard]] Model llama4_model(JsonObject& config);
// deepseek.cpp
[[nodiscard]] Model deepseek_v2_model(JsonObject& config);
[[nodiscard]] Model deepseek_v3_model(JsonObject& config);
[[nodiscard]] Model glm4_moe_lite_model(JsonObject& config);
// gemma.cpp
[[nodiscard]] Model gemma_model(JsonObject& config);
[[nodiscard]] Model gemma2_model(JsonObject& config);
[[nodiscard]] Model gemma3_model(JsonObject& config);
[[nodiscard]] Model gemma4_model(JsonObject& config);
// encoders.cpp
[[nodiscard]] Model bert_model(JsonObject& config);
[[nodiscard]] Model vit_model(JsonObject& config);
// t5.cpp
[[nodiscard]] Model t5_model(JsonObject& config);

// Keys by which most families name the same things. `heads` divides `hidden` unless said otherwise.
struct BlockSizes {
  std::int64_t hidden, heads, blocks;
};
[[nodiscard]] BlockSizes block_sizes(JsonObject& config);
// Layers "name.0", "name.1", ... of one shape.
void append_blocks(Model& model, std::string_view name, const TransformerShape& block,
                   std::int64_t count);
// A transformer block of these sizes, all heads alike.
[[nodiscard]] TransformerShape even_block(JsonObject& config, const BlockSizes& sizes);

// What distinguishes the classes that share Llama's block (llama.cpp).
struct LlamaDefaults {
  std::int64_t kv_heads;  // 0: as many as heads, which an explicit null always means
  bool qkv_bias;
  double epsilon = 1e-6;
  double theta = 10000;
  std::int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  bool qk_norm = false;
  bool attention_bias = false;
  bool tied = false;
  bool ffn_optional = false;  // all blocks have experts, whose width is another key
};
// Llama's design: rotary positions, RMS norms, gated SiLU, grouped-query attention.
[[nodiscard]] Decoder llama_like(JsonObject& config, const LlamaDefaults& defaults);
[[nodiscard]] RotaryAngles rotary_angles(JsonObject& config, double theta);
// Only a part of each head is turned: no size hangs on it, a run does.
void turn_in_part(JsonObject& config, TransformerShape& block, double otherwise);
// Its layers, with the initial weights and positions that the config says.
[[nodiscard]] Model decoder_of(JsonObject& config, const Decoder& decoder);
// Where a family's window of attention is not modelled it bounds the sequence; 0: there is none.
void bound_by_window(JsonObject& config, Model& model, std::int64_t otherwise);
// By block, whether it attends within the window: `layer_types`, or where that is absent all but
// the last of every `period` blocks.
[[nodiscard]] std::vector<bool> windowed_blocks(JsonObject& config, std::int64_t blocks,
                                                std::int64_t period);
// Gives those blocks of a decoder their window.
void set_windows(Model& model, const std::vector<bool>& windowed, std::int64_t window);

[[nodiscard]] std::int64_t vocabulary_size(JsonObject& config);
[[nodiscard]] std::int64_t position_count(JsonObject& config);
// Experts as DeepSeek's classes have them (deepseek.cpp), and what a class has where its config is
// silent.
struct RoutedExperts {
  std::int64_t experts, visited;  // visited 0: must be there
  std::int64_t shared, expert_width, dense_blocks;
  bool router_bias;  // that keeps the experts' loads alike, a number each
};
void set_routed_experts(JsonObject& config, TransformerShape& block, const RoutedExperts& defaults);
// Blocks before the first one with experts.
[[nodiscard]] std::int64_t dense_blocks(JsonObject& config, std::int64_t otherwise,
                                        std::int64_t blocks);
// Layers that predict further tokens are no blocks of the model; how many, and a remark.
void leave_out_predictors(JsonObject& config, Model& model);
// A dropout rate.
[[nodiscard]] double rate(JsonObject& config, std::string_view key, double otherwise);

// `name` is what the key holds, or part of it.
[[nodiscard]] Activation parse_activation(JsonObject& config, std::string_view key,
                                          const std::string& name);
[[nodiscard]] Activation activation(JsonObject& config, std::string_view key,
                                    std::string_view otherwise);

// The class named first; empty where none is.
[[nodiscard]] std::string architecture(JsonObject& config);
// That class must be the causal language model: other classes have other heads.
void require_causal_head(JsonObject& config);
// Classes of a classifier: as many as `id2label` has entries, else `num_labels`, else the library's
// two.
[[nodiscard]] std::int64_t label_count(JsonObject& config);
// Throws unless a key is absent, null, or what is modelled.
void require(JsonObject& config, std::string_view key, bool modelled);

}  // namespace weir
