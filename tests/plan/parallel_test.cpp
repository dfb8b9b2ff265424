// Parallel degrees in a plan: its file, what cannot be divided, and what one device then holds of a
// layer.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/plan.hpp"
#include "plan/model/layer_tensors.hpp"
#include "plan/words/error.hpp"

namespace weir::parallel_test {
namespace {

using testing::HasSubstr;

// The keys stand between dp and boundaries, and only where they say something: a file of before
// keeps its bytes.
TEST(Parallel, PlanFilesKeepTheirBytes) {
  Plan plan;
  const std::string before = to_json(plan);
  EXPECT_EQ(before.find("zero"), std::string::npos);
  EXPECT_EQ(to_json(parse_plan(before, "p")), before);
  plan.tp = 4;
  plan.dp = 2;
  plan.sequence_parallel = plan.overlap_grad_reduce = true;
  plan.zero = 1;
  plan.recompute.mode = RecomputeMode::selective;
  const std::string text = to_json(plan);
  EXPECT_THAT(text, HasSubstr("  \"dp\": 2,\n  \"sequence_parallel\": true,\n  \"zero\": 1,\n"
                              "  \"overlap_grad_reduce\": true,\n  \"boundaries\": []"));
  EXPECT_EQ(parse_plan(text, "p"), plan);
  EXPECT_EQ(to_json(parse_plan(text, "p")), text);
}

// What travels beside products or passes is said where it does; pieces of what sequence parallelism
// sends need sequence parallelism.
TEST(Parallel, PlanFilesSayWhatTravelsBesideTheWork) {
  Plan plan;
  plan.tp = plan.dp = 2;
  plan.zero = 1;
  plan.sequence_parallel = plan.overlap_tensor_parallel = true;
  plan.overlap_grad_reduce = plan.overlap_param_gather = true;
  const std::string text = to_json(plan);
  EXPECT_THAT(text,
              HasSubstr("  \"sequence_parallel\": true,\n  \"overlap_tensor_parallel\": true,\n"
                        "  \"zero\": 1,\n  \"overlap_grad_reduce\": true,\n"
                        "  \"overlap_param_gather\": true,\n"));
  EXPECT_EQ(parse_plan(text, "p"), plan);
  plan.sequence_parallel = false;
  try {
    static_cast<void>(parse_plan(to_json(plan), "p.json"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("overlap_tensor_parallel: expected beside "
                                        "sequence_parallel only"));
  }
}

// Between dp and what replicas share; even routing is not said.
TEST(Parallel, PlanFilesSayHowExpertsAreShared) {
  Plan plan;
  plan.dp = 8;
  plan.ep = 4;
  plan.zero = 1;
  const std::string even = to_json(plan);
  EXPECT_THAT(even, HasSubstr("  \"dp\": 8,\n  \"ep\": 4,\n  \"zero\": 1,\n"));
  EXPECT_EQ(parse_plan(even, "p"), plan);
  plan.etp = 1;
  plan.expert_load = 1.25;
  const std::string text = to_json(plan);
  EXPECT_THAT(text, HasSubstr("  \"ep\": 4,\n  \"etp\": 1,\n  \"expert_load\": 1.25,\n"));
  EXPECT_EQ(parse_plan(text, "p"), plan);
  EXPECT_EQ(to_json(parse_plan(text, "p")), text);
}

TEST(Parallel, ADefaultSaidAloudIsRefused) {
  const auto complaint = [](const std::string& from, const std::string& to) {
    Plan plan;
    plan.zero = 2;
    std::string text = to_json(plan);
    text.replace(text.find(from), from.size(), to);
    try {
      static_cast<void>(parse_plan(text, "p.json"));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(complaint("\"zero\": 2", "\"zero\": 0"),
            "p.json: zero: expected an integer from 1 to 3");
  EXPECT_EQ(complaint("\"zero\": 2", "\"ep\": 1"),
            "p.json: ep: expected an integer from 2 to 65536");
  EXPECT_EQ(complaint("\"zero\": 2", "\"expert_load\": 1"),
            "p.json: expert_load: expected more than 1 (left out where experts are even)");
  EXPECT_EQ(complaint("\"zero\": 2", "\"sequence_parallel\": false"),
            "p.json: sequence_parallel: expected true (left out where it is false)");
  EXPECT_EQ(complaint("\"none\"", "\"some\""),
            "p.json: recompute: expected none, selective, full, stage, full:N, ascending layers as "
            "0-11,40, or modules as selective:layernorm+moe_act");
}

Model small() {
  Model model;
  model.layers = {
      {"e", EmbeddingShape{.vocabulary = 10, .hidden = 8}, ""},
      {"b", TransformerShape{.hidden = 8, .heads = 4, .kv_heads = 2, .head_dim = 2, .ffn = 12}, ""},
      {"h", HeadShape{.vocabulary = 10, .hidden = 8}, ""},
  };
  return model;
}

std::string misfit(const Split& split, std::int64_t tokens = 6) {
  const auto found = cannot_split(small(), tokens, split);
  return found ? found->key + ": " + found->reason : "";
}

TEST(Parallel, WhatCannotBeDividedIsNamed) {
  EXPECT_EQ(misfit({}), "");
  EXPECT_EQ(misfit({2, 3, false}), "");
  EXPECT_EQ(misfit({3, 1, false}), "tp: 3 does not divide the 4 heads of b");
  EXPECT_EQ(misfit({4, 1, false}), "tp: 4 does not divide the 2 key-value heads of b");
  EXPECT_EQ(misfit({1, 4, false}), "cp: 4 does not divide the 6 tokens of a sample");
  EXPECT_EQ(misfit({2, 2, true}),
            "sequence_parallel: tp = 2 does not divide the 3 tokens of a device");
  EXPECT_EQ(misfit({1, 1, true}),
            "sequence_parallel: expected tp above 1: it divides tokens among the tensor-parallel "
            "devices");
  Model timed;
  timed.layers = {{"t", TimedShape{}, "conv"}};
  EXPECT_EQ(cannot_split(timed, 0, {2, 1, false})->reason,
            "t is known by its times or sizes alone and cannot be split");
}

std::int64_t elements(const LayerTensors& tensors) {
  std::int64_t sum = 0;
  for (const ParameterTensor& parameter : tensors.parameters) sum += parameter.elements();
  return sum;
}
std::int64_t saved(const LayerTensors& tensors) {
  std::int64_t sum = 0;
  for (const KeptTensor& tensor : tensors.saved) sum += tensor.bytes_per_sample;
  return sum;
}

// tp = 2: qkv 4 + 2 x 2 columns of 8 (16 -> 8 rows of 8 and as many biases), output 8 x 4 + 8, up 6
// x 8 + 6, down 8 x 6 + 8, two norms of 16; the vocabulary's 10 rows become 5.
TEST(Parallel, ParametersOfOneDevice) {
  const Model model = small();
  const auto of = [&](std::size_t layer, int tp) {
    return elements(layer_tensors(model.layers[layer], 6, Dtype::bf16, {tp, 1, false}));
  };
  EXPECT_EQ(of(1, 2), 8 * 8 + 8 + 8 * 4 + 8 + 6 * 8 + 6 + 8 * 6 + 8 + 32);
  EXPECT_EQ(of(0, 2), 5 * 8);
  EXPECT_EQ(of(2, 2), 5 * 8);
  EXPECT_EQ(of(2, 4), 3 * 8);  // padded to 12
}

// Statistics of fused attention, 4 heads x 6 rows x 4 bytes = 96 for the probabilities' 288: split
// by heads and tokens.
TEST(Parallel, StatisticsOfOneDevice) {
  Layer block = small().layers[1];
  std::get<TransformerShape>(block.shape).attention = AttentionKind::fused;
  const auto statistics = [&](const Split& split) {
    return layer_tensors(block, 6, Dtype::bf16, split).saved[3].bytes_per_sample;
  };
  EXPECT_EQ(statistics({}), 4 * 6 * 4);
  EXPECT_EQ(statistics({2, 1, false}), 2 * 6 * 4);
  EXPECT_EQ(statistics({1, 2, false}), 4 * 3 * 4);
}

// bf16, s = 6. Whole: a token row 6 8 2 = 96 (normed, mlp.input, mlp.normed), statistics 48 twice,
// qkv 6 16 2 = 192, probabilities 4 36 2 = 288, context 96, up and activated 144 each. tp = 2
// halves all but rows and statistics; sequence parallelism these too; cp = 2 halves everything, and
// its 3 tokens attend to all 6.
TEST(Parallel, ActivationsOfOneDevice) {
  const Layer block = small().layers[1];
  const auto of = [&](const Split& split) { return layer_tensors(block, 6, Dtype::bf16, split); };
  const std::int64_t rows = 3 * 96 + 2 * 48, widths = 192 + 288 + 96 + 2 * 144;
  EXPECT_EQ(saved(of({})), rows + widths);
  EXPECT_EQ(saved(of({2, 1, false})), rows + widths / 2);
  EXPECT_EQ(saved(of({2, 1, true})), rows / 2 + widths / 2);
  EXPECT_EQ(saved(of({1, 2, false})), rows / 2 + widths / 2);
  EXPECT_EQ(of({2, 1, false}).output_bytes_per_sample, 96);
  EXPECT_EQ(of({2, 1, true}).output_bytes_per_sample, 48);
}

}  // namespace
}  // namespace weir::parallel_test
