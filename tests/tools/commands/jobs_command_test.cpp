// Jobs of other tools through the command, into plans that are forecast; files of tools that are
// not read are named.
// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/commands/jobs_command.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace weir::jobs_command_test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(JobsCommand, AMegatronJobBecomesAPlanThatIsForecast) {
  const CommandResult made = weir("plan --from megatron job.args --dp 2 -o out/plan.json");
  ASSERT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(
      made.out,
      HasSubstr("weir: job.args: warp-drive: not understood: it may change time or memory\n"));
  EXPECT_THAT(made.out, HasSubstr("weir: job.args: overlap-moe-expert-parallel-comm: "));
  EXPECT_THAT(made.out, HasSubstr("out/plan.json: K2 dp2 M4 b2 1f1b [3]\nout/plan.model.json\n"));
  EXPECT_EQ(weir("simulate out/plan.json").code, 0);
}

// With -q nothing but errors is on stderr, and stdout has what it has.
TEST_F(JobsCommand, QuietLeavesErrorsAlone) {
  const CommandResult quiet = weir("-q plan --from megatron job.args --dp 2 -o out/plan.json");
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.out, "out/plan.json: K2 dp2 M4 b2 1f1b [3]\nout/plan.model.json\n");
  const CommandResult wrong = weir("-q plan --from megatron none.args -o out/plan.json");
  EXPECT_EQ(wrong.code, 3);
  EXPECT_THAT(wrong.out, HasSubstr("weir: none.args: "));
}

// Each sequence's devices by its length: the job says the tokens of one, the user the lengths, and
// a plan by hand has both.
TEST_F(JobsCommand, DevicesThatFollowLengths) {
  write("lengths.args",
        "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
        "--max-position-embeddings 16\n--vocab-size 256 --make-vocab-size-divisible-by 1 "
        "--micro-batch-size 1 --global-batch-size 8 --context-parallel-size 2 --lr 1e-4 --sft\n"
        "--hybrid-context-parallel --max-seqlen-per-dp-cp-rank 8 --calculate-per-token-loss\n");
  const std::string job = "plan --from megatron lengths.args --dp 2 -o plan.json";
  const CommandResult made = weir(job + " --lengths 4,16");
  ASSERT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, HasSubstr("lengths 4 to 16, packed, a device up to 8 tokens"));
  const CommandResult forecast = weir("simulate plan.json --cluster dgx-h100");
  EXPECT_EQ(forecast.code, 0) << forecast.out;
  EXPECT_THAT(forecast.out, HasSubstr("each sequence alone on 1 to 2 of 4 devices"));
  EXPECT_THAT(weir("explain plan.json --cluster dgx-h100").out,
              HasSubstr("context parallelism: cp 2 for all"));
  refuses(job, 3, "lengths.args: hybrid-context-parallel: each sequence's devices follow its");
  refuses(job + " --lengths 4,16 --dynamic-cp 4", 2, "--dynamic-cp contradicts --from");
  const std::string by_hand =
      "plan plan.model.json --seq-length 16 --cp 2 --dynamic-cp 8 -o o.json";
  refuses(by_hand, 2, "--dynamic-cp needs --lengths");
  refuses(by_hand + " --lengths 4,16 --recompute auto", 2, "--dynamic-cp goes with --recompute");
  EXPECT_EQ(weir(by_hand + " --lengths 4,16").code, 0);
  // A search beside it has such plans too, as the plan in use is one.
  const std::string sweep =
      "sweep plan.model.json --seq-length 16 --gpus 4 --cluster dgx-h100 -K 1 --tp 1 --top 200 "
      "--global-batch-size 8";
  const auto followers = [&](const std::string& more) {
    int count = 0;
    const auto found = nlohmann::json::parse(weir("--json " + sweep + more).out);
    for (const auto& row : found["plans"])
      count += row["plan"].contains("lengths") && row["plan"]["lengths"].contains("dynamic_cp");
    return count;
  };
  EXPECT_EQ(followers(" --lengths 4,16"), 0);
  EXPECT_GT(followers(" --lengths 4,16 --dynamic-cp 8"), 0);
  EXPECT_GT(followers(" --lengths 4,16 --baseline plan.json"), 0);
  refuses(sweep + " --dynamic-cp 8", 2, "--dynamic-cp needs --lengths");
  refuses(sweep + " --dynamic-cp 8 --lengths 4,16 --rows cut", 2, "goes with packed rows");
  refuses(sweep + " --dynamic-cp 2 --lengths 4,16", 2,
          "--dynamic-cp 2: the longest sequence has 16 tokens, above the 8 of 4 devices");
}

// The job's own model file is the sweep's model; what the options leave open is the job's: 16
// samples a step.
TEST_F(JobsCommand, ASweepRanksTheJobAmongItsPlans) {
  ASSERT_EQ(weir("plan --from megatron job.args --dp 2 -o plan.json").code, 0);
  const std::string sweep =
      "sweep plan.model.json -K 1,2 --dp 1,2 --schedule 1f1b --baseline plan.json";
  const CommandResult text = weir(sweep + " --top 1");
  ASSERT_EQ(text.code, 0) << text.out;
  EXPECT_THAT(text.out, HasSubstr(" (baseline)\nbaseline plan.json: place "));
  const auto json = nlohmann::json::parse(weir("--json " + sweep).out);
  const auto& baseline = json["baseline"];
  EXPECT_EQ(baseline["plan"]["boundaries"], nlohmann::json({3}));
  const auto step = [](const nlohmann::json& row) {
    return row["forecast"]["step_time_s"].get<double>();
  };
  EXPECT_DOUBLE_EQ(baseline["ratio_to_best"], step(baseline) / step(json["plans"][0]));
  EXPECT_GE(baseline["ratio_to_best"], 1);
  EXPECT_GE(baseline["place"], 1);
  for (const auto& row : json["plans"]) {
    const auto& p = row["plan"];
    EXPECT_EQ(p["microbatches"].get<int>() * p["micro_batch_size"].get<int>() * p["dp"].get<int>(),
              16);
  }
  const CommandResult other = weir(sweep + " --global-batch-size 8");
  EXPECT_EQ(other.code, 3);
  EXPECT_EQ(
      other.out,
      "weir: plan.json: microbatches: b M D = 2 4 2 makes a mini-batch of 16; the sweep's is 8\n");
  write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":4,"n_layer":3,"vocab_size":32,)"
                     R"("n_positions":16})");
  EXPECT_THAT(
      weir("sweep tiny.json -K 1 --baseline plan.json").out,
      HasSubstr("weir: plan.json: model: is not tiny.json: 7 layers, the sweep's model has 6\n"));
}

// One measured step of a job anchors the costs of the software that the job names, and more nodes
// than the cluster's file has are taken as elsewhere. By another name it would be another factor.
TEST_F(JobsCommand, AMeasuredStepIsOfTheJobsSoftware) {
  ASSERT_EQ(weir("plan --from megatron job.args --dp 2 -o plan.json").code, 0);
  const std::string calibrate =
      "-q --json calibrate --cluster dgx-a100 --measured plan.json=1s -o costs.json";
  const auto by_job = nlohmann::json::parse(weir(calibrate).out);
  EXPECT_EQ(by_job["anchor"]["stack"], "megatron-core");
  const auto named = nlohmann::json::parse(weir(calibrate + " --stack megatron-core").out);
  EXPECT_EQ(named["anchor"]["factors"], by_job["anchor"]["factors"]);
  const auto other = nlohmann::json::parse(weir(calibrate + " --stack nanotron").out);
  EXPECT_NE(other["anchor"]["factors"], by_job["anchor"]["factors"]);
  ASSERT_EQ(weir("plan plan.model.json -K 2 -M 1 --dp 1024 -o large.json").code, 0);
  const std::string large = "calibrate --cluster dgx-a100 --measured large.json=1s -o costs.json";
  EXPECT_EQ(weir("-q " + large).code, 3);
  EXPECT_EQ(weir("-q " + large + " --gpus 2048").code, 0);
}

// Megatron-DeepSpeed's jobs are Megatron's arguments and one flag more, and other software.
TEST_F(JobsCommand, AJobOfMegatronDeepSpeedHasItsStack) {
  write("ds.sh", "deepspeed --num_gpus 4 pretrain_gpt.py " + read("job.args") + " --deepspeed\n");
  const CommandResult made = weir("plan --from megatron ds.sh -o ds.json");
  ASSERT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, HasSubstr("weir: stack: megatron-deepspeed-2022"));
  EXPECT_THAT(weir("-q --json simulate ds.json --cluster dgx-a100").out,
              HasSubstr("\"stack\": \"megatron-deepspeed-2022\""));
}

// Inputs of rebuilt blocks of 2 samples of 16 tokens, 32 numbers in fp32: 4096 bytes. In 1F1B the
// first of two ranks has two micro-batches of two blocks between their F and B, the second one: 6
// inputs, of two replicas 12, on one node. Copies that are waited for add to the step.
TEST_F(JobsCommand, CheckpointsOfMegatronDeepSpeedAreWithTheHost) {
  const auto forecast = [&](const std::string& more) {
    write("ds.sh", "deepspeed --num_gpus 4 pretrain_gpt.py " + read("job.args") +
                       " --deepspeed --checkpoint-activations "
                       "--deepspeed-activation-checkpointing" +
                       more + "\n");
    EXPECT_EQ(weir("-q plan --from megatron ds.sh --dp 2 -o ds.json").code, 0);
    return nlohmann::json::parse(weir("-q --json simulate ds.json --cluster dgx-h100").out);
  };
  const auto on_device = forecast(""), with_host = forecast(" --checkpoint-in-cpu");
  EXPECT_FALSE(on_device.contains("host"));
  EXPECT_EQ(with_host["host"]["activations_bytes"], 12 * 4096);
  EXPECT_GT(with_host["step_time_s"], on_device["step_time_s"]);
}

// Tools whose jobs nobody here reads, whatever they are given as, and those that start Megatron and
// are read as its jobs.
TEST_F(JobsCommand, OtherToolsAreNamed) {
  for (const auto& [tool, text] : std::vector<std::pair<std::string, std::string>>{
           {"ms-swift", "swift sft --model a/b --max_length 2048\n"},
           {"OpenRLHF", "deepspeed --module openrlhf.cli.train_sft --pretrain a/b\n"}}) {
    write("job", text);
    for (const char* from : {"megatron", "nemo"})
      EXPECT_EQ(weir("plan --from " + std::string(from) + " job -o plan.json").out,
                "weir: job: is a job of " + tool + ", which is not read\n");
  }
  for (const auto& [tool, text] : std::vector<std::pair<std::string, std::string>>{
           {"Primus",
            "modules:\n  pre_trainer:\n    framework: megatron\n    overrides:\n"
            "      tensor_model_parallel_size: 1\n"},
           {"FlagScale", "system:\n  tensor_model_parallel_size: 2\nmodel:\n  num_layers: 2\n"},
           {"FlagScale", "experiment:\n  exp_name: x\n  runner:\n    backend: torchrun\n"},
           {"ms-swift", "NPROC_PER_NODE=8 megatron sft --model a/b --max_length 2048\n"},
           {"verl", "actor_rollout_ref:\n  model:\n    path: a/b\n"}}) {
    write("job", text);
    EXPECT_EQ(weir("plan --from nemo job -o plan.json").out,
              "weir: job: is a job of " + tool + ": --from megatron reads it\n");
  }
}

// Modules that no plan has a word for and that are rebuilt doubt each forecast in its first line.
TEST_F(JobsCommand, WhatAPlanLacksIsInTheVerdict) {
  write("job.sh",
        "train.py --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
        "--vocab-size 256 --micro-batch-size 1 --recompute-granularity selective "
        "--recompute-modules layernorm mhc --memory-hidden-size 64\n");
  ASSERT_EQ(weir("plan --from megatron job.sh --gpus 1 -o plan.json").code, 0);
  const std::string out = weir("simulate plan.json").out;
  EXPECT_THAT(out, HasSubstr("; in doubt: the job's memory-hidden-size, recompute-modules is not "
                             "in the plan\n"));
}

// The tool's name, where its file is given as another's or as a model.
TEST_F(JobsCommand, AFileOfAnotherToolIsRefusedByItsName) {
  write("neox.yml", "{\"pipe_parallel_size\": 2, \"model_parallel_size\": 1,}");
  write("ds.json", R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}})");
  write("config_registry.py", "from torchtitan.trainer import Trainer\n");
  EXPECT_EQ(weir("plan --from megatron neox.yml -o plan.json").out,
            "weir: neox.yml: is a job of GPT-NeoX: --from neox reads it\n");
  EXPECT_EQ(
      weir("model ds.json").out,
      "weir: ds.json: is a job of DeepSpeed, expected a model: the importer deepspeed reads it\n");
  EXPECT_EQ(weir("plan --from torchtitan config_registry.py -o plan.json").out,
            "weir: config_registry.py: config: has no function that returns a Trainer.Config\n");
  // Whatever it is given as.
  write("axolotl.yml", "base_model: a/b\ndatasets:\n  - path: c\n");
  for (const char* from : {"nemo", "neox", "megatron", "torchtitan", "deepspeed"}) {
    EXPECT_EQ(weir("plan --from " + std::string(from) + " axolotl.yml -o plan.json").out,
              "weir: axolotl.yml: is a job of axolotl, which is not read\n");
  }
  EXPECT_EQ(weir("model axolotl.yml").out,
            "weir: axolotl.yml: is a job of axolotl, expected a model\n");
  // Where a plan is wanted, the way to one is said.
  for (const char* command : {"simulate", "explain", "run"}) {
    EXPECT_EQ(weir(command + std::string(" ds.json")).out,
              "weir: ds.json: is a job of DeepSpeed: make a plan of it, as weir plan --from "
              "deepspeed ds.json -o plan.json\n");
    EXPECT_EQ(weir(command + std::string(" axolotl.yml")).out,
              "weir: axolotl.yml: is a job of axolotl, which is not read\n");
  }
  const CommandResult made = weir("plan --from deepspeed ds.json --gpus 2 -o plan.json");
  EXPECT_EQ(made.code, 3);
  EXPECT_THAT(made.out, HasSubstr("has no model"));
}

// Of four ranks, zb-v needs 4 receive slots an edge, dualpipev 3, and so does an order by hand: its
// file is one of theirs.
TEST_F(JobsCommand, AJobsOrderTakesTheReceiveSlotsItNeeds) {
  const std::string job =
      "[model]\nflavor = '8B'\n[training]\nlocal_batch_size = 8\nseq_len = 128\n[parallelism]\n"
      "pipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = 1\n"
      "pipeline_parallel_schedule";
  ASSERT_EQ(weir("schedule zb-v -K 4 -M 8 --csv by-hand.csv").code, 0);
  write("zb-v.toml", job + " = 'ZBVZeroBubble'\n");
  write("dualpipev.toml", job + " = 'DualPipeV'\n");
  write("by-hand.toml",
        job + " = 'ZBVZeroBubble'\n" + "pipeline_parallel_schedule_csv = 'by-hand.csv'\n");
  write("1f1b.toml", job + " = '1F1B'\n");
  for (const auto& [name, slots] :
       {std::pair("zb-v", 4), {"dualpipev", 3}, {"by-hand", 4}, {"1f1b", 2}}) {
    const CommandResult made =
        weir(fmt::format("plan --from torchtitan {0}.toml --gpus 4 -o {0}.json", name));
    ASSERT_EQ(made.code, 0) << made.out;
    EXPECT_THAT(read(fmt::format("{}.json", name)), HasSubstr(fmt::format("\"slots\": {}", slots)));
    const auto said =
        HasSubstr(fmt::format("slots: {} receive slots an edge: with 2 {}", slots, name));
    if (slots > 2) {
      EXPECT_THAT(made.out, said);
    } else {
      EXPECT_THAT(made.out, Not(HasSubstr("receive slots")));
    }
  }
  EXPECT_THAT(weir("plan --from torchtitan zb-v.toml --gpus 4 --slots 2 -o two.json").out,
              HasSubstr("would deadlock with 2 receive slots"));
}

// A schedule file for another K: the plan is refused, and the model of an earlier one stays as it
// was.
TEST_F(JobsCommand, ARefusedJobLeavesEarlierFilesUntouched) {
  ASSERT_EQ(weir("plan --from megatron job.args -o plan.json").code, 0);
  const std::string plan = read("plan.json"), model = read("plan.model.json");
  write("one.csv", "0F0,0B0\n");
  write("job.toml",
        "[model]\nflavor = '8B'\n[training]\nlocal_batch_size = "
        "1\n[parallelism]\npipeline_parallel_degree = 2\n"
        "pipeline_parallel_schedule = 'PipelineScheduleSingle'\npipeline_parallel_schedule_csv = "
        "'one.csv'\n");
  const CommandResult refused = weir("plan --from torchtitan job.toml -o plan.json");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.out,
              HasSubstr("one.csv: is for K = 1, 1 stages and M = 1; the plan says 2, 2 and 1\n"));
  EXPECT_EQ(read("plan.json"), plan);
  EXPECT_EQ(read("plan.model.json"), model);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 5)
      << "a draft was left";
}

// One replica has nothing to reduce: what its script says of it is named, as no search has it.
TEST_F(JobsCommand, OverlapOfOneReplicaIsNamed) {
  write("one.args", read("job.args") + "--overlap-grad-reduce\n");
  constexpr const char* kSaid = "overlap-grad-reduce: one replica reduces nothing";
  EXPECT_THAT(weir("plan --from megatron one.args --dp 1 -o one.json").out, HasSubstr(kSaid));
  EXPECT_THAT(weir("plan --from megatron one.args --dp 2 -o two.json").out,
              testing::Not(HasSubstr(kSaid)));
}

// A size that a recipe has not is none that the plan lacks.
TEST_F(JobsCommand, WhatARecipeLeavesUnsetDoubtsNothing) {
  write("recipe.py",
        "from megatron.bridge.training.config import ConfigContainer\n\n"
        "def small_config() -> ConfigContainer:\n    cfg = _pretrain_common()\n"
        "    cfg.model = GPTModelProvider(seq_length=64, num_layers=4, hidden_size=64,\n"
        "        num_attention_heads=4, position_embedding_type=\"rope\", vocab_size=128,\n"
        "        virtual_pipeline_model_parallel_size=None, recompute_modules=None)\n"
        "    return cfg\n");
  const CommandResult made = weir("plan --from nemo recipe.py --gpus 8 -o plan.json");
  ASSERT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, Not(HasSubstr("in doubt")));
}

}  // namespace
}  // namespace weir::jobs_command_test
