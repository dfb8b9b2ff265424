// The models that torchtitan knows by name, by the numbers that their publishers state.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "tools/jobs/torchtitan/import.hpp"
#include "tools/jobs/torchtitan/models.hpp"

namespace weir::torchtitan_models_test {
namespace {

std::int64_t parameters(std::string_view name, std::string_view flavor) {
  const auto model = torchtitan_model(name, flavor, 4096);
  return model ? parameter_count(*model) : 0;
}

// Qwen3 8B (Qwen/Qwen3-8B, model.safetensors.index.json): 8,190,735,360. By hand: embedding and
// head 2 * 151936 * 4096; 36 blocks of attention (32 + 2 * 8 + 32) * 128 * 4096, MLP 3 * 4096 *
// 12288, two norms of 4096 and two of 128; a norm of 4096. With experts the MLP is 128 of width
// 768, and the router 128 * 2048: 30.5 B (its card). DeepSeek-V3 says 671 B, and gpt-oss 20.9 B and
// 116.8 B.
TEST(TorchtitanModels, HaveTheirPublishedSizes) {
  EXPECT_EQ(parameters("llama3", "8B"), 8'030'261'248);
  EXPECT_EQ(parameters("qwen3", "8B"),
            2LL * 151936 * 4096 +
                36LL * (80 * 128 * 4096LL + 3LL * 4096 * 12288 + 2 * 4096 + 2 * 128) + 4096);
  EXPECT_EQ(parameters("qwen3", "8B"), 8'190'735'360);
  EXPECT_EQ(parameters("qwen3", "0.6B"), 596'049'920);
  EXPECT_EQ(parameters("qwen3", "30B-A3B"), 30'532'122'624);
  EXPECT_EQ(parameters("deepseek_v3", "671B"), 671'026'419'200);
  EXPECT_EQ(parameters("gpt_oss", "20b"), 20'914'757'184);
  EXPECT_EQ(parameters("gpt_oss", "120b"), 116'829'156'672);
  EXPECT_EQ(parameters("qwen3", "9B"), 0);
  EXPECT_EQ(parameters("flux", "dev"), 0);
}

// Dense blocks before those with experts, and windows at every second, are cut like equal ones:
// the embedding counts as a block, and so do norm and head, so of 27 blocks and two the first stage
// has 15 and so 14 blocks, of 24 and two 13, of 48 and two 25; layer 0 is the embedding.
TEST(TorchtitanModels, AreCutIntoStages) {
  struct Cut {
    const char *name, *flavor;
    int boundary;
  };
  for (const auto& [name, flavor, boundary] :
       {Cut{"deepseek_v3", "16B", 15}, Cut{"gpt_oss", "20b", 13}, Cut{"qwen3", "30B-A3B", 25}}) {
    const Job job = read_torchtitan_job(
        std::string("[model]\nname = '") + name + "'\nflavor = '" + flavor +
            "'\n[training]\nseq_len = 4096\n[parallelism]\npipeline_parallel_degree = 2\n"
            "expert_parallel_degree = 4\n[activation_checkpoint]\nmode = 'none'\n",
        "job.toml", {.gpus = 8});
    EXPECT_EQ(job.plan.boundaries, std::vector<int>{boundary}) << name;
    EXPECT_EQ(job.plan.ep, 4) << name;
    EXPECT_EQ(job.model.seq_length, 4096) << name;
  }
}

}  // namespace
}  // namespace weir::torchtitan_models_test
