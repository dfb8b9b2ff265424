// Keys of a NeMo 1 file that name an optimizer, scales of 8 bits, what is rebuilt, what is launched
// as graphs, groups of experts and what goes to the host.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tools/jobs/job/config_jobs.hpp"

namespace weir::nemo_words_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Four blocks on eight devices, two samples a replica at least.
Job read(const std::string& model, const std::string& optimizer = "name: fused_adam, lr: 1e-3") {
  return read_nemo_job(
      fmt::format("trainer: {{devices: 8, precision: bf16}}\nmodel:\n  micro_batch_size: 1\n"
                  "  global_batch_size: 16\n  encoder_seq_length: 32\n  num_layers: 4\n"
                  "  hidden_size: 64\n  num_attention_heads: 4\n  transformer_engine: True\n"
                  "{}  optim: {{{}}}\n",
                  model, optimizer),
      "nemo.yaml", {.vocabulary = 128});
}
std::string refusal(const std::string& model, const std::string& optimizer = "name: adam") {
  return complaint([&] { static_cast<void>(read(model, optimizer)); });
}

// Adam by any of its names is Adam, shared among the replicas by two of them.
TEST(NemoOptimizers, AdamHasSixNames) {
  for (const char* name : {"adam", "adamw", "fused_adam", "megatron_fused_adam"})
    EXPECT_EQ(read("", fmt::format("name: {}", name)).plan.zero, 0) << name;
  for (const char* name : {"distributed_fused_adam", "mcore_distributed_optim"}) {
    const Plan plan = read("", fmt::format("name: {}, betas: [0.9, 0.95]", name)).plan;
    EXPECT_EQ(plan.zero, 1) << name;
    EXPECT_EQ(plan.optimizer.kind, OptimizerKind::adamw);
    EXPECT_EQ(plan.optimizer.beta2, 0.95);
  }
}

// PyTorch's sgd has a momentum where one is said, Megatron's of 0.9 where none is.
TEST(NemoOptimizers, SgdIsThePlansOwn) {
  const Optimizer plain = read("", "name: sgd, lr: 0.1").plan.optimizer;
  EXPECT_EQ(plain.kind, OptimizerKind::sgd);
  EXPECT_EQ(plain.momentum, 0);
  EXPECT_EQ(plain.learning_rate, 0.1);
  EXPECT_FALSE(plain.nesterov);
  const Optimizer moved = read("", "name: sgd, momentum: 0.8, nesterov: True").plan.optimizer;
  EXPECT_EQ(moved.momentum, 0.8);
  EXPECT_TRUE(moved.nesterov);
}

// NeMo 1 has no muon; what it has beside Adam and sgd no plan has.
TEST(NemoOptimizers, OthersAreRefused) {
  for (const char* name : {"muon", "lion", "adafactor", "lamb", "novograd"}) {
    EXPECT_EQ(refusal("", fmt::format("name: {}", name)),
              fmt::format("nemo.yaml: model.optim.name: {}: expected adam, adamw, fused_adam, "
                          "megatron_fused_adam, distributed_fused_adam, mcore_distributed_optim or "
                          "sgd",
                          name));
  }
  EXPECT_THAT(refusal("", "_target_: lion.Lion"),
              HasSubstr("nemo.yaml: model.optim._target_: lion.Lion: expected model.optim.name in "
                        "its place: adam, "));
}

TEST(NemoWords, ScalesOfEightBits) {
  EXPECT_EQ(read("  fp8: True\n").plan.fp8, Fp8Recipe::delayed);
  EXPECT_EQ(read("  fp8: True\n  fp8_recipe: mxfp8\n").plan.fp8, Fp8Recipe::mxfp8);
  EXPECT_EQ(read("  fp8: False\n  fp8_recipe: mxfp8\n").plan.fp8, Fp8Recipe::none);
  EXPECT_THAT(names(read("  fp8: True\n  fp8_recipe: custom\n")), HasSubstr("model.fp8_recipe "));
}

// Of selective alone, as Megatron-Core has it.
TEST(NemoWords, WhatIsRebuilt) {
  const std::string modules = "  recompute_modules: [core_attn, mlp]\n";
  const auto rebuilt = [](const std::string& model) {
    return recompute_word(read(model).plan.recompute);
  };
  EXPECT_EQ(rebuilt("  activations_checkpoint_granularity: selective\n" + modules),
            "selective:core_attn+mlp");
  EXPECT_EQ(rebuilt(modules), "none");
}

TEST(NemoWords, Graphs) {
  EXPECT_EQ(read("  enable_cuda_graph: True\n").plan.cuda_graphs, CudaGraphs::of_blocks());
  EXPECT_EQ(
      read("  enable_cuda_graph: True\n  cuda_graph_scope: full_iteration\n").plan.cuda_graphs,
      CudaGraphs::of_step());
  EXPECT_EQ(read("  cuda_graph_impl: transformer_engine\n").plan.cuda_graphs,
            CudaGraphs::of_blocks());
  EXPECT_EQ(read("  enable_cuda_graph: False\n  cuda_graph_scope: full\n").plan.cuda_graphs,
            CudaGraphs{});
  EXPECT_THAT(refusal("  cuda_graph_impl: none_such\n"),
              HasSubstr("nemo.yaml: model.cuda_graph_impl: expected none, local"));
}

// Two experts a token out of two of four groups of two.
TEST(NemoWords, GroupsOfExperts) {
  const std::string experts =
      "  num_moe_experts: 8\n  moe_router_topk: 2\n  moe_ffn_hidden_size: 96\n"
      "  moe_router_group_topk: 2\n  bias: False\n";
  const Job job = read(experts + "  moe_router_num_groups: 4\n");
  const auto& block = std::get<TransformerShape>(job.model.layers[1].shape);
  EXPECT_EQ(block.expert_groups, 4);
  EXPECT_EQ(block.groups_per_token, 2);
  EXPECT_EQ(block.ffn, 96);
  EXPECT_THAT(refusal(experts + "  moe_router_num_groups: 3\n"),
              HasSubstr("nemo.yaml: model.moe_router_num_groups: "));
}

// 3 of 4 blocks, as NeMo's own file says it; which has the other keys also where nothing is
// offloaded.
TEST(NemoWords, ActivationsWithTheHost) {
  const std::string keys =
      "  cpu_offloading_num_layers: ${sum:${.num_layers},-1}\n  cpu_offloading_activations: True\n"
      "  cpu_offloading_weights: True\n";
  const Job off = read("  cpu_offloading: False\n" + keys);
  EXPECT_EQ(off.plan.offload_activations, 0);
  EXPECT_THAT(names(off), Not(HasSubstr("offloading")));
  const Job on = read("  cpu_offloading: True\n" + keys);
  EXPECT_EQ(on.plan.offload_activations, 0.75);
  EXPECT_THAT(names(on), HasSubstr("model.cpu_offloading_num_layers "));
  EXPECT_THAT(names(on), HasSubstr("model.cpu_offloading_weights "));
  EXPECT_THAT(refusal("  cpu_offloading: True\n  cpu_offloading_num_layers: 4\n"),
              HasSubstr("nemo.yaml: model.cpu_offloading_num_layers: expected fewer than 4"));
}

}  // namespace
}  // namespace weir::nemo_words_test
