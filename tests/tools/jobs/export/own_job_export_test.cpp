// The job that a plan was read from goes out again: whole, and changed where the plan is another.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/plan_json.hpp"
#include "plan/model/hugging_face/hugging_face.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"
#include "tools/jobs/toml/change.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::own_job_export_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// As `weir plan --from` keeps it.
ResolvedPlan kept(const char* tool, Job job) {
  job.plan.job = {.tool = tool, .devices = job.plan.devices(), .lines = job.lines};
  return loaded(job.plan, job.model);
}

// DeepSeek's kind of job: latent attention, shared experts and a first block without experts, all
// the script's own.
constexpr const char* kDeepSeek =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 8 --ffn-hidden-size 256\n"
    "--multi-latent-attention --q-lora-rank 32 --kv-lora-rank 16 --qk-head-dim 8\n"
    "--qk-pos-emb-head-dim 4 --v-head-dim 8 --position-embedding-type rope --swiglu\n"
    "--disable-bias-linear --normalization RMSNorm --num-experts 8 --moe-layer-freq "
    "'([0]*1+[1]*3)'\n--moe-ffn-hidden-size 32 --moe-router-topk 2\n"
    "--moe-shared-expert-intermediate-size 32 --moe-router-enable-expert-bias\n"
    "--seq-length 32 --vocab-size 1024 --micro-batch-size 1 --global-batch-size 8 --bf16\n"
    "--pipeline-model-parallel-size 2 --nproc-per-node 2\n";

TEST(OwnMegatronJob, NeedsNoWordsForItsModel) {
  ResolvedPlan plan = kept("megatron", read_megatron_job(kDeepSeek, "job.args", {}));
  const auto same = patch_own_megatron_job(plan);
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->changes.empty());
  EXPECT_TRUE(same->remarks.empty());
  EXPECT_THAT(same->lines, Contains("--moe-layer-freq '([0]*1+[1]*3)'"));
  EXPECT_THAT(same->lines, Not(Contains(HasSubstr("nproc"))));
  Plan smaller = plan.plan;
  smaller.microbatches = 4;
  const Patch patch =
      patch_megatron(loaded(smaller, plan.model), {kDeepSeek, "job.args", {.gpus = 2}});
  ASSERT_EQ(patch.changes.size(), 1U);
  EXPECT_EQ(patch.changes[0].name, "global-batch-size");
  EXPECT_EQ(patch.changes[0].after, "4");
}

// The optimizer's numbers are the plan's, a decay that the plan has no word for stays, and a plan
// of another model has no job.
TEST(OwnMegatronJob, ChangesWithThePlan) {
  const std::string text = std::string(kDeepSeek) + "--lr-decay-style WSD --adam-beta2 0.95\n";
  const Job job = read_megatron_job(text, "job.args", {});
  Plan other = kept("megatron", job).plan;
  other.optimizer.beta2 = 0.9;
  other.seed = 7;
  other.dp = 3;  // of ranks 2: on 6 devices
  other.microbatches = 2;
  other.zero = 1;
  const auto patch = patch_own_megatron_job(loaded(other, job.model));
  ASSERT_TRUE(patch);
  EXPECT_THAT(patch->lines,
              testing::IsSupersetOf({"--adam-beta2 0.9", "--seed 7", "--lr-decay-style WSD",
                                     "--global-batch-size 6", "--use-distributed-optimizer"}));
  EXPECT_TRUE(patch->remarks.empty()) << patch->remarks[0].name;
  Plan moved = example();
  moved.job = other.job;
  EXPECT_FALSE(patch_own_megatron_job(loaded(moved, llama_like(8))));
  other.job.lines = {"--num-layers four"};
  EXPECT_THROW(static_cast<void>(patch_own_megatron_job(loaded(other, job.model))), InputError);
}

// Qwen2-MoE's shared experts with their gate have arguments.
TEST(MegatronExport, SharedExpertsReadBack) {
  Model model = llama_like(4);
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) {
      block->experts = 8;
      block->experts_per_token = 2;
      block->shared_ffn = 96;
      block->shared_gate = true;
      block->router_bias = true;
    }
  }
  Plan p = example();
  p.vpp = 1;
  p.boundaries = {3};
  p.schedule = "1f1b";
  p.sequence_parallel = true;
  const ResolvedPlan plan = loaded(p, model);
  const ExportedJob job = export_megatron(plan, {});
  // How the weights of those with a bias are scaled no plan has.
  EXPECT_THAT(names(job.not_carried), ElementsAre("model", "data"));
  EXPECT_EQ(to_layer_list(read_megatron_job(job.files[0].text, "megatron.sh", {}).model),
            to_layer_list(model));
  EXPECT_THROW(static_cast<void>(export_torchtitan_toml(plan, {})), InputError);
}

constexpr const char* kTitan =
    "# ours\n[model]\nname = \"llama3\"\nflavor = \"8B\"  # the small one\n\n"
    "[optimizer]\nlr = 3.0e-4\n[training]\nlocal_batch_size = 8\nseq_len = 8192\n"
    "dataset = \"c4\"\n[parallelism]\npipeline_parallel_degree = 2\n"
    "pipeline_parallel_schedule = \"1F1B\"\ndata_parallel_shard_degree = 4\n"
    "[activation_checkpoint]\nmode = \"full\"\n[warp]\ndrive = [1, 2]\n";

TEST(OwnTorchtitanJob, StaysByteForByte) {
  ResolvedPlan plan = kept("torchtitan", read_torchtitan_job(kTitan, "job.toml", {.gpus = 8}));
  const ExportedJob same = export_torchtitan_toml(plan, {});
  EXPECT_EQ(same.files[0].text, kTitan);
  EXPECT_TRUE(same.whole_job);
  EXPECT_TRUE(same.not_carried.empty());
  // Rows that were there change, others are added in their table, comments stay.
  plan.plan.optimizer.learning_rate = 1e-4;
  plan.plan.micro_batch_size = 2;
  plan.plan.recompute = {};
  const ExportedJob job = export_torchtitan_toml(loaded(plan.plan, plan.model), {});
  std::string wanted = kTitan;
  const auto put = [&wanted](const std::string& before, const std::string& after) {
    wanted.replace(wanted.find(before), before.size(), after);
  };
  put("lr = 3.0e-4", "lr = 0.0001");
  put("local_batch_size = 8", "global_batch_size = 64\nlocal_batch_size = 16");
  put("[parallelism]\n", "[parallelism]\npipeline_parallel_microbatch_size = 2\n");
  put("mode = \"full\"", "mode = \"none\"");
  // The table of the training begins with what is added to it.
  wanted.erase(wanted.find("global_batch_size = 64\n"), 23);
  put("[training]\n", "[training]\nglobal_batch_size = 64\n");
  EXPECT_EQ(job.files[0].text, wanted);
  EXPECT_TRUE(job.not_carried.empty()) << job.not_carried[0].text;
}

// A key that joins a table on one line has no line of its own: the file is written anew, and what
// that loses is named.
TEST(OwnTorchtitanJob, LostCommentsAreNamed) {
  std::string text = kTitan;
  const std::string rows = "[training]\nlocal_batch_size = 8\nseq_len = 8192\ndataset = \"c4\"\n";
  text.erase(text.find(rows), rows.size());
  text.insert(0, "training = {local_batch_size = 8, seq_len = 8192, dataset = \"c4\"}\n");
  ResolvedPlan plan = kept("torchtitan", read_torchtitan_job(text, "job.toml", {.gpus = 8}));
  EXPECT_EQ(export_torchtitan_toml(plan, {}).files[0].text, text);
  plan.plan.microbatches *= 2;
  const ExportedJob job = export_torchtitan_toml(loaded(plan.plan, plan.model), {});
  EXPECT_EQ(job.files[0].text.find("# ours"), std::string::npos);
  EXPECT_THAT(job.files[0].text, HasSubstr("dataset = 'c4'"));
  EXPECT_THAT(names(job.not_carried), ElementsAre("job"));
}

// A registry's configuration is no TOML of 0.2: what it says goes out in the exporter's own words.
TEST(OwnTorchtitanJob, ARegistryIsNotKept) {
  const Job job = read_torchtitan_job(
      "def one():\n    return Trainer.Config(model_spec=model_registry('debugmodel'),\n"
      "        training=TrainingConfig(local_batch_size=4, seq_len=64))\n"
      "from torchtitan.models.llama3 import model_registry\n",
      "config_registry.py", {.dp = 1});
  EXPECT_TRUE(job.lines.empty());
  EXPECT_FALSE(export_torchtitan_toml(kept("torchtitan", job), {}).whole_job);
}

// A value that grows a line, a key that goes, a table that comes, and one that has no line to stand
// in, which is written anew.
TEST(ChangedToml, IsEditedWhereItDiffers) {
  const std::string before = "[a]\nx = 1\ny = 2\n", after = "[a]\nx = [3,\n4]\n[b]\nz = \"s\"\n";
  EXPECT_EQ(changed_toml("[a]\nx = 1 # one\ny = 2\nown = 0.10\n", before, after, "f").text,
            "[a]\nx = [3,\n4] # one\nown = 0.10\n\n[b]\nz = \"s\"\n");
  const ChangedToml anew = changed_toml("a = {x = 1, y = 2, own = 5}\n", before, after, "f");
  EXPECT_EQ(anew.text, "a = { own = 5, x = [ 3, 4 ] }\n\n[b]\nz = 's'\n");
  EXPECT_FALSE(anew.in_place);
  EXPECT_TRUE(changed_toml("", before, before, "f").in_place);
  EXPECT_EQ(changed_toml("", before, before, "f").text, "");
  EXPECT_THROW(static_cast<void>(changed_toml("x = ", before, after, "f")), InputError);
}

constexpr const char* kDeepSpeed =
    R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 1, "own": [1]},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95]}},
        "warp": {"drive": "auto"}})";

TEST(OwnDeepSpeedJob, KeepsWhatNoPlanHas) {
  const Model model = llama_like(8);
  const ResolvedPlan plan =
      kept("deepspeed", read_deepspeed_job(kDeepSpeed, "ds.json", {.model = &model}));
  const auto config = [](const ResolvedPlan& p) {
    return parse_json(export_deepspeed(p, {}).files[0].text, "ds_config.json");
  };
  EXPECT_EQ(config(plan), parse_json(kDeepSpeed, "ds.json"));
  EXPECT_TRUE(export_deepspeed(plan, {}).whole_job);
  Plan other = plan.plan;
  other.microbatches = 2;
  other.zero = 0;
  other.optimizer.learning_rate = 2e-4;
  Json wanted = parse_json(kDeepSpeed, "ds.json");
  wanted["train_batch_size"] = 8;
  wanted["gradient_accumulation_steps"] = 2;
  wanted["zero_optimization"]["stage"] = 0;
  wanted["optimizer"]["params"]["lr"] = 2e-4;
  EXPECT_EQ(config(loaded(other, model)), wanted);
}

// The script that is written trains by the pipeline engine, of which ZeRO 1 is the most.
TEST(DeepSpeedExport, ZeroIsInTheFile) {
  Plan p = example();
  p.vpp = 1;
  p.tp = 1;
  p.boundaries = {6};
  p.schedule = "1f1b";
  p.recompute = {};
  for (const int zero : {0, 1, 2}) {
    p.zero = zero;
    const ExportedJob job = export_deepspeed(loaded(p, llama_like(8)), {});
    EXPECT_THAT(job.files[0].text, HasSubstr(zero == 0 ? "\"stage\": 0" : "\"stage\": 1"));
    EXPECT_EQ(testing::Value(names(job.not_carried), Contains("zero")), zero == 2);
  }
}

// A plan's file carries the job, a line a line.
TEST(PlanFile, KeepsItsJob) {
  Plan plan = example();
  plan.model_path = "m.json";
  plan.job = {"megatron", 8, {"a", "b"}, {"--lr 1", "--name 'a b'"}};
  const std::string text = to_json(plan);
  EXPECT_THAT(
      text,
      HasSubstr(
          "  \"job\": {\n    \"tool\": \"megatron\",\n    \"devices\": 8,\n    \"left_out\": [\n"
          "      \"a\",\n      \"b\"\n    ],\n    \"lines\": [\n"
          "      \"--lr 1\",\n      \"--name 'a b'\"\n    ]\n  }\n}\n"));
  EXPECT_EQ(parse_plan(text, "plan.json"), plan);
  EXPECT_EQ(to_json(parse_plan(text, "plan.json")), text);
  plan.job.tool = "";
  EXPECT_EQ(to_json(plan).find("\"job\""), std::string::npos);
  std::string none = text;
  none.replace(none.find("\"megatron\""), 10, "\"\"");
  EXPECT_THROW(static_cast<void>(parse_plan(none, "plan.json")), InputError);
}

}  // namespace
}  // namespace weir::own_job_export_test
