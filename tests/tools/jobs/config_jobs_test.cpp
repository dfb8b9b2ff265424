// Jobs of GPT-NeoX, DeepSpeed and NeMo as plans: small files written here with the numbers worked
// out beside them, and the real ones where they are.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/config_jobs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/model/readers/foreign_job.hpp"
#include "plan/text/text_file.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/plan/samples.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tools/jobs/job/config_table.hpp"

namespace weir::config_jobs_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Job neox(const std::string& text, const JobOptions& options = {.dp = 1}) {
  return read_neox_job(text, "job.yml", options);
}

const std::string kNeox =
    "{\n  # as GPT-NeoX's own configs are written\n  \"pipe-parallel-size\": 2,\n"
    "  \"model_parallel_size\": 2,\n  \"num_layers\": 5, \"hidden_size\": 64,\n"
    "  \"num_attention_heads\": 4, \"seq_length\": 32, \"max_position_embeddings\": 32,\n"
    "  \"pos_emb\": \"rotary\", \"no_weight_tying\": true,\n"
    "  \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1.0e-4, \"betas\": [0.9, "
    "0.95],},},\n"
    "  \"zero_optimization\": {\"stage\": 1, \"overlap_comm\": True,},\n"
    "  \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 8,\n"
    "  \"fp16\": {\"enabled\": true}, \"checkpoint_activations\": true,\n"
    "  \"warp_drive\": 9, \"log_interval\": 10, \"gradient_clipping\": 1.0,\n";

TEST(ConfigTable, IsFlatAndKnowsWhatWasRead) {
  ConfigTable t("a: {b-c: 1e3, d: [1, [2, x]]}\ne: auto\nf: null\ng: True\n", "job.yml");
  EXPECT_EQ(t.integer("a.b_c", 1, 5000), 1000);
  EXPECT_THAT(t.list("a.d"), ElementsAre("1", "2", "x"));
  EXPECT_EQ(t.integer("e", 1, 5), std::nullopt);
  EXPECT_EQ(t.text_or("f", "none"), "none");
  EXPECT_TRUE(t.flag_or("g", false));
  EXPECT_TRUE(t.has("a"));
  EXPECT_FALSE(t.has("a.b"));
  EXPECT_EQ(complaint([&] { static_cast<void>(t.integer("a.b_c", 1, 5)); }),
            "job.yml: a.b_c: expected an integer from 1 to 5, found 1e3");
  EXPECT_THAT(complaint([] { ConfigTable("a: [1\nb: 2\n", "job.yml"); }),
              HasSubstr("job.yml: line 2: no valid YAML or JSON: "));
  EXPECT_THAT(complaint([] { ConfigTable(std::string(10'000, '['), "job.yml"); }),
              HasSubstr("job.yml: line 1: no valid YAML or JSON: "));
  EXPECT_EQ(complaint([] { ConfigTable("- 1\n", "job.yml"); }),
            "job.yml: expected keys and values, as YAML or JSON");
}

// 5 blocks on 2 stages are 3 and 2; 4 GPUs are one replica of 2 x 2, 8 GPUs two.
TEST(NeoxJob, KeysOfModelAndDeepSpeedAreOnePlan) {
  const Job job = neox(kNeox + "}", {.gpus = 8});
  const Plan& plan = job.plan;
  EXPECT_EQ(plan.pp, 2);
  EXPECT_EQ(plan.tp, 2);
  EXPECT_EQ(plan.dp, 2);
  EXPECT_EQ(plan.micro_batch_size, 4);
  EXPECT_EQ(plan.microbatches, 8);
  EXPECT_EQ(plan.zero, 1);
  EXPECT_FALSE(plan.overlap_grad_reduce);  // a pipeline reduces at its end
  EXPECT_EQ(plan.dtype, Dtype::fp16);
  EXPECT_EQ(plan.recompute.mode, RecomputeMode::full);
  EXPECT_EQ(plan.optimizer.beta2, 0.95);
  EXPECT_THAT(plan.boundaries, ElementsAre(4));
  // GPT-2's 50257 tokens in a multiple of 128 tp = 256.
  EXPECT_EQ(std::get<EmbeddingShape>(job.model.layers.front().shape).vocabulary, 50432);
  EXPECT_EQ(plan.optimizer.clip_norm, 1);
  EXPECT_EQ(names(job), "warp_drive ");
  const Job chunks = neox(kNeox + "\"checkpoint_num_layers\": 2}", {.gpus = 8});
  EXPECT_EQ(recompute_word(chunks.plan.recompute), "full:2");
  EXPECT_EQ(names(chunks), "checkpoint_num_layers warp_drive ");
}

// swiglu has two thirds: 86016 * 2 / 3 = 57344 is gate and input together, each 28672 wide, as in
// Llama 2 70B; GPT-J's residual has attention and MLP in parallel.
TEST(NeoxJob, ShapesAreThoseOfItsTransformer) {
  const Job job = neox(kNeox +
                       "\"activation\": \"swiglu\", \"intermediate_size\": 86016,\n"
                       "\"mlp_multiple_of\": 256, \"num_kv_heads\": 2, \"norm\": \"rmsnorm\",\n"
                       "\"gpt_j_residual\": true, \"attention_config\": [[[\"flash\"], 5]]}");
  const auto& block = std::get<TransformerShape>(job.model.layers[1].shape);
  EXPECT_EQ(block.ffn, 28672);
  EXPECT_EQ(block.kv_heads, 2);
  EXPECT_TRUE(block.gated && block.parallel);
  EXPECT_EQ(block.norm, NormKind::rms_norm);
  EXPECT_EQ(job.plan.attention, AttentionKind::fused);
  EXPECT_EQ(complaint([] { neox(kNeox + "\"attention_config\": [[[\"mamba\"], 5]]}"); }),
            "job.yml: attention_config: mamba blocks are not modelled");
  EXPECT_EQ(complaint([] { neox("num_layers: 2\n"); }),
            "job.yml: hidden_size: is missing: where the job is several files, join them: cat "
            "MODEL.yml TRAINING.yml");
}

// GPT-NeoX-20B has 20,554,567,680 parameters (Black et al., 2022, table 1), Llama 2 70B 28672 wide
// MLPs.
TEST(NeoxSamples, AreRead) {
  const auto folder = sample_folder("deepspeed");
  if (!folder) GTEST_SKIP() << "no sample files beside the checkout";
  const auto read = [&](const char* name) {
    return read_neox_job(read_text_file(*folder / name), name, {.gpus = 96});
  };
  const Job big = read("neox_20B.yml");
  EXPECT_EQ(parameter_count(big.model), 20'554'567'680);
  EXPECT_EQ(big.plan.pp, 4);
  EXPECT_EQ(big.plan.dp, 12);
  EXPECT_EQ(big.plan.global_batch_size(), 1536);
  EXPECT_THAT(big.plan.boundaries, ElementsAre(12, 23, 34));
  // A hundredth of 150000 iterations warms up; a cosine leads from 0.97e-4 down to 0.97e-5.
  EXPECT_EQ(big.plan.optimizer.rate, (RateSchedule{1500, 150000, DecayStyle::cosine, 0.97e-5}));
  EXPECT_EQ(complaint([&] { read("neox_llama2_70B.yml"); }),
            "neox_llama2_70B.yml: train_micro_batch_size_per_gpu: is missing: where the job is "
            "several files, join them: cat MODEL.yml TRAINING.yml");
}

// The model's file and the training's, one after the other as NeoX itself merges them; 8 x 4 x 2
// samples a step, of which 8 replicas have 4 at a time.
TEST(NeoxJob, MayBeSeveralFiles) {
  const std::string model =
      "# sizes\n{\n  \"num_layers\": 4,\n  \"hidden_size\": 64,\n"
      "  \"num_attention_heads\": 4, \"seq_length\": 32,\n}\n";
  const std::string training =
      "# steps\n{\n  \"train_batch_size\": 64,\n"
      "  \"train_micro_batch_size_per_gpu\": 4\n}\n";
  const auto read = [](const std::string& text) {
    return read_neox_job(text, "job.yml", {.gpus = 8});
  };
  const Job job = read(model + training);
  EXPECT_EQ(job.model.layers.size(), 7U);
  EXPECT_EQ(job.plan.micro_batch_size, 4);
  EXPECT_EQ(job.plan.microbatches, 2);
  EXPECT_EQ(complaint([&] { read(model); }),
            "job.yml: train_micro_batch_size_per_gpu: is missing: where the job is several files, "
            "join them: cat MODEL.yml TRAINING.yml");
  EXPECT_EQ(complaint([&] { read(training); }),
            "job.yml: hidden_size: is missing: where the job is several files, join them: cat "
            "MODEL.yml TRAINING.yml");
  EXPECT_EQ(complaint([&] { read(model + training + training); }),
            "job.yml: train_batch_size: is given by two of the files");
  // A batch alone is one micro-batch a replica.
  const Job batch = read(model + "{\n\"train_batch_size\": 64\n}\n");
  EXPECT_EQ(batch.plan.micro_batch_size, 8);
  EXPECT_EQ(batch.plan.microbatches, 1);
}

TEST(NeoxJob, OtherTrainingIsRefused) {
  const auto read = [](const std::string& more) {
    static_cast<void>(
        read_neox_job("num_layers: 4\nhidden_size: 64\nnum_attention_heads: 3\nseq_length: 32\n"
                      "train_micro_batch_size_per_gpu: 1\n" +
                          more,
                      "job.yml", {.gpus = 1}));
  };
  EXPECT_EQ(complaint([&] { read("train_impl: dpo\n"); }),
            "job.yml: train_impl: dpo: only the training of a language model, \"normal\", is "
            "modelled");
  // Said before the heads, which such blocks do not have.
  EXPECT_EQ(complaint([&] { read("attention_config: [[[mamba], 4]]\n"); }),
            "job.yml: attention_config: mamba blocks are not modelled");
}

Model small_model() {
  return read_neox_job(
             "num_layers: 4\nhidden_size: 64\nnum_attention_heads: 4\nseq_length: 32\n"
             "train_micro_batch_size_per_gpu: 1\n",
             "model.yml", {.dp = 1})
      .model;
}

// ZeRO 3 over 8 devices: in two groups of four (MiCS), with a second copy among four (hpZ), and
// state with the host, of ZeRO 3 in part.
TEST(DeepSpeedJob, SharesWithinGroupsAndWithTheHost) {
  const Model model = small_model();
  const auto plan = [&](const std::string& zero) {
    const std::string text = R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {)";
    return read_deepspeed_job(text + zero + "}}", "ds.json", {.gpus = 8, .model = &model}).plan;
  };
  EXPECT_EQ(plan(R"("stage": 3, "mics_shard_size": 4)").zero_shards, 4);
  EXPECT_EQ(plan(R"("stage": 3, "mics_shard_size": 8)").zero_shards, 0);
  EXPECT_EQ(plan(R"("stage": 3, "zero_hpz_partition_size": 4)").zero_secondary, 4);
  EXPECT_EQ(plan(R"("stage": 3, "zero_hpz_partition_size": 8)").zero_secondary, 0);
  EXPECT_EQ(plan(R"("stage": 2, "zero_hpz_partition_size": 4)").zero_secondary, 0);
  EXPECT_EQ(plan(R"("stage": 2, "cpu_offload": true)").offload_optimizer, 1);
  const std::string host = R"("offload_optimizer": {"device": "cpu", "ratio": 0.25})";
  EXPECT_EQ(plan(R"("stage": 3, )" + host).offload_optimizer, 0.25);
  EXPECT_EQ(plan(R"("stage": 2, )" + host).offload_optimizer, 1);
  EXPECT_THAT(complaint([&] { static_cast<void>(plan(R"("stage": 3, "mics_shard_size": 3)")); }),
              HasSubstr("mics_shard_size: 3: expected a divisor of the 8 devices"));
}

// 2048 = 2 x 128 x 8 replicas.
TEST(DeepSpeedJob, SaysHowAModelIsTrained) {
  const Model model = small_model();
  const std::string text =
      R"({"train_batch_size": 2048, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
      "zero_optimization": {"stage": 2,
                            "offload_optimizer": {"device": "none", "pin_memory": true}},
      "gradient_clipping": 1.0, "steps_per_print": 10})";
  const Job job = read_deepspeed_job(text, "ds.json", {.gpus = 8, .model = &model});
  EXPECT_EQ(job.plan.dp, 8);
  EXPECT_EQ(job.plan.microbatches, 128);
  EXPECT_EQ(job.plan.zero, 2);
  EXPECT_EQ(job.plan.dtype, Dtype::bf16);
  EXPECT_EQ(names(job), "pipeline.stages ");
  EXPECT_EQ(complaint([&] { static_cast<void>(read_deepspeed_job(text, "ds.json", {.gpus = 8})); }),
            "ds.json: DeepSpeed's configuration has no model: give the model's file too");
  EXPECT_EQ(complaint([&] {
              static_cast<void>(
                  read_deepspeed_job(R"({"train_batch_size": "auto", "fp16": {"enabled": "auto"}})",
                                     "ds.json", {.gpus = 8, .model = &model}));
            }),
            "ds.json: train_micro_batch_size_per_gpu: is missing, or is the training script's to "
            "choose: give its value");
}

// All three of G, b and M say D: 256 / (8 x 4) = 8.
TEST(DeepSpeedJob, ThreeBatchSizesSayTheReplicas) {
  const Model model = small_model();
  const Job job = read_deepspeed_job(
      R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 8,
          "gradient_accumulation_steps": 4, "pipeline": {"stages": 1}})",
      "ds.json", {.model = &model});
  EXPECT_EQ(job.plan.dp, 8);
  EXPECT_EQ(job.plan.microbatches, 4);
}

// What the training script fills in is no default of anybody: each such key says what the plan has,
// and format and length may be given beside the file.
TEST(DeepSpeedJob, WhatIsAutoIsSaid) {
  const Model model = small_model();
  const std::string text =
      R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": "auto"},
          "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}}})";
  const Job job = read_deepspeed_job(text, "ds.json", {.gpus = 1, .model = &model});
  const auto said = [&](const Job& of, const std::string& name) -> std::string {
    for (const Remark& remark : of.remarks) {
      if (remark.name == name) return remark.text;
    }
    return "";
  };
  EXPECT_EQ(said(job, "bf16.enabled"), "auto: the training script's to choose: fp32 in the plan");
  EXPECT_EQ(said(job, "optimizer.params.lr"),
            "auto: the training script's to choose: 0.001 in the plan");
  for (const JobArgument& argument : job.arguments) {
    const bool open = argument.value == "auto";
    EXPECT_EQ(argument.fate, open ? Fate::changed : Fate::carried) << argument.name;
  }
  const Job told = read_deepspeed_job(
      text, "ds.json",
      {.gpus = 1, .model = &model, .given = {.seq_length = 16, .dtype = Dtype::bf16}});
  EXPECT_EQ(told.plan.dtype, Dtype::bf16);
  EXPECT_EQ(told.plan.seq_length, 16);
  EXPECT_EQ(said(told, "bf16.enabled"), "auto: the training script's to choose: bf16 in the plan");
  EXPECT_EQ(complaint([&] {
              static_cast<void>(read_deepspeed_job(
                  R"({"train_micro_batch_size_per_gpu": 2, "fp16": {"enabled": true}})", "ds.json",
                  {.gpus = 1, .model = &model, .given = {.dtype = Dtype::bf16}}));
            }),
            "ds.json: fp16.enabled: true, which contradicts bf16");
  EXPECT_THAT(said(read_deepspeed_job(R"({"train_micro_batch_size_per_gpu": 2,
                                          "fp16": {"enabled": true, "type": "bfloat16"}})",
                                      "ds.json", {.gpus = 1, .model = &model}),
                   "fp16.type"),
              HasSubstr("bfloat16: GPT-NeoX 1.0 trained in it"));
}

// The rate's course, as far as a plan has it: a line down to 0 at step 500, a cosine to a tenth of
// the rate, a warm-up along a logarithm, which is said, and a course of another kind.
TEST(DeepSpeedJob, SchedulersAreRates) {
  const Model model = small_model();
  const auto job = [&](const std::string& type, const std::string& more) {
    return read_deepspeed_job(R"({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "Adam",
                                  "params": {"lr": 1e-3}}, "scheduler": {"type": ")" +
                                  type + R"(", "params": {"warmup_num_steps": 50)" + more + "}}}",
                              "ds.json", {.gpus = 1, .model = &model});
  };
  const std::string linear = R"(, "warmup_type": "linear", "total_num_steps": 500)";
  EXPECT_EQ(job("WarmupDecayLR", linear).plan.optimizer.rate,
            (RateSchedule{50, 500, DecayStyle::linear, 0}));
  EXPECT_EQ(job("WarmupCosineLR", linear + R"(, "cos_min_ratio": 0.1)").plan.optimizer.rate,
            (RateSchedule{50, 500, DecayStyle::cosine, 1e-4}));
  const Job plain = job("WarmupLR", R"(, "warmup_max_lr": 2e-3)");
  EXPECT_EQ(plain.plan.optimizer.rate, (RateSchedule{.warmup_iters = 50}));
  EXPECT_EQ(plain.plan.optimizer.learning_rate, 2e-3);
  EXPECT_THAT(names(plain), HasSubstr("scheduler.params.warmup_type "));
  EXPECT_THAT(names(job("OneCycle", "")), HasSubstr("scheduler.type "));
  EXPECT_THAT(names(job("WarmupDecayLR", "")), HasSubstr("scheduler.params.total_num_steps "));
}

// Matrices by Muon, with its own rate where it has one; what else there is by Adam.
TEST(DeepSpeedJob, MuonIsRead) {
  const Model model = read_neox_job(kNeox + "}", "neox.yml", {.dp = 8}).model;
  const Plan plan =
      read_deepspeed_job(R"({"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "Muon",
          "params": {"lr": 0.02, "muon_lr": 0.01, "adam_lr": 0.001, "momentum": 0.9}}})",
                         "ds.json", {.dp = 2, .model = &model})
          .plan;
  EXPECT_EQ(plan.optimizer.kind, OptimizerKind::muon);
  EXPECT_EQ(plan.optimizer.learning_rate, 0.01);
  EXPECT_EQ(plan.optimizer.momentum, 0.9);
  EXPECT_EQ(plan.optimizer.newton_schulz, 5);
  // Of which the engine hands on no other number; its two methods are known.
  const auto with = [&](const std::string& params) {
    return read_deepspeed_job(R"({"train_micro_batch_size_per_gpu": 1, "optimizer":
        {"type": "Muon", "params": {)" +
                                  params + "}}}",
                              "ds.json", {.dp = 2, .model = &model});
  };
  EXPECT_EQ(with(R"("ns_steps": 9)").plan.optimizer.newton_schulz, 5);
  EXPECT_THAT(names(with(R"("ns_steps": 9)")), HasSubstr("optimizer.params.ns_steps "));
  EXPECT_EQ(names(with(R"("ns_method": "standard")")).find("ns_"), std::string::npos);
  EXPECT_THAT(complaint([&] { static_cast<void>(with(R"("ns_method": "cubic")")); }),
              HasSubstr("optimizer.params.ns_method: expected gram or standard"));
}

TEST(NemoJob, IsMegatronsInOtherWords) {
  const Job job = read_nemo_job(
      "trainer: {devices: 8, num_nodes: 4, precision: bf16, gradient_clip_val: 1.0}\n"
      "model:\n  micro_batch_size: 1\n  global_batch_size: 64\n  tensor_model_parallel_size: 4\n"
      "  pipeline_model_parallel_size: 2\n  virtual_pipeline_model_parallel_size: null\n"
      "  encoder_seq_length: 32\n  max_position_embeddings: ${.encoder_seq_length}\n"
      "  num_layers: 8\n  hidden_size: 64\n  ffn_hidden_size: ${multiply:4, ${.hidden_size}}\n"
      "  num_attention_heads: 8\n  num_query_groups: 4\n  activation: fast-swiglu\n"
      "  normalization: rmsnorm\n  bias: False\n  position_embedding_type: rope\n"
      "  share_embeddings_and_output_weights: False\n  sequence_parallel: True\n"
      "  activations_checkpoint_granularity: selective\n  warp_drive: 9\n"
      "  optim: {name: distributed_fused_adam, lr: 1e-4, betas: [0.9, 0.95]}\n",
      "nemo.yaml", {});
  const Plan& plan = job.plan;
  EXPECT_EQ(plan.dp, 4);
  EXPECT_EQ(plan.microbatches, 16);
  EXPECT_EQ(plan.zero, 1);
  EXPECT_TRUE(plan.sequence_parallel);
  EXPECT_EQ(plan.recompute.mode, RecomputeMode::selective);
  const auto& block = std::get<TransformerShape>(job.model.layers[1].shape);
  EXPECT_EQ(block.ffn, 256);
  EXPECT_EQ(block.kv_heads, 4);
  EXPECT_TRUE(block.gated && block.rotary && !block.mlp_bias);
  EXPECT_THAT(names(job), HasSubstr("model.warp_drive "));
  EXPECT_THAT(complaint([] { static_cast<void>(read_nemo_job("a: 1\n", "nemo.yaml", {})); }),
              HasSubstr("expected a NeMo 1 configuration or a Megatron-Bridge recipe"));
}

// A cosine over the training's 1000 steps but for the last 100, behind 49.5, so 50, of warm-up;
// what is on and not in the plan is named by its own key, and errors are as well.
TEST(NemoJob, ItsCourseAndItsKeys) {
  const auto read = [](const std::string& sched, const std::string& more = "") {
    return read_nemo_job(
        "trainer: {devices: 8, precision: bf16, max_steps: 1000}\nmodel:\n  micro_batch_size: 1\n"
        "  global_batch_size: 64\n  encoder_seq_length: 32\n  num_layers: 4\n  hidden_size: 64\n"
        "  num_attention_heads: 8\n  normalization: layernorm1p\n  fp8: True\n"
        "  overlap_p2p_comm: True\n  apply_query_key_layer_scaling: True\n"
        "  tokenizer: {type: GPT2BPETokenizer}\n" +
            more + "  optim: {name: adam, lr: 1e-3, sched: {" + sched + "}}\n",
        "nemo.yaml", {});
  };
  const Job job =
      read("name: CosineAnnealing, warmup_steps: 49.5, constant_steps: 100, min_lr: 1e-4");
  EXPECT_EQ(job.plan.optimizer.rate, (RateSchedule{50, 900, DecayStyle::cosine, 1e-4}));
  EXPECT_EQ(names(job), "model.overlap_p2p_comm model.apply_query_key_layer_scaling ");
  EXPECT_EQ(job.plan.fp8, Fp8Recipe::delayed);
  EXPECT_EQ(job.model.layers[1].treated.fp8, Fp8Recipe::delayed);
  EXPECT_EQ(std::get<EmbeddingShape>(job.model.layers[0].shape).vocabulary, 50304);
  const Job other = read("name: NoamAnnealing, warmup_steps: 50");
  EXPECT_EQ(other.plan.optimizer.rate, (RateSchedule{.warmup_iters = 50}));
  EXPECT_THAT(names(other), HasSubstr("model.optim.sched.name "));
  EXPECT_THAT(names(read("", "  position_embedding_type: ALiBi\n")),
              HasSubstr("model.position_embedding_type "));
  EXPECT_THAT(complaint([&] { read("", "  position_embedding_type: xpos\n"); }),
              HasSubstr("nemo.yaml: model.position_embedding_type: xpos: expected"));
  EXPECT_THAT(complaint([&] { read("", "  mm_cfg: {llm: {model_type: v1}}\n"); }),
              HasSubstr("model.mm_cfg: is a job of a vision-language model, which is not read"));
  EXPECT_EQ(complaint([&] { read("", "  bert_binary_head: True\n"); }),
            "nemo.yaml: model.bert_binary_head: is a job of BERT, which is not read from NeMo's "
            "files: megatron_gpt's are");
  EXPECT_THAT(complaint([] {
                static_cast<void>(
                    read_nemo_job("name: megatron_t5\nmodel: {encoder: {num_layers: "
                                  "2}}\n",
                                  "nemo.yaml", {}));
              }),
              HasSubstr("is a job of an encoder with a decoder, which is not read"));
}

// Gated by GELU, three biases of QKV, 1000 padded to 1024, and what each key means where it is on.
TEST(NemoJob, SizesBesideTheUsualOnes) {
  const std::string base =
      "trainer: {devices: 8, precision: bf16}\nmodel:\n  micro_batch_size: 1\n"
      "  global_batch_size: 64\n  encoder_seq_length: 32\n  num_layers: 4\n  hidden_size: 64\n"
      "  ffn_hidden_size: 128\n  num_attention_heads: 8\n  position_embedding_type: rope\n"
      "  bias: False\n  override_vocab_size: 1000\n  fp8_margin: 0\n  hysteresis: 2\n";
  const auto read = [&](const std::string& more) {
    return read_nemo_job(base + more, "nemo.yaml", {});
  };
  const Job job = read(
      "  activation: geglu\n  qkv_bias: True\n  masked_softmax_fusion: True\n"
      "  megatron_amp_O2: False\n");
  const auto& block = std::get<TransformerShape>(job.model.layers[1].shape);
  EXPECT_TRUE(block.gated && block.qkv_bias && !block.mlp_bias);
  EXPECT_EQ(std::get<EmbeddingShape>(job.model.layers[0].shape).vocabulary, 1024);
  EXPECT_EQ(names(job).find("fp8"), std::string::npos);  // switched off
  EXPECT_THAT(names(job), HasSubstr("model.masked_softmax_fusion "));
  EXPECT_THAT(names(job), HasSubstr("model.megatron_amp_O2 "));
  EXPECT_EQ(read("  fp8: True\n  fp8_params: True\n").plan.fp8, Fp8Recipe::delayed);
  EXPECT_EQ(job.plan.fp8, Fp8Recipe::none);
  // Samples of fine-tuning, packed before or as long as each micro-batch's longest.
  const auto tuned = [&](const std::string& rows) {
    return read("  data:\n    train_ds:\n      " + rows + "\n");
  };
  EXPECT_EQ(tuned("packed_sequence: True").rows.name, "model.data.train_ds.packed_sequence");
  EXPECT_TRUE(tuned("packed_sequence: False").rows.name.empty());
  // Its data are as long as they say, not as the model's may be.
  EXPECT_EQ(tuned("max_seq_length: 24").plan.seq_length, 24);
  EXPECT_NE(job.plan.seq_length, 24);
  // Left open there it is the model's, and where it is too long its own key is named.
  for (const char* open : {"-1", "???", "${oc.env:LENGTH}"})
    EXPECT_EQ(tuned(std::string("max_seq_length: ") + open).plan.seq_length, 32) << open;
  const std::string above =
      "  max_position_embeddings: 32\n  data:\n    train_ds:\n      max_seq_length: 64\n";
  std::string learned = base + above;
  learned.replace(learned.find("rope"), 4, "learned_absolute");
  EXPECT_EQ(complaint([&] { static_cast<void>(read_nemo_job(learned, "nemo.yaml", {})); }),
            "nemo.yaml: model.max_position_embeddings: is below "
            "model.data.train_ds.max_seq_length");
  EXPECT_EQ(complaint([&] {
              tuned("max_seq_length: many");
            }).find("nemo.yaml: model.data.train_ds.max_seq_length: "),
            0U);
  EXPECT_THAT(names(tuned("pad_to_max_length: False")), HasSubstr("train_ds.pad_to_max_length"));
  EXPECT_EQ(names(tuned("pad_to_max_length: True")).find("train_ds"), std::string::npos);
  EXPECT_THAT(names(tuned("shuffle: True")), HasSubstr("train_ds.pad_to_max_length"));
  EXPECT_EQ(names(job).find("train_ds"), std::string::npos);
  EXPECT_EQ(complaint([&] { read("  transformer_block_type: normformer\n"); }),
            "nemo.yaml: model.transformer_block_type: normformer: not modelled: expected pre_ln");
}

TEST(ForeignTool, IsKnownByItsWords) {
  EXPECT_EQ(foreign_tool(kNeox).name, "GPT-NeoX");
  EXPECT_EQ(foreign_tool("{\"zero_optimization\": {\"stage\": 3}}").reader, "deepspeed");
  EXPECT_EQ(foreign_tool("trainer:\n  devices: 8\nmodel:\n  tensor_model_parallel_size: 1\n").name,
            "NeMo");
  EXPECT_EQ(foreign_tool("from torchtitan.trainer import Trainer\n").reader, "torchtitan");
  EXPECT_EQ(foreign_tool("from megatron.bridge import AutoBridge\n").reader, "nemo");
  EXPECT_EQ(foreign_tool("compute_environment: X\ndistributed_type: FSDP\n").reader, "");
  EXPECT_EQ(foreign_tool("{\"model_type\": \"gpt2\"}").name, "");
  // A plan keeps the lines of its job, and is none.
  const std::string lines = R"("job": ["--num-layers 2", "--hidden-size 8"]})";
  EXPECT_EQ(tool_of_text("{" + lines).name, "Megatron-LM");
  EXPECT_EQ(tool_of_text(R"({"schema": "weir.plan/1", )" + lines).name, "");
}

// As their own documentation begins such files; none of them is read.
TEST(ForeignTool, OthersAreKnownToo) {
  for (const auto& [name, text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"axolotl", "base_model: a/b\ndatasets:\n  - path: c\nmicro_batch_size: 2\n"},
           {"Composer or llm-foundry",
            "max_seq_len: 2048\nmodel:\n  name: mpt_causal_lm\nglobal_train_batch_size: 8\n"},
           {"MaxText", "base_emb_dim: 4096\nper_device_batch_size: 4\nici_fsdp_parallelism: -1\n"},
           {"MaxText",
            "base_config: base.yml\nper_device_batch_size: 4\ndcn_data_parallelism: 2\n"},
           {"Colossal-AI", "from colossalai.amp import AMP_TYPE\nBATCH_SIZE = 8\n"},
           {"Colossal-AI", "parallel = dict(pipeline=2, tensor=dict(size=2, mode='1d'))\n"},
           {"Hugging Face Accelerate",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"},
           {"PyTorch Lightning", "trainer:\n  accelerator: gpu\n  devices: 8\n"},
           {"PyTorch Lightning", "import lightning.pytorch as pl\ntrainer = pl.Trainer()\n"},
           {"torchtune", "model:\n  _component_: torchtune.models.llama3.llama3_8b\n"},
           {"LLaMA-Factory", "model_name_or_path: a/b\nstage: pt\nfinetuning_type: full\n"},
           {"the Hugging Face Trainer", "{\"per_device_train_batch_size\": 4}"}}) {
    EXPECT_EQ(foreign_tool(text).name, name) << text;
    EXPECT_EQ(foreign_tool(text).reader, "") << text;
  }
}

}  // namespace
}  // namespace weir::config_jobs_test
