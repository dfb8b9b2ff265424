// The trainers' tables: of each class of failure that trainers were seen to fail by, the smallest
// plan and the line that mends it, or the row that refuses it.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "plan/text/strict_json.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tests/tools/jobs/trainer_plans.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/torchtitan/import.hpp"
#include "tools/jobs/torchtitan/words.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir::trainers_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using trainer_plans::megatron;
using trainer_plans::pipeline;
using trainer_plans::refusal;
using trainer_plans::small;
using trainer_plans::with_experts;

// Layers 0 embedding, 1 to 8 blocks, 9 norm, 10 head: a stage from 9 to 10 is the norm alone. One
// of the head alone is written with the norm.
TEST(MegatronRows, NoStageIsTheNormAlone) {
  Plan plan = pipeline(4, 1, 4);
  plan.boundaries = {5, 9, 10};
  EXPECT_THAT(refusal(plan),
              AllOf(HasSubstr("boundaries: [5,9,10]: Megatron-LM's last stage has the final norm"),
                    HasSubstr("row megatron/stage-of-the-norm")));
  plan.boundaries = {3, 6, 10};
  EXPECT_THAT(megatron(plan), HasSubstr("--pipeline-model-parallel-layout"));
}

// Llama 3.2 1B's head is its embedding: torchtitan's main has it on one stage, 0.2 not at all.
TEST(TorchtitanRows, ATiedHead) {
  Model model = decoder_model(*torchtitan_llama3("1B"), 128);
  Plan plan = pipeline(2, 1, 4);
  plan.boundaries = {9};
  EXPECT_THAT(
      complaint([&] { static_cast<void>(export_torchtitan_registry(loaded(plan, model), {})); }),
      HasSubstr("row torchtitan/tied-pipeline"));
  plan.pp = 1;
  plan.boundaries = {};
  EXPECT_THAT(export_torchtitan_registry(loaded(plan, model), {}).files[0].text,
              HasSubstr("model_registry(\"1B\")"));
  EXPECT_THAT(
      complaint([&] { static_cast<void>(export_torchtitan_toml(loaded(plan, model), {})); }),
      HasSubstr("row torchtitan-0.2/tied-head"));
}

// Rows have names of their own, and what writes has something to write.
TEST(TrainerRows, AreNamedAndSourced) {
  for (const Trainer trainer : {Trainer::megatron, Trainer::fork, Trainer::torchtitan,
                                Trainer::torchtitan_0_2, Trainer::torch, Trainer::deepspeed}) {
    std::set<std::string_view> names;
    for (const TrainerRow& row : rows_of(trainer)) {
      EXPECT_TRUE(names.insert(row.name).second) << to_string(trainer) << " " << row.name;
      EXPECT_FALSE(row.says.empty() || row.source.empty()) << row.name;
      const bool writes = row.kind == RowKind::needs || row.kind == RowKind::states ||
                          row.kind == RowKind::environment;
      EXPECT_EQ(writes, !row.argument.empty()) << row.name;
    }
  }
}

// A search asks before it proposes: 10 ranks do not deal 12 micro-batches into rounds of 10.
TEST(TrainerRows, AreAskedForAPlan) {
  Plan plan = pipeline(2, 1, 4);
  EXPECT_EQ(refused_by(Trainer::megatron, {plan}), nullptr);
  plan.schedule = "zb-h1";
  EXPECT_EQ(refused_by(Trainer::megatron, {plan})->name, "own-schedules");
  EXPECT_EQ(refused_by(Trainer::fork, {plan}), nullptr);
  EXPECT_EQ(refused_by(Trainer::megatron, {plan}, {.other_schedule = true}), nullptr);
  Plan chunks = pipeline(2, 2, 4);
  chunks.pp = 10;
  chunks.microbatches = 12;
  EXPECT_EQ(refused_by(Trainer::megatron, {chunks})->name, "interleaved-rounds");
  chunks.microbatches = 20;
  EXPECT_EQ(refused_by(Trainer::megatron, {chunks}), nullptr);
}

// Tensor or context parallelism needs the variable at 1, FSDP anything but 1 and a format of its
// own; what is neither is as fast with it.
TEST(MegatronRows, ConnectionsAndCheckpoints) {
  Plan plan = small();
  plan.tp = 2;
  EXPECT_THAT(megatron(plan), AllOf(HasSubstr("\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\nexec "),
                                    HasSubstr("--ckpt-format torch_dist ")));
  plan.dp = 2;
  for (const int zero : {2, 3}) {
    plan.zero = zero;
    EXPECT_THAT(megatron(plan),
                AllOf(HasSubstr("\nunset CUDA_DEVICE_MAX_CONNECTIONS\nexec "),
                      HasSubstr("--ckpt-format fsdp_dtensor "), Not(HasSubstr("torch_dist"))));
  }
}

// Megatron-FSDP's own tests have no pipeline: what is written says so.
TEST(MegatronRows, ShardedPipelinesAreSaidToBeUntried) {
  Plan plan = pipeline(2, 1, 4);
  plan.dp = 2;
  plan.zero = 3;
  const auto said = [&] {
    return names(export_megatron(loaded(plan, llama_like(8)), {}).not_carried);
  };
  EXPECT_THAT(said(), Contains("zero"));
  plan.zero = 1;
  EXPECT_THAT(said(), Not(Contains("zero")));
  plan = small();
  plan.dp = 2;
  plan.zero = 3;
  EXPECT_THAT(said(), Not(Contains("zero")));
}

// Orders that are not there are refused by their row, and written where that is asked for.
TEST(MegatronRows, Schedules) {
  Plan plan = pipeline(2, 1, 4);
  for (const char* schedule : {"zb-h1", "gpipe", "1f1b-eager"}) {
    plan.schedule = schedule;
    EXPECT_THAT(refusal(plan),
                AllOf(HasSubstr(std::string("plan: schedule: ") + schedule + ": Megatron-LM has"),
                      HasSubstr("(row megatron/own-schedules): --allow-other-schedule ")));
    EXPECT_THAT(megatron(plan, {.other_schedule = true}), Not(HasSubstr("zero-bubble")));
  }
  plan.schedule = "zb-h1";
  EXPECT_THAT(megatron(plan, {.fork = true}), HasSubstr("--zero-bubble-max-pending-backward 2 "));
  // Stages of 3, 1, 1 and 3 blocks in a V: the fork deals 2 each.
  Plan v = pipeline(2, 2, 4);
  v.schedule = "zb-v";
  EXPECT_THAT(megatron(v, {.fork = true}), HasSubstr("--zero-bubble-v-schedule "));
  v.boundaries = {4, 5, 6};
  EXPECT_THAT(refusal(v, {.fork = true}), HasSubstr("(row megatron-fork/equal-stages)"));
  // One rank has no order.
  EXPECT_THAT(megatron([] {
                Plan one = small();
                one.schedule = "gpipe";
                return one;
              }()),
              Not(HasSubstr("zero-bubble")));
}

// M = 3 of K = 2: groups of 2 would leave one micro-batch, which is below K; groups of 3 do not.
// M = 10 of K = 4: groups of 4 would leave two, groups of 5 none.
TEST(MegatronRows, RoundsOfMicroBatches) {
  EXPECT_THAT(megatron(pipeline(2, 2, 4)), Not(HasSubstr("microbatch-group")));
  EXPECT_THAT(refusal(pipeline(2, 2, 3)), HasSubstr("microbatches: M = 3, K = 2: "));
  EXPECT_THAT(refusal(pipeline(2, 2, 3)), HasSubstr("(row megatron/interleaved-rounds)"));
  const auto groups = [](int ranks, int m) {
    return megatron(pipeline(ranks, 2, m), {.other_schedule = true});
  };
  const std::string argument = "--microbatch-group-size-per-virtual-pipeline-stage ";
  EXPECT_THAT(groups(2, 3), HasSubstr(argument + "3 "));
  EXPECT_THAT(groups(4, 10), HasSubstr(argument + "5 "));
  EXPECT_THAT(refusal(pipeline(4, 2, 3), {.other_schedule = true}),
              HasSubstr("(row megatron/interleaved-few)"));
  // A V's chunks would be interleaved there; the fork has the V itself.
  Plan v = pipeline(4, 2, 3);
  v.schedule = "zb-v";
  EXPECT_THAT(refusal(v, {.other_schedule = true}), HasSubstr("(row megatron/interleaved-few)"));
  EXPECT_THAT(megatron(v, {.fork = true}), HasSubstr("--zero-bubble-v-schedule "));
}

// On one rank chunks are one stage of 8 blocks.
TEST(MegatronRows, OneRankHasNoChunks) {
  Plan plan = pipeline(1, 2, 4);
  const ExportedJob job = export_megatron(loaded(plan, llama_like(8)), {});
  EXPECT_THAT(names(job.not_carried), Contains("vpp"));
  EXPECT_THAT(job.files[0].text,
              AllOf(Not(HasSubstr("virtual")), Not(HasSubstr("pipeline-model-parallel-layout"))));
  EXPECT_EQ(read_megatron_job(job.files[0].text, "megatron.sh", {}).plan.vpp, 1);
}

// Megatron's default is auto, flash in practice: a plan that keeps probabilities says so.
TEST(MegatronRows, AttentionIsWritten) {
  Plan plan = small();
  EXPECT_THAT(megatron(plan), HasSubstr("--attention-backend fused "));
  plan.attention = AttentionKind::unfused;
  EXPECT_THAT(megatron(plan), HasSubstr("--attention-backend unfused "));
}

// A constant rate's warm-up of 500 iterations ends below the decay's 501, however many are trained.
TEST(MegatronRows, WarmUpEndsBeforeTheDecay) {
  Plan plan = small();
  EXPECT_THAT(megatron(plan), Not(HasSubstr("--lr-decay-iters")));
  plan.optimizer.rate.warmup_iters = 500;
  const std::string script = megatron(plan);
  EXPECT_THAT(script, HasSubstr("--lr-decay-iters 501 "));
  EXPECT_EQ(read_megatron_job(script, "megatron.sh", {}).plan.optimizer, plan.optimizer);
}

TEST(MegatronRows, Experts) {
  Plan plan = small();
  const auto script = [&](const Model& model) {
    return export_megatron(loaded(plan, model), {}).files[0].text;
  };
  EXPECT_THAT(script(with_experts(8)), AllOf(HasSubstr("--moe-grouped-gemm "),
                                             HasSubstr("--moe-token-dispatcher-type alltoall "),
                                             Not(HasSubstr("pre-softmax"))));
  Model shares = with_experts(8);
  for (Layer& layer : shares.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->router_pre_softmax = true;
  }
  const std::string before = script(shares);
  EXPECT_THAT(before, HasSubstr("--moe-router-pre-softmax "));
  EXPECT_TRUE(
      std::get<TransformerShape>(read_megatron_job(before, "megatron.sh", {}).model.layers[1].shape)
          .router_pre_softmax);
  plan.tp = 2;
  EXPECT_THAT(complaint([&] { static_cast<void>(script(with_experts(8))); }),
              HasSubstr("(row megatron/experts-sequence-parallel)"));
  plan.sequence_parallel = true;
  EXPECT_THAT(script(with_experts(8)), HasSubstr("--sequence-parallel "));
}

// CUDA graphs are on by default: a plan without them switches them off. They are of whole steps,
// and know no pipeline.
TEST(TorchtitanRows, CudaGraphsAreThePlans) {
  const Model model = llama_like(8);
  const auto registry = [](const Plan& plan) {
    return export_torchtitan_registry(loaded(plan, llama_like(8)), {}).files[0].text;
  };
  EXPECT_THAT(registry(pipeline(2, 1, 4)), HasSubstr("disable_cuda_graphs=True,"));
  EXPECT_THAT(registry(small()), HasSubstr("disable_cuda_graphs=True,"));
  Plan plan = small();
  plan.cuda_graphs = CudaGraphs::of_step();
  EXPECT_THAT(registry(plan), Not(HasSubstr("disable_cuda_graphs")));
  const auto back = [&](const Plan& wanted) {
    return read_torchtitan_job(registry(wanted), "config_registry.py", {.model = &model});
  };
  EXPECT_EQ(back(plan).plan.cuda_graphs, CudaGraphs::of_step());
  EXPECT_THAT(names(back(plan).defaults), testing::Contains("CUDA graphs"));
  EXPECT_TRUE(back(small()).plan.cuda_graphs.none());
  EXPECT_TRUE(back(pipeline(2, 1, 4)).plan.cuda_graphs.none());
  plan.cuda_graphs = CudaGraphs::of_blocks();
  EXPECT_THAT(complaint([&] { registry(plan); }), HasSubstr("(row torchtitan/graphs-of-parts)"));
  plan = pipeline(2, 1, 4);
  plan.cuda_graphs = CudaGraphs::of_step();
  EXPECT_THAT(complaint([&] { registry(plan); }), HasSubstr("(row torchtitan/graphs-alone)"));
}

// 0.2: whole replicas stand alone, and 16 bits without any are the weights' own format.
TEST(TorchtitanRows, WhatVersion02Lacks) {
  Plan plan = pipeline(2, 1, 4);
  const auto toml = [&] {
    return export_torchtitan_toml(loaded(plan, llama_like(8)), {}).files[0].text;
  };
  EXPECT_THAT(toml(), HasSubstr("\ndtype = \"bfloat16\"\n"));
  plan.dp = 2;
  EXPECT_THAT(complaint([&] { static_cast<void>(toml()); }),
              HasSubstr("zero: ZeRO 0: torchtitan 0.2 keeps whole replicas"));
  plan.zero = 1;
  EXPECT_THAT(toml(), Not(HasSubstr("\ndtype = ")));
}

// Without ZeRO the replicas of context parallelism are sharded all the same, which reads back.
TEST(TorchtitanRows, ContextParallelReplicasReadBack) {
  Plan plan = small();
  plan.cp = plan.dp = 2;
  plan.rank_order = RankOrder::tp_cp_pp_dp;
  const ResolvedPlan resolved = loaded(plan, llama_like(8));
  const ExportedJob job = export_torchtitan_registry(resolved, {});
  EXPECT_THAT(names(job.not_carried), testing::IsSupersetOf({"zero", "rank_order"}));
  const Plan read =
      read_torchtitan_job(job.files[0].text, "config_registry.py", {.model = &resolved.model}).plan;
  EXPECT_EQ(read.dp, 2);
  EXPECT_EQ(read.zero, 2);
}

// 1 where nothing is said; and the stages, so that the file reads back.
TEST(DeepSpeedRows, ClippingAndStages) {
  Plan plan = pipeline(2, 1, 4);
  plan.dp = 2;
  const ResolvedPlan resolved = loaded(plan, llama_like(8));
  const std::string text = export_deepspeed(resolved, {}).files[0].text;
  EXPECT_EQ(parse_json(text, "ds_config.json")["gradient_clipping"], 0.0);
  const Plan read =
      read_deepspeed_job(text, "ds_config.json", {.gpus = 4, .model = &resolved.model}).plan;
  EXPECT_EQ(read.pp, 2);
  EXPECT_EQ(read.dp, 2);
  EXPECT_EQ(read.boundaries, plan.boundaries);
  plan = pipeline(2, 2, 4);
  EXPECT_THAT(
      complaint([&] { static_cast<void>(export_deepspeed(loaded(plan, llama_like(8)), {})); }),
      HasSubstr("(row deepspeed/one-stage-a-rank)"));
  // Its file would have the samples of twice as many replicas.
  plan = pipeline(2, 1, 4);
  plan.cp = 2;
  EXPECT_THAT(
      complaint([&] { static_cast<void>(export_deepspeed(loaded(plan, llama_like(8)), {})); }),
      HasSubstr("(row deepspeed/context-parallelism)"));
}

// The host updates under ZeRO alone; of one replica it is written, and is none when it is read.
TEST(DeepSpeedRows, TheHostsOptimizerOfOneReplica) {
  Plan plan = small();
  plan.offload_optimizer = 1;
  for (int again = 0; again < 2; ++again) {
    const ResolvedPlan resolved = loaded(plan, llama_like(8));
    const std::string text = export_deepspeed(resolved, {}).files[0].text;
    EXPECT_EQ(parse_json(text, "ds_config.json").at("zero_optimization").at("stage"), 1);
    const Plan read =
        read_deepspeed_job(text, "ds_config.json", {.gpus = 1, .model = &resolved.model}).plan;
    EXPECT_EQ(read.offload_optimizer, 1);
    EXPECT_EQ(read.zero, 0);
    plan.zero = read.zero;
  }
  plan.dp = 2;
  EXPECT_THAT(
      complaint([&] { static_cast<void>(export_deepspeed(loaded(plan, llama_like(8)), {})); }),
      HasSubstr("(row deepspeed/offload-unsharded)"));
}

// Gradients are divided once, and messages are dense.
TEST(TorchRows, TheScriptDividesOnce) {
  const ExportedJob job = export_torch(loaded(pipeline(2, 2, 4), llama_like(8)), {});
  EXPECT_THAT(job.files[0].text, AllOf(HasSubstr("scale_grads = False"),
                                       HasSubstr("parameter.grad.div_(MICROBATCHES)"),
                                       HasSubstr("each.contiguous() for each in x")));
  EXPECT_EQ(job.files[2].name, "split_points.json");
  EXPECT_EQ(parse_json(job.files[2].text, "split_points.json").size(), 3U);
}

}  // namespace
}  // namespace weir::trainers_test
