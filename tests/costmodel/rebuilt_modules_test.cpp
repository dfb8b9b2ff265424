// What modules cost that are made again, by hand.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/rebuilt_modules.hpp"

#include <gtest/gtest.h>

#include "costmodel/layers/layer_math.hpp"

namespace weir::rebuilt_modules_test {
namespace {

ModuleSet both(BlockModule a, BlockModule b) {
  ModuleSet modules = a;
  modules |= b;
  return modules;
}

// h = 8, f = 16, no gate, 32 tokens: a dense MLP's two products are 2 x 2 x 8 x 16 x 32 = 16384
// FLOPs; of four experts a token visits two, twice as many. What is of the other kind of block, or
// no product, has no share.
TEST(RebuiltModules, AnMlpsShareIsOfItsProducts) {
  TransformerShape shape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 16};
  const auto flops = [&](ModuleSet modules) {
    const Layer layer{"block", shape, ""};
    return rebuilt_share(layer, 32, modules) * executed_flops(layer, 32).count();
  };
  EXPECT_DOUBLE_EQ(flops(BlockModule::mlp), 16384);
  EXPECT_EQ(flops(both(BlockModule::moe, BlockModule::layernorm)), 0);
  EXPECT_EQ(flops(BlockModule::mla_up_proj), 0);
  shape.experts = 4;
  shape.experts_per_token = 2;
  EXPECT_DOUBLE_EQ(flops(BlockModule::moe), 2 * 16384);
  EXPECT_EQ(flops(both(BlockModule::mlp, BlockModule::moe_act)), 0);
  // Beside them every token visits shared ones of 24: 2 x 2 x 8 x 24 x 32.
  shape.shared_ffn = 24;
  EXPECT_DOUBLE_EQ(flops(BlockModule::shared_experts), 24576);
  EXPECT_DOUBLE_EQ(flops(BlockModule::moe), 2 * 16384 + 24576);
  EXPECT_DOUBLE_EQ(flops(both(BlockModule::moe, BlockModule::shared_experts)), 2 * 16384 + 24576);
}

// Queries out of 3 numbers, 2 heads of 4; keys and values out of 5, of which a head's key has 4
// less 1 turned number and its value 2: 2 x 32 x 2 x (3 x 4 + 5 x (3 + 2)) FLOPs.
TEST(RebuiltModules, LatentsAreProjectedUpAgain) {
  TransformerShape shape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 16};
  shape.latent = {.query = 3, .key_value = 5, .rotary = 1, .value = 2};
  const Layer layer{"block", shape, ""};
  const double share = rebuilt_share(layer, 32, BlockModule::mla_up_proj);
  EXPECT_DOUBLE_EQ(share * executed_flops(layer, 32).count(), 2.0 * 32 * 2 * (12 + 25));
}

// 32 tokens and a micro-batch of 2: the norm before experts reads and writes 8 numbers a token, 2 x
// 8 x 64; their activation reads and writes 16 numbers of each of two visits, 2 x 2 x 16 x 64.
TEST(RebuiltModules, NormsAndActivationsMoveNumbers) {
  TransformerShape shape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 16};
  shape.experts = 4;
  shape.experts_per_token = 2;
  Plan plan;
  plan.seq_length = 32;
  plan.micro_batch_size = 2;
  plan.recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::layernorm};
  EXPECT_EQ(rebuilt_numbers({"block", shape, ""}, plan), 2 * 8 * 64);
  plan.recompute.modules |= BlockModule::moe_act;
  EXPECT_EQ(rebuilt_numbers({"block", shape, ""}, plan), 2 * 8 * 64 + 2 * 2 * 16 * 64);
  // What shared experts keep is no module's of the others.
  shape.shared_ffn = 24;
  EXPECT_EQ(rebuilt_numbers({"block", shape, ""}, plan), 2 * 8 * 64 + 2 * 2 * 16 * 64);
}

}  // namespace
}  // namespace weir::rebuilt_modules_test
