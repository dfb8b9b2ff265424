// Tools that give Megatron's arguments in words of their own: FlagScale's and Primus's YAML,
// scripts of ms-swift, verl and slime. Files are written here as those tools have them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "plan/job/summary.hpp"
#include "plan/model/limits.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/megatron/import.hpp"

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
  std::string titan = job;
  titan.replace(titan.find("megatron"), 8, "torchtitan");
  EXPECT_THAT(refusal(titan, folder),
              HasSubstr("torchtitan: of Primus's jobs Megatron's are read"));
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
  EXPECT_THAT(refusal(job + " --tuner_type lora\n", {}, {.model = &model}),
              HasSubstr("--tuner-type: lora: adapters of ms-swift are not read"));
  EXPECT_THAT(refusal("megatron rlhf --rlhf_type dpo --model a\n", {}, {.model = &model}),
              HasSubstr("not modelled: pt and sft are read"));
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

// slime's arguments are Megatron's, but it always trains in bf16 with a sharded optimizer, and its
// devices are the actor's.
TEST(YamlJobs, SlimesDefaults) {
  const std::string job =
      "python3 train.py --actor-num-nodes 2 --actor-num-gpus-per-node 4 --hf-checkpoint /m "
      "--rollout-batch-size 32 --n-samples-per-prompt 8 --global-batch-size 64 --num-layers 8 "
      "--hidden-size 512 --num-attention-heads 8 --vocab-size 32000 --use-dynamic-batch-size "
      "--max-tokens-per-gpu 9216 --position-embedding-type rope\n";
  EXPECT_THAT(refusal(job), HasSubstr("--seq-length: is missing"));
  const Job made = read(job, {}, {.given = {.seq_length = 1024, .micro_batch_size = 2}});
  EXPECT_EQ(summary(made.plan), "K1 dp8 zero1 M4 b2 1f1b fused");
  EXPECT_EQ(made.plan.dtype, Dtype::bf16);
  EXPECT_THAT(names(made.remarks), Contains("use-dynamic-batch-size"));
}

}  // namespace
}  // namespace weir::yaml_jobs_test
