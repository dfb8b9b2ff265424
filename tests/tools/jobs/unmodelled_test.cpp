// What is not modelled is refused by its name in every reader of jobs and models: a table of
// readers by ways to switch it on. What is not understood is named, and of adapters and frozen
// weights it is said that what is forecast is full training.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/unmodelled.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/job/doubt.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::unmodelled_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Job megatron(const std::string& more) {
  return read_megatron_job(
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 --vocab-size 1000 --micro-batch-size 1 "
      "--global-batch-size 16 " +
          more,
      "job", {.gpus = 8});
}

Job bridge(const std::string& more) {
  return read_nemo_job(
      "from megatron.bridge.training.config import ConfigContainer\n\n"
      "def small_pretrain_config() -> ConfigContainer:\n    cfg = _pretrain_common()\n"
      "    cfg.model = GPTModelProvider(seq_length=2048, num_layers=8, hidden_size=64,\n"
      "        ffn_hidden_size=256, num_attention_heads=8, hidden_dropout=0.0,\n"
      "        attention_dropout=0.0, pipeline_dtype=torch.bfloat16)\n"
      "    cfg.tokenizer.vocab_size = DEFAULT_NULL_TOKENIZER_VOCAB_SIZE\n    " +
          more + "\n    return cfg\n",
      "job", {.gpus = 8});
}

Job nemo(const std::string& more) {
  return read_nemo_job(
      "trainer:\n  num_nodes: 1\n  devices: 8\n  precision: bf16\nmodel:\n"
      "  micro_batch_size: 1\n  global_batch_size: 8\n  tensor_model_parallel_size: 1\n"
      "  pipeline_model_parallel_size: 2\n  encoder_seq_length: 32\n"
      "  max_position_embeddings: 32\n  num_layers: 4\n  hidden_size: 64\n"
      "  ffn_hidden_size: 256\n  num_attention_heads: 4\n  " +
          more + "\n",
      "job", {.vocabulary = 1000});
}

Job neox(const std::string& more) {
  return read_neox_job(
      "num_layers: 4\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 32\n"
      "train_micro_batch_size_per_gpu: 1\n" +
          more + "\n",
      "job", {.dp = 8});
}

Job deepspeed(const std::string& more) {
  const Model model = neox("").model;
  return read_deepspeed_job("{\"train_micro_batch_size_per_gpu\": 1, " + more + "}", "job",
                            {.dp = 8, .model = &model});
}

Job torchtitan(const std::string& more) {
  return read_torchtitan_job(
      "[model]\nflavor = '8B'\n[training]\nlocal_batch_size = 8\nseq_len = 8\n" + more + "\n",
      "job", {.gpus = 8});
}

Job registry(const std::string& more) {
  return read_torchtitan_job(
      "from torchtitan.trainer import Trainer\nfrom . import model_registry\n\n"
      "def llama3_8b() -> Trainer.Config:\n    return Trainer.Config(\n"
      "        model_spec=model_registry(\"8B\"),\n"
      "        optimizer=OptimizersContainer.Config(lr=3e-4),\n"
      "        training=TrainingConfig(local_batch_size=8, seq_len=4096, steps=50),\n        " +
          more + ")\n",
      "job", {.gpus = 8, .config = "llama3_8b"});
}

struct Refusal {
  const char* reader;
  std::function<Job(const std::string&)> read;
  const char* without;  // the same reader takes this
  const char* with;     // and refuses this
  const char* key;
  const char* message;
};

TEST(Unmodelled, IsRefusedByNameInEveryReader) {
  const char* offload = kOffloadNotModelled;
  const char* weights = kWeightsNotWithHost;
  const char* prediction = kPredictionNotModelled;
  const char* hybrid = kHybridNotModelled;
  const std::vector<Refusal> refusals{
      {"Megatron", megatron, "--cpu-offloading-num-layers 1",
       "--cpu-offloading-num-layers 1 --cpu-offloading-weights", "cpu-offloading-weights", offload},
      {"Megatron", megatron, "", "--offload-optimizer-states", "offload-optimizer-states", offload},
      {"Megatron", megatron, "--outer-dp-sharding-strategy no_shard",
       "--outer-dp-sharding-strategy optim", "outer-dp-sharding-strategy", hybrid},
      {"Bridge", bridge, "cfg.model.cpu_offloading = False", "cfg.model.cpu_offloading = True",
       "cpu-offloading-num-layers", "is missing beside --cpu-offloading"},
      {"NeMo", nemo, "cpu_offloading: false", "cpu_offloading: true",
       "model.cpu_offloading_num_layers", "is missing beside --cpu-offloading"},
      {"NeMo", nemo, "fsdp_cpu_offload: false", "fsdp_cpu_offload: true", "model.fsdp_cpu_offload",
       weights},
      {"NeMo", nemo, "optimizer_cpu_offload: null", "optimizer_cpu_offload: true",
       "model.optimizer_cpu_offload", offload},
      {"NeMo", nemo, "mtp_num_layers: null", "mtp_num_layers: 1", "model.mtp_num_layers",
       prediction},
      {"NeMo", nemo, "fsdp_sharding_strategy: full", "fsdp_sharding_strategy: hybrid",
       "model.fsdp_sharding_strategy", hybrid},
      {"NeMo", nemo, "num_distributed_optimizer_instances: 1",
       "num_distributed_optimizer_instances: 2", "model.num_distributed_optimizer_instances",
       hybrid},
      {"DeepSpeed", deepspeed, R"("zero_optimization": {"offload_param": {"device": "none"}})",
       R"("zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}})",
       "zero_optimization.offload_param.device", weights},
      {"DeepSpeed", deepspeed, R"("zero_optimization": {"offload_optimizer": {"device": "cpu"}})",
       R"("zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}})",
       "zero_optimization.offload_optimizer.device", "offload to disks is not modelled"},
      {"torchtitan", torchtitan, "enable_cpu_offload = false", "enable_cpu_offload = true",
       "training.enable_cpu_offload", weights},
      {"torchtitan", torchtitan, "", "[model_args]\nnum_mtp_modules = 1",
       "model_args.num_mtp_modules", prediction}};
  for (const Refusal& r : refusals) {
    const auto what = fmt::format("{}: {}", r.reader, r.with);
    EXPECT_EQ(complaint([&] { static_cast<void>(r.read(r.without)); }), "no complaint") << what;
    EXPECT_THAT(complaint([&] { static_cast<void>(r.read(r.with)); }),
                AllOf(HasSubstr(r.key), HasSubstr(r.message)))
        << what;
  }
}

// What was refused once and plans say now: eight devices in two groups of four, or with a second
// copy of the weights among four; state and activations with the host; a block that predicts.
TEST(Unmodelled, WhatPlansSayIsRead) {
  // Of four layers one; of a block of 64 numbers, 4 heads and an MLP of 256 without a gate its
  // queries, keys and values: 192 of 64 x 3 + 192 + 64 + 64 + 256 + 256 = 1024 numbers of 2 bytes,
  // beside 8 + 16 bytes of statistics and 128 of what dropout left.
  EXPECT_EQ(megatron("--cpu-offloading-num-layers 1").plan.offload_activations, 0.25);
  EXPECT_EQ(megatron("--fine-grained-activation-offloading --offload-modules core_attn")
                .plan.offload_activations,
            384.0 / (2048 + 24 + 128));
  EXPECT_EQ(bridge("cfg.model.cpu_offloading = True\n    cfg.model.cpu_offloading_num_layers = 2")
                .plan.offload_activations,
            0.25);
  // A recipe's layers are of no effect where it is switched off, or offloads no activations.
  for (const char* off :
       {"cpu_offloading = False", "cpu_offloading = None",
        "cpu_offloading = True\n    cfg.model.cpu_offloading_activations = False"}) {
    EXPECT_EQ(bridge(fmt::format("cfg.model.cpu_offloading_num_layers = 2\n    cfg.model.{}", off))
                  .plan.offload_activations,
              0)
        << off;
  }
  EXPECT_EQ(bridge("cfg.ddp.num_distributed_optimizer_instances = 2").plan.zero_shards, 4);
  EXPECT_EQ(registry("parallelism=ParallelismConfig(data_parallel_replicate_degree=2,\n"
                     "            data_parallel_shard_degree=4)")
                .plan.zero_shards,
            4);
  EXPECT_EQ(neox("zero_optimization: {stage: 3, zero_hpz_partition_size: 4}").plan.zero_secondary,
            4);
  EXPECT_EQ(bridge("cfg.optimizer.optimizer_cpu_offload = True\n"
                   "    cfg.optimizer.optimizer_offload_fraction = 0.5")
                .plan.offload_optimizer,
            0.5);
  const std::string predicting = "cfg.model.mtp_num_layers = 1";
  EXPECT_EQ(bridge("cfg.model.position_embedding_type = 'rope'\n    " + predicting)
                .plan.prediction_layers,
            1);
  EXPECT_THAT(complaint([&] { static_cast<void>(bridge(predicting)); }),
              HasSubstr("mtp-num-layers: the model has learned positions"));
}

Job bf16_neox(const std::string& more) { return neox("precision: bfloat16\n" + more); }
std::string remark(const Job& job, std::string_view name) {
  for (const Remark& one : job.remarks) {
    if (one.name == name) return one.text;
  }
  return "";
}

TEST(PartialTraining, ASectionOrASwitchIsKnown) {
  for (const char* path : {"freeze.embedding", "peft.rank", "model.lora.alpha", "use_lora",
                           "enable-adapters", "model.use_peft"})
    EXPECT_TRUE(is_of_adapters(path)) << path;
  for (const char* path : {"model.q_lora_rank", "optimizer.params.freeze_step", "use_flashattn"})
    EXPECT_FALSE(is_of_adapters(path)) << path;
  EXPECT_FALSE(names_adapters("optimizer.params.freeze_step"));
}

TEST(PartialTraining, TorchtitansSectionsAreDoubted) {
  const Job job = torchtitan("[freeze]\nembedding = true\n[model.lora]\nalpha = 16\n");
  EXPECT_EQ(remark(job, "freeze.embedding"), fmt::format("true: {}", kFullTraining));
  EXPECT_EQ(remark(job, "model.lora.alpha"), fmt::format("16: {}", kFullTraining));
  EXPECT_THAT(kFullTraining, HasSubstr("what is forecast is full training"));
  EXPECT_EQ(job.plan.lora.rank, 0);
  // The same where an experiment's keys change no time otherwise.
  EXPECT_THAT(remark(torchtitan("[experimental.peft]\nrank = 8\n"), "experimental.peft.rank"),
              HasSubstr("full training"));
  const Job off = torchtitan("[peft]\nenabled = false\nlora_rank = 8\n[freeze]\nhead = false\n");
  EXPECT_THAT(names(off), Not(HasSubstr("peft")));
  EXPECT_THAT(names(off), Not(HasSubstr("freeze")));
  EXPECT_THAT(complaint([] { torchtitan("[peft]\nlora_rank = 8\n"); }),
              HasSubstr("peft.lora_rank: "));
}

// Adapters are a fork's.
TEST(PartialTraining, NeoxsWordsAreDoubted) {
  EXPECT_EQ(remark(bf16_neox("use_lora: true\n"), "use_lora"),
            fmt::format("true: {}", kFullTraining));
  EXPECT_EQ(remark(bf16_neox("adapters: {kind: houlsby}\n"), "adapters.kind"),
            fmt::format("houlsby: {}", kFullTraining));
  EXPECT_EQ(names(bf16_neox("use_lora: false\n")), names(bf16_neox("")));
}

TEST(PartialTraining, IsADoubtOfEveryTool) {
  for (const char* tool : {"torchtitan", "neox", "deepspeed", "nemo", "megatron"}) {
    EXPECT_THAT(doubts_of({.tool = tool, .left_out = {"freeze.embedding", "wandb.project"}}),
                ElementsAre("freeze.embedding"))
        << tool;
  }
}

// A soft prompt is GPT-NeoX's own.
TEST(NeoxWords, ASoftPromptIsRefused) {
  EXPECT_THAT(complaint([] { bf16_neox("soft_prompt_tuning: {enabled: true, num_tokens: 10}\n"); }),
              HasSubstr("job: soft_prompt_tuning.enabled: true: a soft prompt alone is trained"));
  EXPECT_EQ(names(bf16_neox("soft_prompt_tuning: {enabled: false, num_tokens: 10}\n")),
            names(bf16_neox("")));
}

// GPT-NeoX's 8 bits are of Transformer Engine's products under te_fp8_mha, and of no other key.
TEST(NeoxWords, ProductsOfEightBits) {
  const std::string keys = "te_fp8_format: hybrid\nte_fp8_amax_history_len: 1\n";
  const std::string on = keys + "te_fp8_mha: true\n";
  EXPECT_EQ(bf16_neox(keys + "te_fp8_mha: false\n").plan.fp8, Fp8Recipe::none);
  const Job whole = bf16_neox(on + "te_layernorm_mlp: true\nte_fp8_wgrad: false\n");
  EXPECT_EQ(whole.plan.fp8, Fp8Recipe::delayed);
  EXPECT_EQ(whole.plan.dtype, Dtype::bf16);
  EXPECT_EQ(whole.model.layers[1].treated.fp8, Fp8Recipe::delayed);
  EXPECT_THAT(names(whole), HasSubstr("te_fp8_wgrad "));
  EXPECT_EQ(bf16_neox(on + "te_columnparallel: true\nte_rowparallel: true\n").plan.fp8,
            Fp8Recipe::delayed);
  const Job half = bf16_neox(on);
  EXPECT_EQ(half.plan.fp8, Fp8Recipe::none);
  EXPECT_THAT(remark(half, "te_fp8_mha"), HasSubstr("attention's products alone"));
  const Job other = bf16_neox("fp8_format: hybrid\n");
  EXPECT_EQ(other.plan.fp8, Fp8Recipe::none);
  EXPECT_THAT(remark(other, "fp8_format"), HasSubstr("is none of GPT-NeoX's keys"));
  EXPECT_THAT(complaint([&] { bf16_neox("te_fp8_mha: true\nte_fp8_format: e5m2\n"); }),
              HasSubstr("job: te_fp8_format: expected hybrid or e4m3"));
}

// Samples by tokens and layers that drop some change time, unlike the rest of its section.
TEST(DeepspeedWords, DataThatChangesAStep) {
  const auto read = [](const std::string& efficiency) {
    return deepspeed("\"data_efficiency\": " + efficiency);
  };
  const Job job = read(
      R"({"enabled": true, "seed": 1234,
          "data_sampling": {"enabled": true, "dynamic_batching": {"enabled": true,
                            "max_tokens": 4096}},
          "data_routing": {"enabled": true, "random_ltd": {"enabled": true,
                           "total_layer_num": 24}}})");
  EXPECT_THAT(remark(job, "data_efficiency.data_sampling.dynamic_batching.enabled"),
              HasSubstr("not modelled, in the plan micro-batches are alike"));
  EXPECT_THAT(remark(job, "data_efficiency.data_routing.random_ltd.enabled"),
              HasSubstr("not modelled, in the plan each layer has all"));
  EXPECT_THAT(
      names(read(R"({"enabled": true, "data_routing": {"random_ltd": {"enabled": false}}})")),
      Not(HasSubstr("data_efficiency")));
  EXPECT_THAT(
      remark(deepspeed(R"("curriculum_learning": {"enabled": true, "curriculum_type": "seqlen"})"),
             "curriculum_learning.enabled"),
      HasSubstr("not modelled, in the plan all are as long"));
}

}  // namespace
}  // namespace weir::unmodelled_test
