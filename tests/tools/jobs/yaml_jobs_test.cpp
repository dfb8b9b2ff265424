// Tools that give Megatron's arguments in words of their own: FlagScale's and Primus's YAML,
// scripts of ms-swift and verl. Files are written here as those tools have them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "plan/job/summary.hpp"
#include "plan/model/limits.hpp"
#include "plan/text/words_of.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"

namespace weir::yaml_jobs_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

using Folder = std::map<std::string, std::string>;

Job read(const std::string& text, const Folder& folder = {}, JobOptions options = {}) {
  options.files = [&](const std::string& path) -> std::optional<ShellFile> {
    const auto found = folder.find(path);
    return found == folder.end() ? std::nullopt
                                 : std::optional(ShellFile{found->first, found->second});
  };
  return read_megatron_job(text, "job", options);
}
std::string refusal(const std::string& text, const Folder& folder = {}, JobOptions options = {}) {
  return complaint([&] { static_cast<void>(read(text, folder, options)); });
}

// A number, a flag that is on and one that is off, and a list, at any depth.
const std::string kTrain = R"(system:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  sequence_parallel: True
  use_distributed_optimizer: true
  precision:
    bf16: true
    fp16: false
  recompute_granularity: selective
  recompute_modules: [core_attn, mlp]
model:
  num_layers: 8
  hidden_size: 512
  num_attention_heads: 8
  seq_length: 1024
  max_position_embeddings: 1024
  micro_batch_size: 2
  global_batch_size: 64
  optimizer:
    lr_scheduler:
      lr: 1.0e-4
data:
  data_path: a/b
  tokenizer:
    vocab_size: 32000
)";

// 16 devices are 2 x 2 a replica, so 4 replicas; 64 samples are 8 micro-batches of 2 each.
TEST(YamlJobs, FlagScalesTables) {
  const Job job = read(kTrain, {}, {.gpus = 16});
  EXPECT_EQ(summary(job.plan), "K2 tp2s dp4 zero1 M8 b2 1f1b fused selective:core_attn+mlp [5]");
  EXPECT_EQ(job.plan.dtype, Dtype::bf16);
  EXPECT_DOUBLE_EQ(job.plan.optimizer.learning_rate, 1e-4);
  // Its program has arguments of its own, which Megatron's refuses.
  EXPECT_FALSE(job.own_program);
}

// An experiment names its tables' file, and its devices.
TEST(YamlJobs, FlagScalesExperiments) {
  const std::string experiment =
      "defaults:\n  - _self_\n  - train: 8b\n\nexperiment:\n  exp_name: x\n  task:\n    type: "
      "train\n  runner:\n    backend: torchrun\n    nnodes: 2\n    nproc_per_node: 4\n";
  EXPECT_EQ(summary(read(experiment, {{"train/8b.yaml", kTrain}}).plan),
            "K2 tp2s dp2 zero1 M16 b2 1f1b fused selective:core_attn+mlp [5]");
  EXPECT_EQ(refusal(experiment),
            "job: defaults: the sizes are in train/8b.yaml, which is not there");
  // "${experiment.seed}" is the experiment's.
  std::string seeded = kTrain;
  seeded.insert(seeded.find("  optimizer:"), "  seed: ${experiment.seed}\n");
  EXPECT_EQ(read(experiment + "  seed: 7\n", {{"train/8b.yaml", seeded}}).plan.seed, 7U);
  EXPECT_EQ(read(seeded, {}, {.gpus = 4}).plan.seed, 1234U);
  std::string other = experiment;
  other.insert(other.find("  runner:"), "    entrypoint: flagscale/train/train_rwkv.py\n");
  EXPECT_THAT(refusal(other, {{"train/8b.yaml", kTrain}}),
              HasSubstr("of FlagScale's programs train_gpt.py is read"));
  std::string several = kTrain;
  several.insert(several.find("model:"), "  hetero:\n    enable_hetero: True\n");
  EXPECT_THAT(refusal(several), HasSubstr("stages of several kinds of devices are not read"));
}

// Primus's own files above the job: sizes that extend others, the last value counts, and a variable
// of the environment where it is set.
TEST(YamlJobs, PrimusExtendsFiles) {
  const std::string job =
      "modules:\n  pre_trainer:\n    framework: megatron\n    config: pre.yaml\n"
      "    model: ${MODEL:small}.yaml\n    overrides:\n      global_batch_size: 32\n"
      "      tensor_model_parallel_size: ${TP:2}\n      mtp_num_layers: null\n";
  const Folder folder{
      {"../primus/configs/modules/megatron/pre.yaml",
       "extends:\n  - base.yaml\nmicro_batch_size: 2\nseq_length: 1024\n"},
      {"../primus/configs/modules/megatron/base.yaml",
       "extends:\n  - primus_turbo.yaml\nmicro_batch_size: 4\nglobal_batch_size: 8\nbf16: true\n"
       "use_distributed_optimizer: true\n"},
      {"../primus/configs/models/megatron/small.yaml",
       "extends:\n  - llama.yaml\nnum_layers: 8\nhidden_size: 512\nnum_attention_heads: 8\n"
       "vocab_size: 32000\n"},
      {"../primus/configs/models/megatron/llama.yaml",
       "num_layers: 24\nswiglu: true\nadd_bias_linear: false\nnormalization: RMSNorm\n"
       "position_embedding_type: rope\nnum_experts: null\n"}};
  // 8 devices: 4 replicas of 2; 32 samples are 4 micro-batches of 2.
  const Job made = read(job, folder, {.gpus = 8});
  EXPECT_EQ(summary(made.plan), "K1 tp2 dp4 zero1 M4 b2 1f1b fused");
  const auto& block = std::get<TransformerShape>(made.model.layers[1].shape);
  EXPECT_EQ(made.model.layers.size(), 8U + 3);
  EXPECT_TRUE(block.gated && !block.mlp_bias && block.rotary);
  EXPECT_EQ(read(job, folder, {.gpus = 8, .environment = {{"TP", "4"}}}).plan.tp, 4);
  EXPECT_EQ(refusal(job, {}),
            "job: modules.pre_trainer.config: pre.yaml is neither beside the file nor in "
            "primus/configs above it");
  // Adapters are a section of their own, which the files above may have, off.
  Folder adapters = folder;
  adapters["../primus/configs/modules/megatron/base.yaml"] +=
      "lora:\n  enabled: false\n  dim: 32\n  alpha: 32\n  target_modules:\n    - linear_qkv\n"
      "    - linear_fc2\n";
  EXPECT_EQ(read(job, adapters, {.gpus = 8}).plan.lora.rank, 0);
  const std::string on = job + "      lora:\n        enabled: true\n        dim: 16\n";
  EXPECT_EQ(read(on, adapters, {.gpus = 8}).plan.lora,
            (Adapters{16, parse_products("linear_qkv+linear_fc2").value(), 0}));
  std::string titan = job;
  titan.replace(titan.find("megatron"), 8, "torchtitan");
  EXPECT_THAT(refusal(titan, folder),
              HasSubstr("torchtitan: of Primus's jobs Megatron's are read"));
}

// Files that extend each other have no end; nor is one that names thousands of others read through.
TEST(YamlJobs, PrimusExtendsAreBounded) {
  const std::string job =
      "modules:\n  pre_trainer:\n    framework: megatron\n    config: a.yaml\n"
      "    model: b.yaml\n    overrides:\n      bf16: true\n";
  const std::string folder = "../primus/configs/modules/megatron/";
  EXPECT_EQ(refusal(job, {{folder + "a.yaml", "extends:\n  - c.yaml\n"},
                          {folder + "c.yaml", "extends:\n  - a.yaml\n"}}),
            folder + "c.yaml: extends: files extend each other");
  // Six levels of ten each would be 10^6 files, none of which extends itself.
  Folder many;
  for (int level = 0; level < 6; ++level) {
    std::string text = "extends:\n";
    for (int i = 0; i < 10; ++i) text += fmt::format("  - l{}.yaml\n", level + 1);
    many[level == 0 ? folder + "a.yaml" : fmt::format("{}l{}.yaml", folder, level)] = text;
  }
  many[folder + "l6.yaml"] = "bf16: true\n";
  EXPECT_THAT(refusal(job, many), HasSubstr(": extends: more than 256 files"));
}

// Any depth of indentation is YAML; a script that writes such a file is a script.
TEST(YamlJobs, PrimusMayBeIndentedByAnyNumberOfBlanks) {
  const std::string two =
      "# a job\nmodules:\n  pre_trainer:\n    framework: megatron\n    overrides:\n"
      "      num_layers: 8\n      hidden_size: 512\n      num_attention_heads: 8\n"
      "      seq_length: 1024\n      micro_batch_size: 2\n      global_batch_size: 32\n"
      "      vocab_size: 32000\n      bf16: true\n";
  const std::string summarized = "K1 dp8 M2 b2 1f1b fused";
  EXPECT_EQ(summary(read(two, {}, {.gpus = 8}).plan), summarized);
  std::string one;
  for (std::size_t at = 0; at < two.size();) {
    const std::size_t end = two.find('\n', at) + 1, text = two.find_first_not_of(' ', at);
    one += std::string((text - at) / 2, ' ') + two.substr(text, end - text);
    at = end;
  }
  EXPECT_THAT(one, HasSubstr("\n   num_layers: 8\n"));
  EXPECT_EQ(summary(read(one, {}, {.gpus = 8}).plan), summarized);
  const std::string script =
      "cat > job.yaml <<END\n" + two +
      "END\npretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length "
      "64 --max-position-embeddings 64 --micro-batch-size 1 --vocab-size 128\n";
  EXPECT_EQ(read(script, {}, {.gpus = 1}).model.layers.size(), 2U + 3);
}

// The sizes are the checkpoint's, so the model is named beside it; true and false are values there.
TEST(YamlJobs, SwiftTrainsANamedModel) {
  const std::string job =
      "NPROC_PER_NODE=8 \\\nmegatron sft \\\n --model some/model --tensor_model_parallel_size 2 "
      "--sequence_parallel true --finetune false --micro_batch_size 2 --global_batch_size 32 "
      "--max_length 128 --packing true --lr 1e-5";
  EXPECT_THAT(refusal(job), HasSubstr("some/model: a job of ms-swift has its sizes in the "
                                      "checkpoint"));
  const Model model = llama_like(8);
  const Job made = read(job + "\n", {}, {.model = &model});
  // 8 devices of 2 a replica; 32 samples on 4 replicas are 4 micro-batches of 2.
  EXPECT_EQ(summary(made.plan), "K1 tp2s dp4 zero1 M4 b2 1f1b fused selective");
  EXPECT_EQ(made.plan.seq_length, 128);
  EXPECT_EQ(made.plan.dtype, Dtype::bf16);
  EXPECT_THAT(names(made.remarks), Contains("max-length"));
  EXPECT_EQ(made.plan.lora.rank, 0);
  // Its own rank, products and dropout where nothing is said.
  const auto adapters = [&](const std::string& more) {
    return read(job + " --tuner_type lora" + more + "\n", {}, {.model = &model}).plan.lora;
  };
  EXPECT_EQ(adapters(""), (Adapters{8, all_products(), 0.05}));
  EXPECT_EQ(adapters(" --lora_rank 16 --lora_alpha 32 --target_modules linear_qkv linear_proj "
                     "--lora_dropout 0"),
            (Adapters{16, parse_products("linear_qkv+linear_proj").value(), 0}));
  EXPECT_THAT(refusal(job + " --tuner_type lora --lora_dropout nan\n", {}, {.model = &model}),
              HasSubstr("--lora-dropout: nan: expected a share from 0 to 1"));
  // Chunks by its own name; its experts' tokens go all to all, its rate along a cosine.
  const Job chunks = read(job +
                              " --pipeline_model_parallel_size 2 "
                              "--virtual_pipeline_model_parallel_size 2 --train_iters 100\n",
                          {}, {.model = &model});
  EXPECT_EQ(chunks.plan.vpp, 2);
  EXPECT_EQ(chunks.plan.optimizer.beta2, 0.95);
  EXPECT_EQ(chunks.plan.optimizer.rate.style, DecayStyle::cosine);
  // By two names that say the same, or contradict each other.
  EXPECT_EQ(adapters(" --train_type lora"), adapters(""));
  EXPECT_THAT(refusal(job + " --tuner_type full --train_type lora\n", {}, {.model = &model}),
              HasSubstr("--train-type: lora contradicts --tuner-type full"));
  EXPECT_THAT(refusal(job + " --tuner_type lora_llm\n", {}, {.model = &model}),
              HasSubstr("--tuner-type: lora_llm: adapters"));
  EXPECT_THAT(refusal(job + " --tuner_type lora --target_modules router\n", {}, {.model = &model}),
              HasSubstr("--target-modules: router: adapters beside it"));
  EXPECT_THAT(refusal("megatron rlhf --rlhf_type dpo --model a\n", {}, {.model = &model}),
              HasSubstr("not modelled: pt and sft are read"));
}

// An update of 16 prompts with 4 answers, 64 samples of 48 + 80 tokens; `more` words behind it.
std::string verl_job(const std::string& more) {
  return "python3 -m verl.trainer.main_ppo --config-name='ppo_megatron_trainer.yaml' \\\n"
         " data.train_batch_size=1024 data.max_prompt_length=48 data.max_response_length=80 \\\n"
         " actor_rollout_ref.model.path=some/model \\\n"
         " actor_rollout_ref.actor.ppo_mini_batch_size=16 actor_rollout_ref.rollout.n=4 \\\n"
         " trainer.n_gpus_per_node=8 trainer.nnodes=1 " +
         more + "\n";
}
// Settings of the actor's Megatron.
std::string verl_settings(const std::vector<std::string>& settings) {
  std::string more = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2";
  for (const std::string& one : settings) more += " +actor_rollout_ref.actor.megatron." + one;
  return verl_job(more);
}

// The actor's update: 16 prompts of 4 answers are 64 samples of 48 + 80 tokens; 8 devices of 2 x 2
// a replica are 2 replicas, so 16 micro-batches of 2.
TEST(YamlJobs, VerlsActor) {
  const std::string job =
      "python3 -m verl.trainer.main_ppo --config-name='ppo_megatron_trainer.yaml' \\\n"
      " data.train_batch_size=1024 data.max_prompt_length=48 data.max_response_length=80 \\\n"
      " actor_rollout_ref.model.path=some/model actor_rollout_ref.actor.ppo_mini_batch_size=16 \\\n"
      " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 actor_rollout_ref.rollout.n=4 \\\n"
      " actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \\\n"
      " actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 \\\n"
      " +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full "
      "\\\n +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform "
      "\\\n +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers=1 "
      "\\\n trainer.n_gpus_per_node=8 trainer.nnodes=1\n";
  const Model model = llama_like(8);
  const Job made = read(job, {}, {.model = &model});
  EXPECT_EQ(summary(made.plan), "K2 tp2s dp2 zero1 M16 b2 1f1b fused full [5]");
  EXPECT_EQ(made.plan.seq_length, 128);
  EXPECT_THAT(names(made.remarks), Contains("actor"));
  EXPECT_THAT(refusal("python3 -m verl.trainer.main_ppo data.max_prompt_length=48\n", {},
                      {.model = &model}),
              HasSubstr("fsdp: of verl's jobs those that train by Megatron are read"));
}

// What Megatron's configuration is overridden by is Megatron's: a default that is turned off goes
// by the flag that does, a list is words, and what its reader does not know it says.
TEST(YamlJobs, VerlsOverridesGoThroughMegatronsReader) {
  const Model model = llama_like(8);
  const Job made =
      read(verl_settings({"override_transformer_config.recompute_granularity=selective",
                          "override_transformer_config.recompute_modules=[core_attn,mlp]",
                          "override_transformer_config.apply_rope_fusion=False",
                          "override_transformer_config.cuda_graph_impl=transformer_engine",
                          "override_ddp_config.overlap_grad_reduce=True",
                          "override_transformer_config.warp_drive=9", "dtype=float16"}),
           {}, {.model = &model});
  EXPECT_EQ(recompute_word(made.plan.recompute), "selective:core_attn+mlp");
  EXPECT_EQ(made.plan.cuda_graphs, CudaGraphs::of_blocks());
  EXPECT_TRUE(made.plan.overlap_grad_reduce);
  EXPECT_EQ(made.plan.dtype, Dtype::fp16);
  EXPECT_THAT(names(made.remarks), Contains("warp-drive"));
  const auto fusion = std::ranges::find(made.arguments, "no-rope-fusion", &JobArgument::name);
  EXPECT_NE(fusion, made.arguments.end());
}

// What of the actor and its model no plan says is named; what is of rollouts and rewards is not.
TEST(YamlJobs, VerlsOtherSettingsAreNamed) {
  const Model model = llama_like(8);
  const Job made =
      read(verl_settings({}).substr(0, verl_settings({}).size() - 1) +
               " actor_rollout_ref.actor.kl_loss_coef=0.1 actor_rollout_ref.model.use_fused_kernels"
               "=True actor_rollout_ref.rollout.temperature=0.9\n",
           {}, {.model = &model});
  ASSERT_THAT(names(made.remarks), Contains("actor"));
  const std::string text = std::ranges::find(made.remarks, "actor", &Remark::name)->text;
  EXPECT_THAT(text, HasSubstr("; not in the plan: actor.kl_loss_coef model.use_fused_kernels"));
  EXPECT_EQ(text.find("temperature"), text.npos);
}

// Hydra takes a dictionary where it takes the paths in it, with and without blanks in it, and the
// name of the configuration behind a blank.
TEST(YamlJobs, VerlsDictionariesAreThePathsInThem) {
  const Model model = llama_like(8);
  const std::string settings = verl_settings({});
  const Job made = read(
      settings.substr(0, settings.size() - 1) +
          " '+actor_rollout_ref.actor.megatron.override_transformer_config={recompute_granularity:"
          "selective,recompute_modules:[core_attn,mlp]}'"
          " +actor_rollout_ref.actor.megatron.override_ddp_config='{overlap_grad_reduce: True}'"
          " 'actor_rollout_ref.actor.optim={weight_decay: 0.25, clip_grad: 0.5}'\n",
      {}, {.model = &model});
  EXPECT_EQ(recompute_word(made.plan.recompute), "selective:core_attn+mlp");
  EXPECT_TRUE(made.plan.overlap_grad_reduce);
  EXPECT_EQ(made.plan.optimizer.weight_decay, 0.25);
  EXPECT_EQ(made.plan.optimizer.clip_norm, 0.5);
  const std::string by_name =
      "python3 -m verl.trainer.main_ppo --config-name ppo_megatron_trainer "
      "data.max_prompt_length=48 data.max_response_length=80 "
      "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2\n";
  EXPECT_EQ(read(by_name, {}, {.model = &model}).plan.micro_batch_size, 2);
}

// A setting that is off, or taken away, is what the plan has where nothing is said: it is named.
TEST(YamlJobs, WhatIsOffIsNamed) {
  const Model model = llama_like(8);
  const std::string settings = verl_settings({"override_transformer_config.batch_p2p_comm=False"});
  const Job verl = read(settings.substr(0, settings.size() - 1) +
                            " ~actor_rollout_ref.actor.megatron.sequence_parallel\n",
                        {}, {.model = &model});
  const auto said = [](const Job& job, const char* name) {
    const auto found = std::ranges::find(job.remarks, name, &Remark::name);
    return found == job.remarks.end() ? std::string() : found->text;
  };
  EXPECT_THAT(said(verl, "off"), HasSubstr("batch-p2p-comm"));
  EXPECT_THAT(said(verl, "actor"),
              HasSubstr("not in the plan: ~actor_rollout_ref.actor.megatron.sequence_parallel"));
  const std::string swift = "NPROC_PER_NODE=8 megatron pt --model some/model --max_length 128";
  const Job packed = read(swift + " --packing true\n", {}, {.model = &model});
  EXPECT_THAT(said(packed, "max-length"), HasSubstr("as packing makes them"));
  EXPECT_EQ(said(packed, "off"), "");
  const Job open = read(swift + " --packing false --padding_free false\n", {}, {.model = &model});
  EXPECT_THAT(said(open, "max-length"), HasSubstr("as long as it may become"));
  EXPECT_THAT(said(open, "off"), HasSubstr("packing padding-free"));
}

// Megatron gathers tokens by default, verl sends them all to all.
TEST(YamlJobs, VerlsExpertsExchangeAllToAll) {
  Model model = llama_like(8);
  for (Layer& layer : model.layers) {
    auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr) continue;
    block->experts = 4;
    block->experts_per_token = 2;
  }
  const auto dispatch = [&](std::vector<std::string> settings) {
    settings.push_back("expert_model_parallel_size=2");
    return read(verl_settings(settings), {}, {.model = &model}).plan.expert_dispatch;
  };
  EXPECT_EQ(dispatch({}), ExpertDispatch::alltoall);
  EXPECT_EQ(dispatch({"override_transformer_config.moe_token_dispatcher_type=flex"}),
            ExpertDispatch::once);
}

// Megatron-Bridge's adapters by verl's names: beside all products, or each of its own. The name of
// its other engines is none of Megatron's. A block that predicts where both words are on.
TEST(YamlJobs, VerlsAdaptersAndPrediction) {
  const Model model = llama_like(8);
  const auto with = [](const std::string& words) {
    const std::string job = verl_settings({});
    std::string all = job.substr(0, job.size() - 1);
    for (const char* of = " actor_rollout_ref.model."; const std::string& word : words_of(words))
      all += of + word;
    return all + "\n";
  };
  const auto plan = [&](const std::string& words) {
    return read(with(words), {}, {.model = &model}).plan;
  };
  EXPECT_EQ(plan("lora.rank=0").lora.rank, 0);
  EXPECT_EQ(plan("lora.rank=32 lora.alpha=64").lora, (Adapters{32, all_products(), 0}));
  EXPECT_EQ(plan("lora.rank=4 lora.dropout=0.1 lora.target_modules=[linear_q,linear_fc2]").lora,
            (Adapters{4, parse_products("linear_q+linear_fc2").value(), 0.1}));
  EXPECT_TRUE(
      plan("lora.rank=4 lora.type=canonical_lora").lora.targets.has(BlockProduct::linear_fc1_gate));
  EXPECT_THAT(refusal(with("lora_rank=32"), {}, {.model = &model}),
              HasSubstr("32: Megatron's adapters are actor_rollout_ref.model.lora.rank"));
  EXPECT_THAT(refusal(with("lora.rank=32 lora.type=dora"), {}, {.model = &model}),
              HasSubstr("lora.type: dora: "));
  EXPECT_EQ(plan("mtp.enable=True").prediction_layers, 0);
  EXPECT_EQ(plan("mtp.enable=True mtp.enable_train=True").prediction_layers, 1);
}

// A dynamic micro-batch has so many tokens on each device, and a context-parallel group of two
// shares its samples: 2 x 512 tokens are 8 samples of 128. Without the group they are 4.
TEST(YamlJobs, VerlsDynamicBatchIsOfTheWholeContextGroup) {
  const Model model = llama_like(8);
  const std::string dynamic =
      "actor_rollout_ref.actor.use_dynamic_bsz=True "
      "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=512";
  const Job one = read(verl_job(dynamic), {}, {.model = &model});
  EXPECT_EQ(one.plan.micro_batch_size, 4);
  EXPECT_THAT(names(one.remarks), Contains("use-dynamic-batch-size"));
  const Job two =
      read(verl_job(dynamic + " actor_rollout_ref.actor.megatron.context_parallel_size=2"), {},
           {.model = &model});
  EXPECT_EQ(two.plan.cp, 2);
  EXPECT_EQ(two.plan.micro_batch_size, 8);
}

// None of these texts is Megatron's own script, so none is edited; a plan that came of one is
// exported as any other plan is, for no line of it was kept.
TEST(YamlJobs, AreExportedAndNotPatched) {
  const Model model = llama_like(8);
  for (const std::string& text :
       {verl_settings({}),
        std::string("NPROC_PER_NODE=8 megatron sft --model some/model --max_length 128\n")}) {
    Job job = read(text, {}, {.model = &model});
    EXPECT_THAT(job.lines, testing::IsEmpty());
    job.plan.job = {.tool = "megatron", .devices = job.plan.devices(), .lines = job.lines};
    const ResolvedPlan plan = loaded(job.plan, job.model);
    EXPECT_EQ(patch_own_megatron_job(plan), std::nullopt);
    EXPECT_THAT(export_megatron(plan, {}).files.front().text, HasSubstr("--num-layers 8 "));
    EXPECT_EQ(complaint([&] {
                static_cast<void>(patch_megatron(plan, {text, "job.sh"}));
              }),
              "job.sh: is a job in another tool's words, or a list that Megatron printed: --patch "
              "edits scripts with Megatron's own arguments");
  }
}

}  // namespace
}  // namespace weir::yaml_jobs_test
