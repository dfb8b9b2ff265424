// Lists of arguments as Megatron prints them, pasted from logs and issues.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/dump.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/words/error.hpp"
#include "tests/tools/jobs/started_job.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::dump_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Lines of a list, each behind `before`.
std::string dump(const std::string& more, const std::string& before = "") {
  std::string text =
      "using world size: 16, data-parallel size: 2\n"
      "------------------------ arguments ------------------------\n";
  const std::string lines =
      "  bf16 ............................................ True\n"
      "  global_batch_size ............................... 64\n"
      "  hidden_size ..................................... 512\n"
      "  micro_batch_size ................................ 1\n"
      "  num_attention_heads ............................. 8\n"
      "  num_layers ...................................... 8\n"
      "  num_experts ..................................... None\n"
      "  padded_vocab_size ............................... 32000\n"
      "  vocab_size ...................................... 31999\n"
      "  seq_length ...................................... 1024\n"
      "  swiglu .......................................... False\n"
      "  world_size ...................................... 16\n" +
      more;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) text += before + line + "\n";
  return text + "-------------------- end of arguments ---------------------\n";
}

// Megatron prints the variables of all its programs: those of others are at their defaults, and say
// nothing of this job, unless a flag says that the other program runs.
TEST(MegatronDump, VariablesOfOtherProgramsSayNothing) {
  const std::string others =
      "  classes_fraction ................................ 1.0\n"
      "  grpo_prompts_per_step ........................... 32\n"
      "  img_h ........................................... 224\n"
      "  kv_lora_rank .................................... 32\n"
      "  gtp_weight_remat_size ........................... 1\n"
      "  moe_router_topk ................................. 2\n"
      "  inference_max_batch_size ........................ 8\n"
      "  mamba_state_dim ................................. 128\n"
      "  num_classes ..................................... 1000\n"
      "  retro_num_neighbors ............................. 2\n";
  const Job job = read_megatron_job(dump(others), "issue.txt", {});
  EXPECT_EQ(job.plan.dp, 16);
  for (const Remark& remark : job.remarks)
    EXPECT_EQ(remark.text.find("names a size"), std::string::npos);
  EXPECT_THROW(static_cast<void>(read_megatron_job(
                   dump(others + "  vision_pretraining .............................. True\n"),
                   "issue.txt", {})),
               InputError);
}

Plan plan_of(const std::string& text) { return read_megatron_job(text, "issue.txt", {}).plan; }

// 16 devices over tp 4 and pp 2 are two replicas, so 64 samples are 32 micro-batches each; the
// padded vocabulary is the model's.
TEST(MegatronDump, IsReadAsTheJobThatItPrints) {
  const Job job =
      read_megatron_job(dump("  tensor_model_parallel_size ...................... 4\n"
                             "  pipeline_model_parallel_size .................... 2\n"
                             "  sequence_parallel ............................... True\n"
                             "  use_distributed_optimizer ....................... True\n"
                             "  recompute_granularity ........................... full\n"
                             "  recompute_method ................................ uniform\n"
                             "  recompute_num_layers ............................ 1\n"),
                        "issue.txt", {});
  EXPECT_EQ(job.plan.dp, 2);
  EXPECT_EQ(job.plan.tp, 4);
  EXPECT_EQ(job.plan.microbatches, 32);
  EXPECT_EQ(job.plan.zero, 1);
  EXPECT_EQ(job.plan.recompute.mode, RecomputeMode::full);
  EXPECT_EQ(std::get<EmbeddingShape>(job.model.layers[0].shape).vocabulary, 32000);
}

// A rank, a time or a prefix of the launcher stands before the lines.
TEST(MegatronDump, WhatStandsBeforeItsLinesGoes) {
  for (const char* before : {"[default0]:", "0: ", "[2025-01-01 10:00:00] ", "node-1/0:"})
    EXPECT_EQ(plan_of(dump("", before)).dp, 16) << before;
}

// The variable of a flag that turns something off holds True where it is not given.
TEST(MegatronDump, FlagsThatDenyAreGivenWhereTheirVariableIsFalse) {
  const auto biases = [](const std::string& value) {
    const Job job = read_megatron_job(
        dump("  add_bias_linear ................................. " + value + "\n"), "issue.txt",
        {});
    return std::get<TransformerShape>(job.model.layers[1].shape).mlp_bias;
  };
  EXPECT_TRUE(biases("True"));
  EXPECT_FALSE(biases("False"));
}

// Of an overlap's kinds those that are off are named, where there is an overlap: the plan has all.
TEST(MegatronDump, KindsOfAnOverlapThatAreOffAreNamed) {
  const auto named = [](const std::string& overlap) {
    const Job job =
        read_megatron_job(dump("  tensor_model_parallel_size ...................... 2\n"
                               "  sequence_parallel ............................... True\n"
                               "  tp_comm_bulk_dgrad .............................. True\n"
                               "  tp_comm_overlap ................................. " +
                               overlap +
                               "\n"
                               "  tp_comm_overlap_rs .............................. False\n"),
                          "issue.txt", {});
    return std::ranges::count(job.remarks, "disable-tp-comm-overlap-rs", &Remark::name);
  };
  EXPECT_EQ(named("True"), 1);
  EXPECT_EQ(named("False"), 0);
}

// v of the variable that Megatron works out, whatever else it prints of it.
TEST(MegatronDump, ChunksAreTheVirtualSize) {
  const Plan plan =
      plan_of(dump("  pipeline_model_parallel_size .................... 2\n"
                   "  virtual_pipeline_model_parallel_size ............ 2\n"
                   "  num_layers_per_virtual_pipeline_stage ........... 2\n"));
  EXPECT_EQ(plan.vpp, 2);
}

TEST(MegatronDump, AttentionIsTheBackendsName) {
  EXPECT_EQ(plan_of(dump("  attention_backend ............................... "
                         "AttnBackend.unfused\n"))
                .attention,
            AttentionKind::unfused);
  EXPECT_EQ(plan_of(dump("  attention_backend ............................... "
                         "AttnBackend.auto\n"))
                .attention,
            AttentionKind::fused);
}

// A list of an enumeration's members is one of their names.
TEST(MegatronDump, MembersOfEnumerationsAreNames) {
  const auto graphs = [](const std::string& list) {
    return to_string(
        plan_of(dump("  cuda_graph_impl ................................. transformer_engine\n"
                     "  cuda_graph_modules .............................. " +
                     list + "\n"))
            .cuda_graphs);
  };
  EXPECT_EQ(graphs("[<CudaGraphModule.attn: 2>]"), "attn");
  EXPECT_EQ(graphs("[<CudaGraphModule.attn: 2>, <CudaGraphModule.mlp: 3>]"), "attn+mlp");
  EXPECT_EQ(graphs("['attn', 'mlp']"), "attn+mlp");
  EXPECT_EQ(graphs("[]"), "blocks");
}

// What Python quotes is one word, of blanks and quotes too.
TEST(MegatronDump, WordsOfListsStayWhole) {
  const Job job = read_megatron_job(
      dump("  odd_list ........................................ ['a b', 'c', \"it's\"]\n"
           "  odd_name ........................................ it's one\n"),
      "issue.txt", {});
  EXPECT_THAT(job.lines, AllOf(testing::Contains("--odd-list 'a b' c 'it'\\''s'"),
                               testing::Contains("--odd-name 'it'\\''s one'")));
}

std::string remarks_on(const std::string& more) {
  std::string all;
  for (const Remark& remark : read_megatron_job(dump(more), "issue.txt", {}).remarks)
    all += remark.name + " ";
  return all;
}

// What is on that no job has on by itself, and a degree that is no default, is this job's; beside
// it what is at its default says nothing.
TEST(MegatronDump, WhatIsNoDefaultIsKept) {
  EXPECT_EQ(remarks_on("  encoder_tensor_model_parallel_size .............. 0\n"
                       "  encoder_pipeline_model_parallel_size ............ 0\n"
                       "  bert_binary_head ................................ True\n"
                       "  retro_verify_neighbor_count ..................... True\n"
                       "  ict_head_size ................................... None\n"
                       "  bert_load ....................................... None\n"),
            remarks_on(""));
  EXPECT_THAT(remarks_on("  encoder_tensor_model_parallel_size .............. 2\n"
                         "  encoder_pipeline_model_parallel_size ............ 1\n"),
              AllOf(HasSubstr("encoder-tensor-model-parallel-size "),
                    HasSubstr("encoder-pipeline-model-parallel-size ")));
  EXPECT_THAT(remarks_on("  biencoder_shared_query_context_model ............ True\n"),
              HasSubstr("biencoder-shared-query-context-model "));
  EXPECT_THROW(static_cast<void>(
                   plan_of(dump("  retro_add_retriever ............................. True\n"))),
               InputError);
}

// The variable behind --fp8-format is called fp8.
TEST(MegatronDump, ProductsInEightBitsHaveTheVariablesName) {
  const Plan plan =
      plan_of(dump("  fp8 ............................................. hybrid\n"
                   "  fp8_recipe ...................................... blockwise\n"));
  EXPECT_EQ(plan.fp8, Fp8Recipe::blockwise);
  EXPECT_EQ(plan_of(dump("  fp8_recipe ...................................... delayed\n")).fp8,
            Fp8Recipe::none);
}

// MindSpeed's name for latent attention is heeded for its sizes, and for nothing else.
TEST(MegatronDump, MindSpeedsLatentSizesAreTheModels) {
  const std::string sizes =
      "  kv_lora_rank .................................... 32\n"
      "  qk_head_dim ..................................... 64\n"
      "  qk_pos_emb_head_dim ............................. 32\n"
      "  v_head_dim ...................................... 64\n"
      "  moe_router_topk ................................. 2\n";
  const auto block = [&](const std::string& more) {
    const Job job = read_megatron_job(dump(sizes + more), "issue.txt", {});
    return std::get<TransformerShape>(job.model.layers[1].shape);
  };
  EXPECT_EQ(block("").latent.key_value, 0);
  const TransformerShape latent = block(
      "  multi_head_latent_attention ..................... True\n"
      "  position_embedding_type ......................... rope\n");
  EXPECT_EQ(latent.latent.key_value, 32);
  EXPECT_EQ(latent.experts, 1);
}

TEST(MegatronDump, ScriptsAreNone) {
  EXPECT_EQ(megatron_dump_arguments("python pretrain_gpt.py" + kSizes), std::nullopt);
  EXPECT_EQ(megatron_dump_arguments("echo loading .. done\n--num-layers 2\n"), std::nullopt);
  EXPECT_THAT(*megatron_dump_arguments(dump("")), HasSubstr("--hidden-size 512"));
}

}  // namespace
}  // namespace weir::dump_test
