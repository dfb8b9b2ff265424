// Plans as other tools' files. What an exporter writes, its reader reads back as the same plan.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/export.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/plan_json.hpp"
#include "plan/model/hugging_face/hugging_face.hpp"
#include "plan/model/readers/layer_list.hpp"
#include "plan/words/error.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/job/script.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch/patch.hpp"

namespace weir::export_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Job back(const ResolvedPlan&, const ExportedJob& job) {
  return read_megatron_job(job.files.front().text, "megatron.sh", {});
}

TEST(MegatronExport, ReadsBackAsTheSamePlan) {
  const ResolvedPlan plan = loaded(example(), llama_like(8));
  const ExportedJob job = export_megatron(plan, {});
  EXPECT_THAT(job.files.front().text,
              HasSubstr("--pipeline-model-parallel-layout 'Et|t*3|t*3|tL'"));
  EXPECT_THAT(job.files.front().text, HasSubstr("torchrun --nproc_per_node 8 --nnodes 2"));
  EXPECT_THAT(names(job.not_carried), ElementsAre("data"));
  const Job read = back(plan, job);
  EXPECT_EQ(read.plan, plan.plan);
  EXPECT_EQ(to_layer_list(read.model), to_layer_list(plan.model));
  EXPECT_TRUE(read.remarks.empty()) << read.remarks.front().name;
}

// Every way in which devices share, and selective re-materialisation.
TEST(MegatronExport, SharingReadsBack) {
  for (const int zero : {1, 2, 3}) {
    Plan p = example();
    p.sequence_parallel = p.overlap_tensor_parallel = p.overlap_grad_reduce = true;
    p.overlap_param_gather = zero < 3;
    if (zero == 2) p.rank_order = RankOrder::tp_cp_pp_dp;
    p.zero = zero;
    p.dtype = zero == 2 ? Dtype::fp16 : Dtype::bf16;
    p.recompute = {.mode = RecomputeMode::selective};
    const ResolvedPlan plan = loaded(p, llama_like(8));
    const ExportedJob job = export_megatron(plan, {});
    // Of sharded gradients and weights under a pipeline it is said that nobody tries them.
    EXPECT_EQ(names(job.not_carried).size(), zero > 1 ? 2U : 1U) << zero;
    EXPECT_THAT(job.files.front().text, HasSubstr("--tp-comm-overlap"));
    EXPECT_EQ(back(plan, job).plan, p) << zero;
    EXPECT_TRUE(back(plan, job).remarks.empty()) << zero;
  }
}

// The plan's stages hold blocks 1, 2-4, 5-7 and 8. The first two of each, all of the shorter ones,
// are `block` of 2; every second of a rank (1, 5, 6, 7 and 2, 3, 4, 8) is torchtitan's option 2. A
// stage at once is a chunk as long as the longest. What has no word is named.
// Megatron's layout has words for an empty stage, between the first, which has the embedding, and
// the last, which has the head; torchtitan and DeepSpeed have none.
TEST(MegatronExport, EmptyStagesReadBack) {
  Plan p = example();
  p.boundaries = {2, 2, 8};
  const ResolvedPlan plan = loaded(p, llama_like(8));
  const ExportedJob job = export_megatron(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr("'Et||t*6|tL'"));
  EXPECT_EQ(back(plan, job).plan, p);
  EXPECT_THROW(static_cast<void>(export_torchtitan_registry(plan, {})), InputError);
  for (const std::vector<int>& ends : std::vector<std::vector<int>>{{0, 2, 8}, {2, 8, 11}}) {
    p.boundaries = ends;
    EXPECT_THROW(static_cast<void>(export_megatron(loaded(p, llama_like(8)), {})), InputError);
  }
}

TEST(MegatronExport, RebuiltLayersReadBack) {
  Plan p = example();
  const auto exported = [&](const char* word) {
    p.recompute = parse_recompute_word(word).value();
    return export_megatron(loaded(p, llama_like(8)), {});
  };
  ExportedJob job = exported("1-3,5-6,8");
  EXPECT_THAT(job.files.front().text, testing::AllOf(HasSubstr("--recompute-method block "),
                                                     HasSubstr("--recompute-num-layers 2 ")));
  EXPECT_THAT(names(job.not_carried), ElementsAre("data"));
  EXPECT_EQ(back(loaded(p, llama_like(8)), job).plan, p);
  job = exported("2");
  EXPECT_THAT(names(job.not_carried), ElementsAre("recompute", "data"));
  EXPECT_EQ(back(loaded(p, llama_like(8)), job).plan.recompute, (Recompute{RecomputeMode::full}));
  job = exported("0-10");  // the embedding, the norm and the head too
  EXPECT_THAT(names(job.not_carried), ElementsAre("recompute", "data"));
  EXPECT_EQ(back(loaded(p, llama_like(8)), job).plan.recompute, (Recompute{RecomputeMode::full}));
  job = exported("full:4");
  EXPECT_THAT(job.files.front().text, testing::AllOf(HasSubstr("--recompute-method uniform "),
                                                     HasSubstr("--recompute-num-layers 4 ")));
  EXPECT_THAT(names(job.not_carried), ElementsAre("data"));
  EXPECT_EQ(back(loaded(p, llama_like(8)), job).plan, p);
  job = exported("stage");
  EXPECT_THAT(job.files.front().text, HasSubstr("--recompute-num-layers 3 "));
  EXPECT_THAT(names(job.not_carried), ElementsAre("recompute", "recompute_placement", "data"));
}

// PyTorch's script is told the layers one by one.
TEST(TorchExport, RebuiltLayersAreListed) {
  Plan p = example();
  const auto script = [&](const char* word) {
    p.recompute = parse_recompute_word(word).value();
    return export_torch(loaded(p, llama_like(8)), {}).files.front().text;
  };
  EXPECT_THAT(script("full"), HasSubstr("RECOMPUTE = [1, 2, 3, 4, 5, 6, 7, 8]  "));
  EXPECT_THAT(script("0,3-4"), HasSubstr("RECOMPUTE = [0, 3, 4]  "));
  EXPECT_THAT(script("none"), HasSubstr("RECOMPUTE = []  "));
  EXPECT_THAT(script("stage"), HasSubstr("RECOMPUTE = \"stage\"  "));
}

TEST(MegatronExport, EvenStagesNeedNoLayout) {
  Plan even = example();
  even.boundaries = {3, 5, 7};
  const ResolvedPlan plan = loaded(even, llama_like(8));
  const ExportedJob job = export_megatron(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr("--num-layers-per-virtual-pipeline-stage 2 "));
  EXPECT_EQ(back(plan, job).plan, even);
}

TEST(MegatronExport, FusedAttentionReadsBack) {
  Plan fused = example();
  fused.attention = AttentionKind::fused;
  const ResolvedPlan plan = loaded(fused, llama_like(8));
  const ExportedJob job = export_megatron(plan, {});
  EXPECT_THAT(job.files.front().text, HasSubstr("--attention-backend fused "));
  EXPECT_EQ(back(plan, job).plan, fused);
}

TEST(MegatronExport, ZeroBubbleAndSgdReadBack) {
  for (const char* schedule : {"zb-h1", "zb-h2", "zb-v", "v-half", "v-min"}) {
    Plan p = example();
    p.schedule = schedule;
    p.vpp = schedule[0] == 'v' || schedule[3] == 'v' ? 2 : 1;
    p.boundaries = p.vpp == 2 ? std::vector<int>{3, 5, 7} : std::vector<int>{5};
    p.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.1, .momentum = 0.9};
    p.recompute = {};
    const ResolvedPlan plan = loaded(p, llama_like(8));
    const ExportedJob job = export_megatron(plan, {.allowed = {.fork = true}});
    EXPECT_THAT(names(job.not_carried), ElementsAre("fork", "data")) << schedule;
    EXPECT_EQ(back(plan, job).plan, p) << schedule;
  }
}

// Norm and rate are carried there and back; Megatron's decay of weights is AdamW's alone.
TEST(MegatronExport, TheOptimizersCourseReadsBack) {
  Plan p = example();
  for (const RateSchedule& rate : {RateSchedule{}, RateSchedule{.warmup_iters = 9},
                                   RateSchedule{10, 200, DecayStyle::linear, 0},
                                   RateSchedule{0, 200, DecayStyle::cosine, 1e-5}}) {
    p.optimizer.clip_norm = rate.min_lr > 0 ? 0 : 1.5;
    p.optimizer.rate = rate;
    const ResolvedPlan plan = loaded(p, llama_like(8));
    EXPECT_EQ(back(plan, export_megatron(plan, {})).plan.optimizer, p.optimizer);
  }
  p.optimizer.kind = OptimizerKind::adam;
  EXPECT_THAT(names(export_megatron(loaded(p, llama_like(8)), {}).not_carried),
              Contains("optimizer"));
}

// Base and scaling of rotary positions; what has no word is named.
TEST(MegatronExport, RotaryAnglesReadBack) {
  const RotaryAngles llama{500000, RotaryScaling::llama3, 32, 1, 4, 8192};
  for (const RotaryAngles& angles :
       {RotaryAngles{500000}, RotaryAngles{10000, RotaryScaling::linear, 4}, llama}) {
    Model model = llama_like(8);
    for (Layer& layer : model.layers) {
      if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->angles = angles;
    }
    const ResolvedPlan plan = loaded(example(), model);
    const ExportedJob job = export_megatron(plan, {});
    EXPECT_THAT(names(job.not_carried), ElementsAre("data"));
    EXPECT_EQ(to_layer_list(back(plan, job).model), to_layer_list(plan.model));
    EXPECT_THAT(export_torchtitan_registry(plan, {}).not_carried.front().text,
                HasSubstr(angles.theta > 10000 ? "rope_theta=500000.0" : "rope_theta=10000.0"));
  }
  Model other = llama_like(8);
  for (Layer& layer : other.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->angles.theta = 10000.5;
  }
  EXPECT_THAT(names(export_megatron(loaded(example(), other), {}).not_carried),
              ElementsAre("model", "data"));
}

// What a Hugging Face config says of positions and norms: out as arguments, and back as it was.
TEST(MegatronExport, AConfigsRopeAndNormReadBack) {
  const auto job_of = [](const std::string& more) {
    const Model model = hugging_face_model(
        parse_json(R"({"model_type":"llama","hidden_size":64,"num_attention_heads":8,
                    "num_key_value_heads":2,"num_hidden_layers":8,"intermediate_size":192,
                    "max_position_embeddings":8192,"vocab_size":1024,"tie_word_embeddings":false)" +
                       more + "}",
                   "config.json"),
        "config.json");
    Plan plan = example();
    plan.seq_length = model.seq_length;
    const ResolvedPlan resolved = loaded(plan, model);
    const ExportedJob job = export_megatron(resolved, {});
    EXPECT_EQ(to_layer_list(back(resolved, job).model), to_layer_list(resolved.model)) << more;
    EXPECT_THAT(names(job.not_carried), ElementsAre("data")) << more;
    return job.files.front().text;
  };
  EXPECT_THAT(job_of(R"(,"rms_norm_eps":1e-5,"rope_theta":500000.0)"),
              testing::AllOf(HasSubstr("--normalization RMSNorm"),
                             HasSubstr("--norm-epsilon 1e-05"), HasSubstr("--rotary-base 500000")));
  EXPECT_THAT(
      job_of(R"(,"rms_norm_eps":1e-6,"rope_theta":500000.0,"rope_scaling":{
                   "rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,
                   "high_freq_factor":4.0,"original_max_position_embeddings":8192})"),
      testing::AllOf(HasSubstr("--use-rope-scaling"), HasSubstr("--rope-scaling-factor 32")));
  EXPECT_THAT(job_of(R"(,"rope_scaling":{"type":"linear","factor":4.0})"),
              HasSubstr("--rotary-seq-len-interpolation-factor 4"));
}

// The user's script, with arguments that no reader understands, and the plan that a search found:
// what the plan decides changes by as few arguments as say it, learning rates stay, and the changed
// script is the plan.
constexpr const char* kScript =
    "#!/bin/bash\nM=\"--num-layers 8 --hidden-size 64 --ffn-hidden-size 192 --kv-channels 16\"\n"
    "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py $M --num-attention-heads 8 "
    "--group-query-attention --num-query-groups 2 --swiglu --disable-bias-linear "
    "--normalization RMSNorm --norm-epsilon 1e-6 --position-embedding-type rope "
    "--attention-dropout 0 --hidden-dropout 0 --untie-embeddings-and-output-weights "
    "--seq-length 128 --max-position-embeddings 128 --vocab-size 1024 --init-method-std 0.006 "
    "--bf16 --lr 2e-5 --micro-batch-size 1 --global-batch-size 48 --warp-drive 9 "
    "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
    "--recompute-granularity selective --use-distributed-optimizer --rotary-base 10000\n";

TEST(MegatronPatch, ChangesWhatThePlanDecides) {
  const auto change = [](const Patch& patch) {
    std::vector<std::string> lines;
    for (const ArgumentChange& c : patch.changes)
      lines.push_back(c.name + ": " + c.before.value_or("-") + " > " + c.after.value_or("-"));
    return lines;
  };
  const ResolvedPlan plan = loaded(example(), llama_like(8));
  const Patch patch = patch_megatron(plan, {kScript, "run.sh"});
  EXPECT_THAT(
      change(patch),
      ElementsAre("attention-backend: - > unfused", "micro-batch-size: 1 > 3",
                  "num-virtual-stages-per-pipeline-rank: 2 > -",
                  "pipeline-model-parallel-layout: - > Et|t*3|t*3|tL",
                  "pipeline-model-parallel-size: 4 > 2", "recompute-granularity: selective > full",
                  "recompute-method: - > uniform", "recompute-num-layers: - > 1",
                  "tensor-model-parallel-size: - > 2", "use-distributed-optimizer:  > -"));
  EXPECT_EQ(patch.devices_before, 8);
  EXPECT_EQ(patch.devices, 16);
  EXPECT_THAT(names(patch.remarks), ElementsAre());
  // What is the script's already needs no change, however the script says it.
  const Job own = read_megatron_job(kScript, "run.sh", {});
  EXPECT_THAT(change(patch_megatron(loaded(own.plan, own.model), {kScript, "run.sh"})),
              ElementsAre());
  Plan gpipe = own.plan;
  gpipe.vpp = 1;
  gpipe.boundaries = {3, 5, 7};
  gpipe.schedule = "gpipe";
  PatchedScript script{kScript, "run.sh"};
  EXPECT_THROW(static_cast<void>(patch_megatron(loaded(gpipe, own.model), script)), InputError);
  script.allowed.other_schedule = true;
  EXPECT_THAT(names(patch_megatron(loaded(gpipe, own.model), script).remarks),
              ElementsAre("schedule"));
  Plan seven = example();
  seven.boundaries = {2, 5, 7};
  try {
    static_cast<void>(patch_megatron(loaded(seven, llama_like(7)), {kScript, "run.sh"}));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "run.sh: --num-layers: 8 here, 7 in the plan's model");
  }
}

// The whole job goes out: what no plan has a word for, and what nobody understands.
TEST(MegatronPatch, TheChangedScriptHasAllArguments) {
  const ResolvedPlan plan = loaded(example(), llama_like(8));
  const Patch patch = patch_megatron(plan, {kScript, "run.sh"});
  const ExportedJob job = patched_megatron(patch, plan, {});
  const std::string& text = job.files.front().text;
  for (const char* line :
       {"--warp-drive 9 ", "--lr 2e-5 ", "--bf16 ", "--tensor-model-parallel-size 2 ",
        "torchrun --nproc_per_node 8 --nnodes 2 "})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_EQ(text.find("--nproc-per-node"), std::string::npos);
  const Job read = read_megatron_job(text, "megatron.sh", {});
  Plan wanted = plan.plan;
  wanted.optimizer = read.plan.optimizer;  // the script's own
  wanted.seed = read.plan.seed;
  EXPECT_EQ(to_json(read.plan), to_json(wanted));
  EXPECT_EQ(to_layer_list(read.model),
            to_layer_list(read_megatron_job(kScript, "run.sh", {}).model));
}

TEST(MegatronExport, AModelWithoutPositionsIsSaid) {
  Model model = llama_like(8);
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->rotary = false;
  }
  EXPECT_THAT(names(export_megatron(loaded(example(), model), {}).not_carried),
              ElementsAre("model", "data"));
}

TEST(MegatronExport, SaysWhatRunsInstead) {
  Plan p = example();
  p.schedule = "gpipe";
  p.vpp = 1;
  p.boundaries = {
      10};  // the head alone on its stage: layers 0 embedding, 1-8 blocks, 9 norm, 10 head
  p.recompute = {.mode = RecomputeMode::stage, .except_last = true};
  p.slots = 5;
  EXPECT_THROW(static_cast<void>(export_megatron(loaded(p, llama_like(8)), {})), InputError);
  const ExportOptions allowed{.allowed = {.other_schedule = true}};
  const ExportedJob job = export_megatron(loaded(p, llama_like(8)), allowed);
  EXPECT_THAT(names(job.not_carried),
              ElementsAre("boundaries", "schedule", "recompute", "recompute_microbatches",
                          "recompute_placement", "slots", "data"));
  EXPECT_THAT(job.files.front().text, HasSubstr("'Et*8|L'"));
}

TEST(TorchExport, CarriesOrderPlacementAndPartition) {
  Plan p = example();
  p.schedule = "zb-v";
  const ExportedJob job = export_torch(loaded(p, llama_like(8)), {});
  EXPECT_THAT(job.files[0].text, HasSubstr("BOUNDS = [0, 2, 5, 8, 11]"));
  EXPECT_THAT(job.files[0].text, HasSubstr("RANK_OF_STAGE = [0, 1, 1, 0]"));
  EXPECT_THAT(job.files[0].text, HasSubstr("  1-8       transformer, "));
  EXPECT_THAT(job.files[0].text, Not(testing::ContainsRegex("@[A-Z]+@"))) << "a mark was left";
  EXPECT_THAT(job.files[1].text, HasSubstr("0F0"));
  p.schedule = "chimera";
  p.vpp = 1;
  p.boundaries = {5};
  EXPECT_THROW(static_cast<void>(export_torch(loaded(p, llama_like(8)), {})), InputError);
}

TEST(DeepSpeedExport, CarriesThePartition) {
  Plan p = example();
  p.vpp = 1;
  p.boundaries = {6};
  p.schedule = "zb-h1";
  ExportOptions options{.gpus_per_node = 4, .allowed = {.other_schedule = true}};
  const ExportedJob job = export_deepspeed(loaded(p, llama_like(8)), options);
  EXPECT_THAT(job.files[0].text, HasSubstr("\"train_batch_size\": 48"));
  EXPECT_THAT(job.files[0].text, HasSubstr("\"gradient_accumulation_steps\": 4"));
  EXPECT_THAT(job.files[1].text, HasSubstr("PARTS = [0, 6, 11]"));
  EXPECT_THAT(job.files[1].text, HasSubstr("CHECKPOINT_INTERVAL = 1 "));
  EXPECT_EQ(job.files[1].text.find('@'), std::string::npos) << "a mark was left";
  EXPECT_THAT(job.launch, HasSubstr("--num_gpus 4 --num_nodes 4"));
  EXPECT_THAT(names(job.not_carried), ElementsAre("recompute", "schedule", "tp", "messages"));
  p.recompute.at_a_time = 3;
  EXPECT_THAT(export_deepspeed(loaded(p, llama_like(8)), options).files[1].text,
              HasSubstr("CHECKPOINT_INTERVAL = 3 "));
  p.recompute = {.mode = RecomputeMode::stage};
  EXPECT_THAT(export_deepspeed(loaded(p, llama_like(8)), options).files[1].text,
              HasSubstr("CHECKPOINT_INTERVAL = 6 "));
  p.vpp = 2;
  p.boundaries = {3, 5, 7};
  p.schedule = "interleaved-1f1b";
  EXPECT_THROW(static_cast<void>(export_deepspeed(loaded(p, llama_like(8)), options)), InputError);
}

TEST(Export, ATimedModelHasNoArguments) {
  Model timed;
  for (int i = 0; i < 4; ++i) timed.layers.push_back({"layer", TimedShape{}, "conv"});
  Plan p = example();
  p.vpp = 1;
  p.boundaries = {2};
  p.schedule = "1f1b";
  const ResolvedPlan plan = loaded(p, timed);
  EXPECT_THROW(static_cast<void>(export_megatron(plan, {})), InputError);
  EXPECT_THROW(static_cast<void>(export_torchtitan_registry(plan, {})), InputError);
  EXPECT_THAT(export_torch(plan, {}).files[0].text,
              HasSubstr("  0-3       conv, 0 parameters each"));
}

// A layer's label is its author's text: between the quotes of a docstring it may not end them, nor
// begin an escape, nor stand for a mark of the script.
TEST(Export, LabelsDoNotRunAsCode) {
  Model timed;
  const std::string label = "conv\"\"\"\nimport os\\ $(id) 'x' @COUNT@ \t";
  for (int i = 0; i < 4; ++i) timed.layers.push_back({"layer", TimedShape{}, label});
  Plan p = example();
  p.vpp = 1;
  p.boundaries = {2};
  p.schedule = "1f1b";
  const ResolvedPlan plan = loaded(p, timed);
  for (const std::string& script :
       {export_torch(plan, {}).files[0].text, export_deepspeed(plan, {}).files[1].text}) {
    EXPECT_THAT(script, HasSubstr(R"(conv\"\"\"\x0aimport os\\ $(id) 'x' @COUNT@ \x09, 0 param)"));
    EXPECT_EQ(script.find("\nimport os\\"), std::string::npos);
  }
}

}  // namespace
}  // namespace weir::export_test
