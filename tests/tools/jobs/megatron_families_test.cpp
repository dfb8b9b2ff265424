// Families of today by Megatron-LM's arguments: as many parameters as by their configs, which are
// the published ones (tests/plan/expert_families_test.cpp says whose), and what of attention and
// routers the arguments switch on.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/plan/complaint.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::megatron_families_test {
namespace {

Job megatron(const std::string& arguments) {
  return read_megatron_job(
      arguments + " --seq-length 4096 --micro-batch-size 1 --global-batch-size 16", "job.args",
      {.dp = 1});
}

// Blocks, width, heads, the MLP's width, vocabulary; groups of queries, 0 where there are none.
std::string sizes(std::array<std::int64_t, 5> n, int groups = 0) {
  return fmt::format(
             "--num-layers {} --hidden-size {} --num-attention-heads {} --ffn-hidden-size {} "
             "--vocab-size {} ",
             n[0], n[1], n[2], n[3], n[4]) +
         (groups > 0 ? fmt::format("--group-query-attention --num-query-groups {} ", groups) : "");
}

std::string experts(int all, int visited, int width, int shared = 0) {
  return fmt::format("--num-experts {} --moe-router-topk {} --moe-ffn-hidden-size {} ", all,
                     visited, width) +
         (shared > 0 ? fmt::format("--moe-shared-expert-intermediate-size {} ", shared) : "");
}

const std::string kGated = "--swiglu --normalization RMSNorm --position-embedding-type rope ";
const std::string kLlama = kGated + "--disable-bias-linear --untie-embeddings-and-output-weights ";
const std::string kQwen3 = kLlama + "--qk-layernorm --kv-channels 128 ";
const std::string kLatent =
    kLlama +
    "--multi-latent-attention --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 "
    "--v-head-dim 128 --qk-layernorm ";
const std::string kNarrowQueries = kLatent + "--q-lora-rank 1536 ";
const std::string kBalanced = "--moe-router-enable-expert-bias ";
const std::string kAlibi = "--embed-layernorm --position-embedding-type alibi ";
const std::string kGptOss = sizes({24, 2880, 64, 2880, 201088}, 8) + kGated +
                            "--untie-embeddings-and-output-weights --kv-channels 64 " +
                            experts(32, 4, 2880) + "--softmax-type learnable ";

std::string sparse_after(int dense, int blocks) {
  return fmt::format("--moe-layer-freq \"([0]*{}+[1]*{})\" ", dense, blocks - dense);
}

TEST(MegatronFamilies, HaveTheirPublishedParameters) {
  struct Published {
    const char* model;
    std::string arguments;
    std::int64_t parameters;
  };
  const std::vector<Published> all{
      {"Mixtral-8x7B",
       sizes({32, 4096, 32, 14336, 32000}, 8) + kLlama + "--num-experts 8 --moe-router-topk 2 ",
       46'702'792'704},
      {"Mixtral-8x22B",
       sizes({56, 6144, 48, 16384, 32768}, 8) + kLlama + "--num-experts 8 --moe-router-topk 2 ",
       140'630'071'296},
      {"Qwen1.5-MoE-A2.7B",
       sizes({24, 2048, 16, 5632, 151936}) + kLlama + "--add-qkv-bias --moe-shared-expert-gate " +
           experts(60, 4, 1408, 5632),
       14'315'784'192},
      {"Qwen3-8B", sizes({36, 4096, 32, 12288, 151936}, 8) + kQwen3, 8'190'735'360},
      {"Qwen3-30B-A3B", sizes({48, 2048, 32, 6144, 151936}, 4) + kQwen3 + experts(128, 8, 768),
       30'532'122'624},
      {"Qwen3-235B-A22B", sizes({94, 4096, 64, 12288, 151936}, 4) + kQwen3 + experts(128, 8, 1536),
       235'093'634'560},
      {"DeepSeek-V2-Lite",
       sizes({27, 2048, 16, 10944, 102400}) + kLatent + experts(64, 6, 1408, 2816) +
           sparse_after(1, 27),
       15'706'484'224},
      {"DeepSeek-V2",
       sizes({60, 5120, 128, 12288, 102400}) + kNarrowQueries + experts(160, 6, 1536, 3072) +
           sparse_after(1, 60),
       235'741'434'880},
      {"DeepSeek-V3",
       sizes({61, 7168, 128, 18432, 129280}) + kNarrowQueries + experts(256, 8, 2048, 2048) +
           kBalanced + sparse_after(3, 61),
       671'026'419'200},
      {"Kimi-K2",
       sizes({61, 7168, 64, 18432, 163840}) + kNarrowQueries + experts(384, 8, 2048, 2048) +
           kBalanced + sparse_after(1, 61),
       1'026'408'232'448},
      {"gpt-oss-20b", kGptOss, 20'914'757'184},
      {"Gemma-7B",
       sizes({28, 3072, 16, 24576, 256000}) + kGated + "--disable-bias-linear --kv-channels 256 ",
       8'537'680'896},
      {"BLOOM-176B", sizes({70, 14336, 112, 57344, 250880}) + kAlibi, 176'247'271'424},
      {"BLOOM-560m", sizes({24, 1024, 16, 4096, 250880}) + kAlibi, 559'214'592},
      {"StarCoder",
       sizes({40, 6144, 48, 24576, 49152}) +
           "--multi-query-attention --max-position-embeddings 8192 ",
       15'517'456'384},
      {"GPT-NeoX-20B",
       sizes({44, 6144, 64, 24576, 50432}) +
           "--position-embedding-type rope --untie-embeddings-and-output-weights ",
       20'554'567'680}};
  for (const Published& p : all)
    EXPECT_EQ(parameter_count(megatron(p.arguments).model), p.parameters) << p.model;
}

// gpt-oss's router has a bias as all products have, each of 64 heads a learned score: of 24 blocks
// 24 (32 + 64) = 2304. A window of 128 is 128 keys before a query and itself, in all but every
// second block.
TEST(MegatronFamilies, WindowsAreOfTheBlocksThatTheArgumentsName) {
  using Windows = std::vector<std::int64_t>;
  const auto windows = [](const std::string& more) {
    Windows all;
    const Job job = megatron(kGptOss + more);
    for (std::size_t block = 1; block <= 4; ++block)
      all.push_back(std::get<TransformerShape>(job.model.layers[block].shape).window);
    return all;
  };
  const std::string listed = "--window-attn-skip-freq \"([1,1,0]*8)\" ";
  EXPECT_EQ(windows(""), (Windows{0, 0, 0, 0}));
  EXPECT_EQ(windows("--window-size 128,0 --window-attn-skip-freq 2 "), (Windows{129, 0, 129, 0}));
  EXPECT_EQ(windows("--window-size \"(127, 0)\" "), (Windows{128, 128, 128, 128}));
  EXPECT_EQ(windows("--window-size 127 0 " + listed), (Windows{128, 128, 0, 128}));
  EXPECT_EQ(windows("--window-size -1,0 "), (Windows{0, 0, 0, 0}));
  const auto line = [](const std::string& more) {
    return complaint([&] { static_cast<void>(megatron(kGptOss + more)); });
  };
  EXPECT_EQ(line("--window-size wide "),
            "job.args: --window-size: expected keys before a query and behind it, as 128,0");
  EXPECT_EQ(line("--window-size 127,0 --window-attn-skip-freq [1,0]*3 "),
            "job.args: --window-attn-skip-freq: holds 6 layers of num-layers 24");
  EXPECT_EQ(line("--softmax-type sparse "),
            "job.args: --softmax-type: sparse: expected vanilla, off-by-one or learnable");
}

// --quick-geglu is a gated unit: three matrices of each MLP, as --swiglu has them.
TEST(MegatronFamilies, QuickGegluIsGated) {
  const std::string sizes =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --ffn-hidden-size 64 --seq-length "
      "32 "
      "--vocab-size 128 --micro-batch-size 1 --disable-bias-linear ";
  const auto parameters = [&](const char* unit) {
    return parameter_count(read_megatron_job(sizes + unit, "job.args", {}).model);
  };
  EXPECT_EQ(parameters("--quick-geglu"), parameters("--swiglu"));
  EXPECT_EQ(parameters("--quick-geglu") - parameters(""), 2 * 64 * 64);
  const Job job = read_megatron_job(sizes + "--quick-geglu", "job.args", {});
  EXPECT_EQ(job.remarks.front().name, "quick-geglu");
}

}  // namespace
}  // namespace weir::megatron_families_test
