// Published pairs of runs that differ in one word of a plan, forecast by the command: to the side
// that was measured, and by a size as near as docs/accuracy.md says. Nothing was chosen by them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/commands/command.hpp"

namespace weir::word_pairs_test {
namespace {

using Json = nlohmann::json;

class WordPairs : public InFolder {
 protected:
  WordPairs() {
    write("qwen3-8b.json", R"({"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36,
      "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
      "intermediate_size": 12288, "vocab_size": 151936, "max_position_embeddings": 40960,
      "tie_word_embeddings": false})");
    write("qwen3-30b-a3b.json", R"({"model_type": "qwen3_moe", "hidden_size": 2048,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
      "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936,
      "max_position_embeddings": 40960, "tie_word_embeddings": false})");
    write("moonlight-16b.json", R"({"model_type": "deepseek_v3", "hidden_size": 2048,
      "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
      "kv_lora_rank": 512, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "intermediate_size": 11264, "moe_intermediate_size": 1408,
      "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
      "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 163840,
      "max_position_embeddings": 8192, "tie_word_embeddings": false})");
  }
  Json forecast(const std::string& plan, const std::string& cluster, const std::string& stack) {
    EXPECT_EQ(weir("-q plan " + plan + " --dtype bf16 --attention fused --cluster " + cluster +
                   " -o plan.json")
                  .code,
              0);
    // What does not fit (exit code 4) is forecast all the same.
    const CommandResult said = shell(WEIR_COMMAND " -q --json simulate plan.json --cluster " +
                                     cluster + " --stack " + stack + " 2> errors");
    return Json::parse(said.out);
  }
  static double peak_gb(const Json& forecast) {
    double most = 0;
    for (const Json& rank : forecast["ranks"])
      most = std::max(most, rank["peak_memory_bytes"].get<double>() / 1e9);
    return most;
  }
};

// Qwen3-8B on one GPU, every block rebuilt, its input with the host or not (axolotl, pull requests
// 3776 and 3733): of 8,192 tokens the host holds 2.41 GB more, 36 inputs of 8,192 x 4,096 numbers
// of two bytes, and the device next to nothing less, for its peak lies at the head; of 16,384 and
// 32,768 tokens the device holds 4.4 and 8.8 GB less. It is forecast at 5.1 and 10.1.
TEST_F(WordPairs, BlocksInputsWithTheHost) {
  struct Pair {
    std::int64_t tokens;
    double less_gb;
  };
  for (const auto& [tokens, less_gb] : {Pair{8192, 0.07}, {16384, 4.4}, {32768, 8.8}}) {
    const std::string plan =
        "qwen3-8b.json -K 1 -M 1 -b 1 --recompute full --seq-length " + std::to_string(tokens);
    const Json before = forecast(plan, "dgx-h200", "torchtitan-eager");
    const Json after = forecast(plan + " --offload-activations 1", "dgx-h200", "torchtitan-eager");
    EXPECT_EQ(after["host"]["activations_bytes"], 36 * tokens * 4096 * 2) << tokens;
    EXPECT_NEAR(peak_gb(before) - peak_gb(after), less_gb, 0.16 * less_gb + 0.07) << tokens;
    // Copies travel beside the work: -0.4 % was measured of 8,192 tokens.
    EXPECT_NEAR(after["step_time_s"].get<double>() / before["step_time_s"].get<double>(), 1, 0.005)
        << tokens;
  }
}

// Moonlight 16B, TP 2, EP 8, 4 sequences a replica on 16 H100s (Megatron-Bridge@067f987df03b,
// skills/*/card.yaml): two modules rebuilt hold 0.72 and 0.68 GB less, forecast at 0.93 and 0.95.
TEST_F(WordPairs, ModulesRebuilt) {
  const std::string plan =
      "moonlight-16b.json -K 1 --tp 2 --sequence-parallel --ep 8 --dp 8 -M 4 -b 1 --zero 1 "
      "--seq-length 4096 --recompute ";
  const double none = peak_gb(forecast(plan + "none", "dgx-h100", "megatron-core"));
  struct Pair {
    const char* module;
    double less_gb, times;
  };
  for (const auto& [module, less_gb, times] :
       {Pair{"mla_up_proj", 0.72, 1.4}, {"moe_act", 0.68, 1.5}}) {
    const double less =
        none - peak_gb(forecast(plan + "selective:" + module, "dgx-h100", "megatron-core"));
    EXPECT_GT(less, less_gb / times) << module;
    EXPECT_LT(less, less_gb * times) << module;
  }
}

// Qwen3-30B-A3B, TP 2, PP 2, EP 4 on 16 H100s (the same, skills/nemo-mbridge-perf-cuda-graphs):
// 623 ms a step without graphs of attention, router and what sorts tokens, 484 with, 0.777 of it.
// Its batch is not stated. Of 16 sequences it is forecast at 0.577: the host's time for a block
// with experts is forecast too long, and no memory is added.
TEST_F(WordPairs, CudaGraphs) {
  const std::string plan =
      "qwen3-30b-a3b.json -K 2 --tp 2 --sequence-parallel --ep 4 --dp 4 -M 4 -b 1 --zero 1 "
      "--seq-length 4096";
  const Json without = forecast(plan, "dgx-h100", "megatron-core");
  const Json with =
      forecast(plan + " --cuda-graphs attn+moe_router+moe_preprocess", "dgx-h100", "megatron-core");
  const double ratio = with["step_time_s"].get<double>() / without["step_time_s"].get<double>();
  EXPECT_GT(ratio, 0.5);
  EXPECT_LT(ratio, 0.9);
  EXPECT_EQ(peak_gb(with), peak_gb(without));
}

// The same model and machines, its optimizer's state with the hosts by quarters
// (skills/nemo-mbridge-perf-cpu-offloading): 0.875, 1.488, 2.191 and 3.193 s a step more, forecast
// at 0.742, 1.447, 2.212 and 2.952.
TEST_F(WordPairs, OptimizersStateWithTheHost) {
  const std::string plan =
      "qwen3-30b-a3b.json -K 2 --tp 2 --sequence-parallel --ep 4 --dp 4 -M 4 -b 1 --zero 1 "
      "--seq-length 4096";
  const double without = forecast(plan, "dgx-h100", "megatron-core")["step_time_s"].get<double>();
  struct Pair {
    const char* share;
    double more_s;
  };
  for (const auto& [share, more_s] :
       {Pair{"0.25", 0.875}, {"0.5", 1.488}, {"0.75", 2.191}, {"1", 3.193}}) {
    const Json with = forecast(plan + " --offload-optimizer " + share, "dgx-h100", "megatron-core");
    EXPECT_NEAR(with["step_time_s"].get<double>() - without, more_s, 0.16 * more_s) << share;
  }
}

}  // namespace
}  // namespace weir::word_pairs_test
