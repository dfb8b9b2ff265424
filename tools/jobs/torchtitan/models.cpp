// Sizes as torchtitan's models/*/__init__.py have them (pytorch/torchtitan@b5bcd76c6,
// BSD-3-Clause), written as the Hugging Face configs of the same models and read as those are.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torchtitan/models.hpp"

#include <array>
#include <string>

#include "plan/model/hugging_face/hugging_face.hpp"
#include "tools/jobs/torchtitan/words.hpp"

namespace weir {
namespace {

// Heads of 128; a rotary base of `theta`; experts where there are any.
struct Qwen3 {
  std::string_view flavor;
  std::int64_t hidden, blocks, heads, kv_heads, ffn;
  std::int64_t experts = 0;  // of width ffn
  bool tied = false;
  std::int64_t tokens = 151936;
  double theta = 1e6;
};
constexpr std::array<Qwen3, 11> kQwen3{
    {{"debugmodel", 256, 8, 16, 8, 3072, 0, true, 2048},
     {"debugmodel_non_fused_qkv", 256, 8, 16, 8, 3072, 0, true, 2048},
     {"0.6B", 1024, 28, 16, 8, 3072, 0, true},
     {"1.7B", 2048, 28, 16, 8, 6144, 0, true},
     {"4B", 2560, 36, 32, 8, 9728, 0, true},
     {"8B", 4096, 36, 32, 8, 12288},
     {"14B", 5120, 40, 40, 8, 17408},
     {"32B", 5120, 64, 64, 8, 25600},
     {"debugmodel_moe", 256, 8, 16, 8, 768, 64, false, 2048},
     {"30B-A3B", 2048, 48, 32, 4, 768, 128},
     {"235B-A22B", 4096, 94, 64, 4, 1536, 128, false, 151936, 5e6}}};

Json config_of(const Qwen3& f) {
  const bool sparse = f.experts > 0;
  Json json{{"model_type", sparse ? "qwen3_moe" : "qwen3"},
            {"hidden_size", f.hidden},
            {"num_hidden_layers", f.blocks},
            {"num_attention_heads", f.heads},
            {"num_key_value_heads", f.kv_heads},
            {"head_dim", 128},
            {"intermediate_size", f.ffn},
            {"vocab_size", f.tokens},
            {"tie_word_embeddings", f.tied},
            {"rope_theta", f.theta},
            {"rms_norm_eps", 1e-6}};
  if (sparse) {
    json["num_experts"] = f.experts;
    json["num_experts_per_tok"] = 8;
    json["moe_intermediate_size"] = f.ffn;
  }
  return json;
}

// Latent attention; the first blocks are dense.
struct DeepSeek {
  std::string_view flavor;
  std::int64_t hidden, blocks, heads, query, dense_ffn, expert_ffn, experts, shared, visited;
  std::int64_t dense_blocks = 1, tokens = 102400;
};
constexpr std::array<DeepSeek, 4> kDeepSeek{
    {{"debugmodel", 256, 6, 16, 0, 1024, 256, 8, 2, 3, 1, 2048},
     {"16B", 2048, 27, 16, 0, 10944, 1408, 64, 2, 6},
     {"236B", 5120, 60, 128, 1536, 12288, 1536, 160, 2, 6},
     {"671B", 7168, 61, 128, 1536, 18432, 2048, 256, 1, 8, 3, 129280}}};

Json config_of(const DeepSeek& f) {
  return {{"model_type", "deepseek_v3"},
          {"hidden_size", f.hidden},
          {"num_hidden_layers", f.blocks},
          {"num_attention_heads", f.heads},
          {"q_lora_rank", f.query > 0 ? Json(f.query) : Json()},
          {"kv_lora_rank", 512},
          {"qk_nope_head_dim", 128},
          {"qk_rope_head_dim", 64},
          {"v_head_dim", 128},
          {"intermediate_size", f.dense_ffn},
          {"moe_intermediate_size", f.expert_ffn},
          {"n_routed_experts", f.experts},
          {"n_shared_experts", f.shared},
          {"num_experts_per_tok", f.visited},
          {"first_k_dense_replace", f.dense_blocks},
          {"vocab_size", f.tokens},
          {"rope_theta", 10000}};
}

// Heads of 64, every second block within a window of 128 tokens, four experts a token.
struct GptOss {
  std::string_view flavor;
  std::int64_t hidden, blocks, experts, tokens;
};
constexpr std::array<GptOss, 3> kGptOss{{{"debugmodel", 256, 4, 8, 2048},
                                         {"20b", 2880, 24, 32, 201088},
                                         {"120b", 2880, 36, 128, 201088}}};

Json config_of(const GptOss& f) {
  return {{"model_type", "gpt_oss"},       {"hidden_size", f.hidden},
          {"num_hidden_layers", f.blocks}, {"num_attention_heads", 64},
          {"num_key_value_heads", 8},      {"head_dim", 64},
          {"intermediate_size", 2880},     {"num_local_experts", f.experts},
          {"num_experts_per_tok", 4},      {"sliding_window", 128},
          {"vocab_size", f.tokens},        {"rope_theta", 150000}};
}

template <class Flavors>
std::optional<Json> config_among(const Flavors& flavors, std::string_view flavor) {
  for (const auto& known : flavors) {
    if (known.flavor == flavor) return config_of(known);
  }
  return std::nullopt;
}

std::optional<Json> config_of(std::string_view name, std::string_view flavor) {
  if (name == "qwen3") return config_among(kQwen3, flavor);
  if (name == "deepseek_v3") return config_among(kDeepSeek, flavor);
  if (name == "gpt_oss") return config_among(kGptOss, flavor);
  return std::nullopt;
}

}  // namespace

std::optional<Model> torchtitan_model(std::string_view name, std::string_view flavor,
                                      std::int64_t seq_length) {
  if (name == "llama3") {
    const auto decoder = torchtitan_llama3(flavor);
    return decoder ? std::optional(decoder_model(*decoder, seq_length)) : std::nullopt;
  }
  auto config = config_of(name, flavor);
  if (!config) return std::nullopt;
  (*config)["max_position_embeddings"] = seq_length;  // its angles go as far as the job asks
  Model model = hugging_face_model(*config, std::string(name));
  model.family = "layers";
  model.seq_length = seq_length;
  return model;
}

}  // namespace weir
