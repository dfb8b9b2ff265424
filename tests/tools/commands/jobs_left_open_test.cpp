// What a job's file leaves open: options fill it, the environment and the standard input are read
// for it, and what the file says is not contradicted.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/tools/commands/jobs_command.hpp"

namespace weir::jobs_left_open_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// What the file leaves open is filled, and what it says is contradicted; devices are the cluster's
// where nothing says how many.
TEST_F(JobsCommand, OptionsFillWhatAJobLeavesOpen) {
  write("sizes.sh",
        "ARGS=( --num-layers 4 --hidden-size 32 --num-attention-heads 4 "
        "--vocab-size 256 )\n");
  const std::string plan = "plan --from megatron sizes.sh -o plan.json --seq-length 16 -b 2 ";
  const CommandResult made = weir(plan + "-M 4 --gpus 2 --dtype bf16 --recompute full");
  ASSERT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, HasSubstr("K1 dp2 M4 b2 1f1b fused full"));
  EXPECT_THAT(made.out,
              HasSubstr("sizes.sh: not said, taken as Megatron takes it: attention fused"));
  EXPECT_THAT(weir(plan + "--global-batch-size 16 --gpus 2 --attention unfused").out,
              HasSubstr("K1 dp2 M4 b2 1f1b\n"));
  EXPECT_THAT(weir(plan + "-M 1 --cluster dgx-h100:1").out, HasSubstr("K1 dp8 M1 b2"));
  const CommandResult few = weir(plan + "-M 1 --cluster dgx-h100:1 --gpus 16");
  EXPECT_EQ(few.code, 4);
  EXPECT_THAT(few.out, HasSubstr("the job needs 16 devices, the cluster has 8"));
  write("says.sh",
        "train.py --num-layers 4 --hidden-size 32 --num-attention-heads 4 "
        "--vocab-size 256 --seq-length 32 --micro-batch-size 1\n");
  const CommandResult other = weir("plan --from megatron says.sh -o plan.json --seq-length 16");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.out,
              HasSubstr("seq-length 16 contradicts says.sh, which says --seq-length 32"));
}

// Adapters that a section switches off are in no doubt; those that are on are, in every forecast.
TEST_F(JobsCommand, AdaptersThatAreOffAreInNoDoubt) {
  const auto imported = [&](const std::string& enabled) {
    write("job.toml",
          "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n[training]\nseq_len = 64\n"
          "local_batch_size = 1\n[lora]\nenabled = " +
              enabled + "\nrank = 8\n");
    return weir("plan --from torchtitan job.toml -o adapters.json").out;
  };
  EXPECT_THAT(imported("true"), HasSubstr("in doubt: lora.enabled is not in the plan"));
  EXPECT_THAT(imported("false"), Not(HasSubstr("in doubt")));
}

// DeepSpeed's file says neither a length nor, where it leaves that open, a format; others do.
TEST_F(JobsCommand, WhatAFileLeavesOpenIsGiven) {
  write("ds.json", R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": "auto"}})");
  write("long.json",
        R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64,
            "max_position_embeddings": 131072})");
  const std::string read_in = "-q plan --from deepspeed ds.json --model long.json ";
  const std::string job = read_in + "-o ds.plan.json ";
  ASSERT_EQ(weir(job + "--seq-length 4096 --dtype bf16").code, 0);
  EXPECT_THAT(read("ds.plan.json"),
              testing::AllOf(HasSubstr("\"seq_length\": 4096"), HasSubstr("\"dtype\": \"bf16\"")));
  // The plan's folder may not be there yet: its model's path starts from it all the same.
  ASSERT_EQ(weir(read_in + "--seq-length 4096 --dtype bf16 -o new/ds.plan.json").code, 0);
  EXPECT_EQ(weir("-q simulate new/ds.plan.json").code, 0);
  EXPECT_EQ(weir(job + "--seq-length 4096 --dtype bf61").code, 2);
  EXPECT_EQ(weir(job + "--seq-length 4096 --recompute full").code, 0);
  EXPECT_EQ(weir(job + "--recompute full").code, 3);  // 131,072 positions need a length
  EXPECT_EQ(weir("-q plan --from megatron job.args --seq-length 8 -o plan.json").code, 2);
}

// torchtitan's registry, one of several configurations; compiled or not, the stack is another.
TEST_F(JobsCommand, ARegistrysConfigurationIsNamed) {
  const std::string body =
      "(compiled=False):\n    return Trainer.Config(model_spec=model_registry('debugmodel'),\n"
      "        activation_checkpoint=None, compile=CompileConfig(enable=compiled),\n"
      "        training=TrainingConfig(local_batch_size=4, seq_len=64))\n";
  write("config_registry.py",
        "def llama3" + body + "def two():\n    return llama3(compiled=True)\n");
  EXPECT_THAT(weir("plan --from torchtitan config_registry.py --dp 1 -o titan.json").out,
              HasSubstr("config: has 2, say which: llama3, two"));
  for (const auto& [config, stack] :
       {std::pair("llama3", "torchtitan-eager"), {"two", "torchtitan"}}) {
    const CommandResult made = weir(
        "-q --json plan --from torchtitan config_registry.py --dp 1 "
        "-o titan.json --config " +
        std::string(config));
    ASSERT_EQ(made.code, 0) << made.out;
    EXPECT_EQ(nlohmann::json::parse(made.out.substr(made.out.find("{\n")))["stack"], stack);
  }
  EXPECT_EQ(weir("plan job.args --config one").code, 2);
}

TEST_F(JobsCommand, AScriptMayStandOnTheStandardInputAndReadTheEnvironment) {
  write("train.sh",
        "torchrun --nproc_per_node 8 --nnodes $JOB_NODES pretrain_gpt.py $(cat args) "
        "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
        "--vocab-size 256 --micro-batch-size 1 --global-batch-size 16 "
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4\n");
  const CommandResult lacks = weir("plan --from megatron - -o plan.json < train.sh");
  EXPECT_EQ(lacks.code, 0) << lacks.out;
  const CommandResult made =
      weir("--json plan --from megatron - -o plan.json < train.sh", "JOB_NODES=4");
  const CommandResult few = weir("plan --from megatron - -o plan.json < train.sh", "JOB_NODES=1");
  ASSERT_EQ(made.code, 0) << made.out;
  const auto json = nlohmann::json::parse(made.out.substr(made.out.find("{\n")));
  EXPECT_EQ(json["arguments"][0]["name"], "global-batch-size");
  EXPECT_EQ(json["arguments"][0]["fate"], "carried");
  EXPECT_EQ(few.code, 3);
  EXPECT_EQ(few.out,
            "weir: standard input: devices: 8 is no multiple of tp 4 times cp 1 times pp 4; --gpus "
            "says on how many devices the job runs\n");
}

// Jobs in words of tools that start Megatron take values of the environment by their names: what is
// there is nobody's but the user's, so no byte of it is in what is written.
TEST_F(JobsCommand, NoValueOfTheEnvironmentIsInAPlanOfATranslatedJob) {
  write("model.json", R"({"model_type":"gpt2","n_embd":64,"n_head":4,"n_layer":4,"vocab_size":256,)"
                      R"("n_positions":256})");
  write("swift.sh",
        "export WANDB_API_KEY=$WANDB_API_KEY\n"
        "NPROC_PER_NODE=8 megatron sft --model $MODEL --tensor_model_parallel_size 2 "
        "--micro_batch_size 2 --global_batch_size 32 --max_length 128 --save $OUT/x "
        "--wandb-key=$WANDB_API_KEY --hf_token $WANDB_API_KEY --warp_drive $OUT $MORE\n");
  const std::string actor = "actor_rollout_ref.actor.";
  write("verl.sh",
        "python3 -m verl.trainer.main_ppo data.max_prompt_length=48 data.max_response_length=80 "
        "trainer.logger=$WANDB_API_KEY actor_rollout_ref.model.path=$MODEL " +
            actor + "ppo_mini_batch_size=16 " + actor + "ppo_micro_batch_size_per_gpu=2 " + actor +
            "kl_loss_coef=$OUT " + actor + "megatron.dist_checkpointing_path=$OUT +" + actor +
            "megatron.override_transformer_config.hf_token=$WANDB_API_KEY\n");
  const std::string sizes =
      "      num_layers: 4\n      hidden_size: 64\n      num_attention_heads: 4\n"
      "      seq_length: 64\n      max_position_embeddings: 64\n      vocab_size: 256\n"
      "      micro_batch_size: 2\n";
  write("primus.yaml",
        "modules:\n  pre_trainer:\n    framework: megatron\n    overrides:\n" + sizes +
            "      wandb_key: ${WANDB_API_KEY}\n      hf_token: ${WANDB_API_KEY:none}\n"
            "      save: ${OUT:.}/x\n      warp_drive: ${OUT}\n      data_path: [\"${OUT}\"]\n");
  write("flagscale.yaml",
        "system:\n  tensor_model_parallel_size: 1\nmodel:\n" + sizes +
            "      wandb_key: ${oc.env:WANDB_API_KEY}\n      hf_token: $WANDB_API_KEY\n"
            "      save: $OUT/x\n      warp_drive: ${OUT}\n      data_path: [\"$OUT\", '$MORE']\n");
  for (const std::string job : {"swift.sh", "verl.sh", "primus.yaml", "flagscale.yaml"}) {
    const bool script = job.ends_with(".sh");
    const CommandResult made =
        weir("plan --from megatron " + job + (script ? " --model model.json" : "") +
                 " --gpus 8 -o plan.json",
             "WANDB_API_KEY=hunter2 OUT=/data/hunter3 MODEL=hunter4 MORE='--foo hunter5'");
    ASSERT_EQ(made.code, 0) << job << made.out;
    // FlagScale's names are Hydra's to fill in, and are not here.
    const bool fills_in = job != "flagscale.yaml";
    EXPECT_EQ(made.out.find("script: taken from the environment: ") != std::string::npos, fills_in)
        << job;
    EXPECT_THAT(read("plan.json"), HasSubstr("\"hf-token\""));
    for (const char* file : {"plan.json", "plan.model.json"})
      EXPECT_THAT(read(file), Not(HasSubstr("hunter"))) << job;
    EXPECT_EQ(weir("export plan.json --to megatron -o there").code, 0) << job;
    const CommandResult patch = weir("export plan.json --patch " + job);
    EXPECT_EQ(patch.code, 3);
    EXPECT_EQ(patch.out, "weir: " + job +
                             ": is a job in another tool's words, or a list that Megatron printed: "
                             "--patch edits scripts with Megatron's own arguments\n");
  }
}

TEST_F(JobsCommand, OptionsAndFileDoNotContradictEachOther) {
  EXPECT_EQ(weir("plan --from megatron job.args").code, 2);
  const CommandResult both = weir("plan --from megatron job.args -K 4 -o plan.json");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.out, HasSubstr("--pp contradicts --from"));
  EXPECT_EQ(weir("plan --from abacus job.args -o plan.json").code, 2);
  EXPECT_EQ(weir("plan job.args --gpus 4").code, 3);  // a job, and no model
  EXPECT_EQ(weir("plan --from megatron none.args -o plan.json").code, 3);
}

}  // namespace
}  // namespace weir::jobs_left_open_test
