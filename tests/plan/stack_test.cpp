// Stacks: where their rules begin stages, and what a file of one must say.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/stack.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "plan/job/stack_part.hpp"
#include "plan/model/decoder.hpp"
#include "plan/model/tensor_list.hpp"
#include "plan/words/error.hpp"

namespace weir::stack_test {
namespace {

Model llama(int blocks, std::int64_t hidden, std::int64_t ffn, std::int64_t vocabulary) {
  Decoder d;
  d.embedding = {.vocabulary = vocabulary, .hidden = hidden};
  d.block = {.hidden = hidden, .heads = 32, .kv_heads = 32, .head_dim = hidden / 32, .ffn = ffn};
  d.block.gated = true;
  d.blocks = blocks;
  d.norm = {.hidden = hidden};
  d.head = {.vocabulary = vocabulary, .hidden = hidden};
  return decoder_model(d, 4096);
}

// nanotron's rule, traced by hand: a layer costs 4 h^2 + 3 f h, the head v h, here 4.0 layers, so
// that the 16 layers and the head make 20. Two stages: the sum reaches 10 with the 10th layer.
// Eight: 2.5 is reached by layer 3, 5 by 5, 7.5 by 8, 10 by 10, 12.5 by 13, 15 by 15, 17.5 by the
// head; the last stage is left with nothing.
TEST(StageBoundaries, BySumsOfCost) {
  const Model model = llama(16, 2048, 8192, 131072);
  const Stack stack{.name = "n", .placement = StagePlacement::cost, .empty_stages = true};
  EXPECT_EQ(stage_boundaries(stack, model, 2), (std::vector<int>{11}));
  EXPECT_EQ(stage_boundaries(stack, model, 4), (std::vector<int>{6, 11, 16}));
  EXPECT_EQ(stage_boundaries(stack, model, 8), (std::vector<int>{4, 6, 9, 11, 14, 16, 19}));
  // Sixteen: 1.25 layers each; the head's stage is the 13th, and three are empty.
  EXPECT_EQ(stage_boundaries(stack, model, 16),
            (std::vector<int>{3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 19, 19, 19}));
}

// DeepSpeed with the embedding and the head as items: 70 + 2 in 12 stages of 6, so the first has 5
// blocks.
TEST(StageBoundaries, EmbeddingAndHeadCountAsBlocks) {
  const Model model = llama(70, 2048, 8192, 51200);
  const Stack stack{.name = "d", .placement = StagePlacement::embedding_head};
  const auto boundaries = stage_boundaries(stack, model, 12);
  ASSERT_TRUE(boundaries);
  EXPECT_EQ(boundaries->front(), 6);
  EXPECT_EQ(boundaries->back(), 66);
}

TEST(StageBoundaries, RemainderToTheFirstOrBehindIt) {
  const Model model = llama(6, 2048, 8192, 51200);
  EXPECT_EQ(stage_boundaries({.placement = StagePlacement::layers}, model, 4),
            (std::vector<int>{3, 5, 6}));
  EXPECT_EQ(stage_boundaries({.placement = StagePlacement::middle}, model, 4),
            (std::vector<int>{2, 4, 6}));
}

// 31 layers on 32 stages: a real run had it.
TEST(StageBoundaries, MoreStagesThanBlocks) {
  const Model model = llama(2, 2048, 8192, 51200);
  EXPECT_FALSE(stage_boundaries({.placement = StagePlacement::layers}, model, 4));
  EXPECT_TRUE(
      stage_boundaries({.placement = StagePlacement::layers, .empty_stages = true}, model, 4));
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_stack(text, "s.json"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(StackFile, EveryConstantHasAnOrigin) {
  const std::string without = R"({"schema": "weir.stack/1", "name": "x", "placement": "layers",
      "time": {"accumulate": 10}})";
  EXPECT_NE(refusal(without).find("placement"), std::string::npos) << refusal(without);
  const std::string with = R"({"schema": "weir.stack/1", "name": "x", "placement": "layers",
      "time": {"accumulate": 10},
      "origins": {"placement": {"source": "read"}, "time": {"source": "rows", "rows": 12}}})";
  EXPECT_EQ(refusal(with), "");
  EXPECT_EQ(parse_stack(with, "s.json").time.accumulate, 10);
}

// Of a logit, the backward moves what the forward does unless it is said apart.
TEST(StackFile, StepsOfNormsAndLosses) {
  const auto with = [](const std::string& time) {
    return parse_stack(R"({"schema": "weir.stack/1", "name": "x", "placement": "layers",
      "time": {)" + time + R"(}, "origins": {"placement": {"source": "read"},
      "time": {"source": "counted"}}})",
                       "s.json")
        .time;
  };
  EXPECT_EQ(with(R"("logits": 20)").logits_backward, 20);
  EXPECT_EQ(with(R"("logits": 32, "logits_backward": 14)").logits_backward, 14);
  EXPECT_EQ(with(R"("embedding": 12)").embedding, 12);
  const StackTime eager = with(
      R"("norm": {"forward": 36, "backward": 92, "kernels_forward": 6, "kernels_backward": 14},
         "block_host_forward": "1.6 ms", "block_host_backward": "2.4 ms")");
  EXPECT_EQ(eager.norm.forward, 36);
  EXPECT_EQ(eager.norm.kernels_backward, 14);
  EXPECT_EQ(eager.softmax.forward, 0);
  EXPECT_DOUBLE_EQ(eager.block_host_forward.count(), 1.6e-3);
  EXPECT_DOUBLE_EQ(eager.block_host_backward.count(), 2.4e-3);
}

// Which blocks a tensor is of, which modules make it again, and what libraries take.
TEST(StackFile, AKeptTensorSaysWhoseItIs) {
  const auto file = [](const std::string& rule) {
    return R"({"schema": "weir.stack/1", "name": "x", "placement": "layers", "memory": {"block": [
        {"tensor": "t", "width": "experts", "bytes": 2)" +
           rule + R"(}], "libraries": "96 MiB", "expert_libraries": "1 GiB"},
        "origins": {"placement": {"source": "read"}, "memory": {"source": "read"}}})";
  };
  const StackMemory memory =
      parse_stack(file(R"(, "blocks": "plain_experts", "rebuilt_by": ["moe", "moe_act"])"),
                  "s.json")
          .memory;
  const KeptRule& rule = memory.block.at(0);
  EXPECT_EQ(rule.width, Width::experts);
  EXPECT_EQ(rule.blocks, Blocks::plain_experts);
  EXPECT_TRUE(rule.rebuilt_by.meets(BlockModule::moe_act));
  EXPECT_FALSE(rule.rebuilt_by.meets(BlockModule::core_attn));
  EXPECT_EQ(memory.libraries.count(), std::int64_t{96} << 20);
  EXPECT_EQ(memory.expert_libraries.count(), std::int64_t{1} << 30);
  EXPECT_NE(refusal(file(R"(, "rebuilt_by": ["moes"])")).find("moes: expected modules"),
            std::string::npos);
  EXPECT_NE(refusal(file(R"(, "blocks": "some")")).find("blocks: expected one of all, dense"),
            std::string::npos);
}

// Which blocks do it, and whether each expert has launches of its own.
TEST(StackFile, AStreamSaysWhoDoesIt) {
  const std::string text = R"({"schema": "weir.stack/1", "name": "x", "placement": "layers",
      "time": {"block": [{"what": "biases", "width": "visits", "forward": 28,
                          "blocks": "biased_experts", "each_expert": true}]},
      "origins": {"placement": {"source": "read"}, "time": {"source": "read"}}})";
  const ExtraStream stream = parse_stack(text, "s.json").time.block.at(0);
  EXPECT_EQ(stream.blocks, Blocks::biased_experts);
  EXPECT_TRUE(stream.each_expert);
  TransformerShape block{.hidden = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 32};
  EXPECT_FALSE(is_of(Blocks::biased_experts, block));
  block.experts = 8;
  EXPECT_TRUE(is_of(Blocks::biased_experts, block));
  block.mlp_bias = false;
  EXPECT_FALSE(is_of(Blocks::biased_experts, block));
}

// Of blocks with dropout of attention's probabilities alone, whatever else drops out.
TEST(StackFile, ATensorMayBeOfBlocksThatDropScores) {
  const std::string text = R"({"schema": "weir.stack/1", "name": "x", "placement": "layers",
      "memory": {"block": [{"tensor": "dropped scores", "width": "scores", "bytes": 2,
                            "blocks": "drops_scores"}]},
      "origins": {"placement": {"source": "read"}, "memory": {"source": "read"}}})";
  EXPECT_EQ(parse_stack(text, "s.json").memory.block.at(0).blocks, Blocks::drops_scores);
  TransformerShape block{.hidden = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 32};
  block.attention_dropout = block.residual_dropout = 0;
  EXPECT_FALSE(is_of(Blocks::drops_scores, block));
  block.residual_dropout = 0.1;
  EXPECT_FALSE(is_of(Blocks::drops_scores, block));
  block.attention_dropout = 0.1;
  EXPECT_TRUE(is_of(Blocks::drops_scores, block));
}

// What gates and rotations cost is of the blocks that have them.
TEST(StackFile, AStepMayBeOfBlocksThatHaveIt) {
  TransformerShape block{.hidden = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 32};
  EXPECT_FALSE(is_of(Blocks::gated, block));
  EXPECT_FALSE(is_of(Blocks::rotary, block));
  block.gated = block.rotary = true;
  EXPECT_TRUE(is_of(Blocks::gated, block));
  EXPECT_TRUE(is_of(Blocks::rotary, block));
}

// Each tensor with its padding, and to the next multiple of 64 bytes: in 16 bits 3 x 5 numbers are
// 30 bytes and take 64; 7 x 8 and a padding of 8 are 128 bytes as they are; 4 x 8 and 8 more are
// 80, which take 128, where 64 would do without them.
TEST(WholeBytes, HavePaddingAndAlignmentOfEachTensor) {
  LayerTensors tensors;
  const auto add = [&](std::vector<std::int64_t> shape, std::int64_t padding) {
    tensors.parameters.push_back({.name = "t", .shape = std::move(shape), .padding = padding});
  };
  add({3, 5}, 0);
  EXPECT_EQ(whole_bytes(tensors, 2), 64);
  EXPECT_EQ(whole_bytes(tensors, 4), 64);
  add({7, 8}, 8);
  EXPECT_EQ(whole_bytes(tensors, 2), 64 + 128);
  EXPECT_EQ(whole_bytes(tensors, 4), 64 + 256);
  add({4, 8}, 8);
  EXPECT_EQ(whole_bytes(tensors, 2), 64 + 128 + 128);
  EXPECT_EQ(whole_bytes(tensors, 4), 64 + 256 + 192);
}

TEST(StackFile, NoConstantForOneRow) {
  const std::string text = R"({"schema": "weir.stack/1", "name": "x", "placement": "layers",
      "origins": {"placement": {"source": "rows", "rows": 2}}})";
  EXPECT_NE(refusal(text).find("rows"), std::string::npos) << refusal(text);
}

TEST(StackFile, UnknownKeysAndWordsAreNamed) {
  const std::string text = R"({"schema": "weir.stack/1", "name": "x", "placement": "layers",
      "tiem": {}, "origins": {"placement": {"source": "read"}}})";
  EXPECT_NE(refusal(text).find("tiem"), std::string::npos) << refusal(text);
  const std::string word = R"({"schema": "weir.stack/1", "name": "x", "placement": "left",
      "origins": {"placement": {"source": "read"}}})";
  EXPECT_NE(refusal(word).find("embedding_head"), std::string::npos) << refusal(word);
}

}  // namespace
}  // namespace weir::stack_test
