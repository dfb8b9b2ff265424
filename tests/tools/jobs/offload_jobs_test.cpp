// Activations with the host in Megatron's words: which share of what blocks keep a module has, and
// what Megatron takes beside it.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/job/offload_modules.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::offload_jobs_test {
namespace {

using testing::HasSubstr;

// One dense block and seven with 4 experts of which a token visits 2. Of 64 numbers, 4 heads, an
// MLP of 256 and experts of 128, both without a gate, a token leaves of attention
// 64 + 64 + 192 + 64 numbers and of the MLP's input 64, 896 bytes; 8 and 4 x 4 bytes of statistics
// and 128 of dropout's: 1048. In the dense block's MLP 2 (64 + 256 + 256): 2200 in all; at experts
// 2 (64 behind the norm, 2 x 64 visits, 3 times 2 x 128) and 18 x 4 of the router's: 3040. All
// blocks: 23480.
const std::string kMixed =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --vocab-size 1000 --micro-batch-size 1 --global-batch-size 16 "
    "--ffn-hidden-size 256 --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 128 "
    "--moe-layer-freq \"([0]*1+[1]*7)\" --fine-grained-activation-offloading ";
constexpr const char* kMoe = " --recompute-granularity selective --recompute-modules moe";

Job mixed(const std::string& more) {
  return read_megatron_job(kMixed + more, "job.args", {.dp = 1});
}
double share(const std::string& more) { return mixed(more).plan.offload_activations; }
std::string refusal(const std::string& more) {
  return complaint([&] { static_cast<void>(mixed(more)); });
}

TEST(OffloadedModules, AreCountedInAllBlocks) {
  EXPECT_DOUBLE_EQ(share("--offload-modules expert_fc1 moe_act"), 7 * 768.0 / 23480);
  EXPECT_DOUBLE_EQ(share("--offload-modules core_attn expert_fc1"),
                   (8 * 384.0 + 7 * 256.0) / 23480);
  // Shared experts of 32 keep 3 x 32 numbers more, and offload none.
  EXPECT_DOUBLE_EQ(share("--moe-shared-expert-intermediate-size 32 --offload-modules moe_act"),
                   7 * 512.0 / (23480 + 7 * 192));
}

// In 8 bits what products read has a byte, and the core's result one more for its product: of the
// dense block's attention 64 less and 64 more, of its MLP 64 + 256 less, of the other blocks'
// visits 2 x 64 and of their activation 2 x 128.
TEST(OffloadedModules, MayBeIn8Bits) {
  const double dense = 2200 - 64 + 64 - 64 - 256, routed = 3040 - 64 + 64 - 128 - 256;
  const std::string eight = " --bf16 --fp8-format hybrid --fp8-recipe tensorwise";
  EXPECT_DOUBLE_EQ(share("--offload-modules expert_fc1 moe_act" + eight),
                   7 * (128 + 512.0) / (dense + 7 * routed));
  EXPECT_DOUBLE_EQ(share("--offload-modules qkv_linear" + eight), 8 * 64.0 / (dense + 7 * routed));
}

TEST(OffloadedModules, AreASet) {
  EXPECT_DOUBLE_EQ(share("--offload-modules moe_act moe_act moe_act moe_act moe_act moe_act "
                         "moe_act"),
                   7 * 512.0 / 23480);
  EXPECT_EQ(refusal("--offload-modules attn_proj"),
            "job.args: --offload-modules: attn_proj: needs core_attn beside it");
  EXPECT_THAT(refusal("--offload-modules gdp_qkv"), HasSubstr("gdp_qkv: expected attn_norm"));
}

// A threshold above Megatron's own keeps smaller tensors on the device, which a share does not say.
TEST(OffloadedModules, SmallerTensorsThatStayAreTold) {
  const auto told = [](const std::string& least) {
    const Job job = mixed("--offload-modules moe_act --min-offloaded-tensor-size " + least);
    for (const Remark& remark : job.remarks)
      if (remark.name == "min-offloaded-tensor-size") return remark.text;
    return std::string();
  };
  EXPECT_EQ(told("1048576"), "");
  EXPECT_THAT(told("350000000"), HasSubstr("350000000: not modelled"));
}

// Whole layers go in no pipeline and beside no re-materialisation.
TEST(OffloadedLayers, GoAlone) {
  const auto layers = [](const std::string& more) {
    return complaint([&] {
      static_cast<void>(read_megatron_job(
          "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
          "--max-position-embeddings 32 --vocab-size 1000 --micro-batch-size 1 "
          "--global-batch-size 16 --cpu-offloading --cpu-offloading-num-layers 4 " +
              more,
          "job.args", {.dp = 1}));
    });
  };
  EXPECT_EQ(layers(""), "no complaint");
  EXPECT_THAT(layers("--pipeline-model-parallel-size 2"), HasSubstr("expected no pipeline"));
  EXPECT_THAT(layers("--recompute-granularity full --recompute-method uniform"),
              HasSubstr("expected no re-materialisation"));
}

// What is made again is not kept: of the dense block 2200 are left, of the others 1048 each.
TEST(OffloadedModules, AreOfWhatIsKept) {
  EXPECT_DOUBLE_EQ(share(std::string("--offload-modules core_attn") + kMoe),
                   8 * 384.0 / (2200 + 7 * 1048));
  EXPECT_EQ(refusal(std::string("--offload-modules core_attn moe_act") + kMoe),
            "job.args: --offload-modules: moe_act: excluded by moe of --recompute-modules");
  EXPECT_THAT(
      refusal("--offload-modules core_attn --recompute-granularity full "
              "--recompute-method uniform --recompute-num-layers 1"),
      HasSubstr("--fine-grained-activation-offloading: blocks that are rebuilt as a whole"));
}

TEST(OffloadedModules, AreNamedWhereABlockHasThem) {
  const Model model = mixed("--offload-modules core_attn").model;
  Recompute recompute;
  EXPECT_EQ(offload_modules(model, recompute),
            "attn_norm qkv_linear core_attn attn_proj mlp_norm expert_fc1 moe_act");
  recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::moe};
  EXPECT_EQ(offload_modules(model, recompute), "attn_norm qkv_linear core_attn attn_proj mlp_norm");
  EXPECT_DOUBLE_EQ(offloadable_share(model, recompute), 8 * 896.0 / (2200 + 7 * 1048));
  EXPECT_FALSE(is_offload_module(""));
}

}  // namespace
}  // namespace weir::offload_jobs_test
