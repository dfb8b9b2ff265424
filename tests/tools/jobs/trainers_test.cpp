// The trainers' tables: of each class of failure that trainers were seen to fail by, the smallest
// plan and the line that mends it, or the row that refuses it.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "plan/text/strict_json.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
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

// One rank, 8 blocks; each test makes it the smallest of its class.
Plan small() {
  Plan plan;
  plan.seq_length = 128;
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.schedule = "1f1b";
  plan.microbatches = 4;
  return plan;
}
Plan pipeline(int ranks, int chunks, int microbatches) {
  Plan plan = small();
  plan.pp = ranks;
  plan.vpp = chunks;
  plan.microbatches = microbatches;
  plan.schedule = chunks > 1 ? "interleaved-1f1b" : "1f1b";
  const int each = 8 / plan.stages();
  for (int s = 1; s < plan.stages(); ++s) plan.boundaries.push_back(1 + s * each);
  return plan;
}
std::string megatron(const Plan& plan, const Allowed& allowed = {}) {
  return export_megatron(loaded(plan, llama_like(8)), {.allowed = allowed}).files[0].text;
}
std::string refusal(const Plan& plan, const Allowed& allowed = {}) {
  return complaint([&] { static_cast<void>(megatron(plan, allowed)); });
}
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

Model with_experts(int blocks) {
  Model model = llama_like(blocks);
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) {
      block->experts = 8;
      block->experts_per_token = 2;
    }
  }
  return model;
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
  EXPECT_THAT(refusal(v, {.fork = true}), HasSubstr("(row megatron-fork/equal-stages-of-a-v)"));
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
}

// Adapters, frozen layers and products in 8 bits, which no script of ours makes but Megatron's.
TEST(TrainerRows, WhatIsTrainedInPart) {
  Plan plan = pipeline(2, 1, 4);
  plan.lora = {8, all_products(), 0};
  EXPECT_EQ(refusal(plan),
            "plan: lora: rank 8: Megatron-LM trains all weights: adapters are Megatron-Bridge's "
            "(peft) (row megatron/adapters)");
  const auto others = [](const Plan& of) {
    std::string all;
    const ResolvedPlan resolved = loaded(of, llama_like(8));
    all += complaint([&] { static_cast<void>(export_torch(resolved, {})); });
    all += complaint([&] { static_cast<void>(export_deepspeed(resolved, {})); });
    all += complaint([&] { static_cast<void>(export_torchtitan_registry(resolved, {})); });
    return all;
  };
  EXPECT_THAT(others(plan),
              AllOf(HasSubstr("(row torch/adapters)"), HasSubstr("(row deepspeed/adapters)"),
                    HasSubstr("(row torchtitan/adapters)")));
  plan = pipeline(2, 1, 4);
  plan.frozen = {{0, 3}};
  EXPECT_THAT(refusal(plan), HasSubstr("frozen: 0-2: "));
  EXPECT_THAT(others(plan),
              AllOf(HasSubstr("(row torch/frozen-layers)"), HasSubstr("torchtitan/frozen-layers")));
  plan = pipeline(2, 1, 4);
  plan.fp8 = Fp8Recipe::mxfp8;
  EXPECT_THAT(others(plan), AllOf(HasSubstr("fp8: mxfp8: "), HasSubstr("(row torch/fp8)")));
}

// torchtitan's converters: tensorwise goes out as scales by rows, which read back as the nearest
// that a plan has, and 0.2 gathers weights in 8 bits; adapters stand beside layers by their names.
TEST(TorchtitanRows, ConvertersReadBack) {
  Plan plan = pipeline(1, 1, 4);
  plan.dp = 4;
  plan.zero = 3;
  const auto refused = [&](auto written) {
    return complaint([&] { static_cast<void>(written(loaded(plan, llama_like(8)), {})); });
  };
  const auto back = [&](auto written) {
    const ExportedJob job = written(loaded(plan, llama_like(8)), {});
    const ResolvedPlan its = loaded(plan, llama_like(8));
    return read_torchtitan_job(job.files.front().text, job.files.front().name,
                               {.gpus = 4, .model = &its.model})
        .plan;
  };
  for (const Fp8Recipe recipe : {Fp8Recipe::tensorwise, Fp8Recipe::mxfp8}) {
    plan.fp8 = recipe;
    EXPECT_EQ(back(&export_torchtitan_registry).fp8, recipe);
    EXPECT_EQ(back(&export_torchtitan_toml).fp8, recipe);
  }
  plan.fp8 = Fp8Recipe::delayed;
  EXPECT_THAT(refused(&export_torchtitan_registry), HasSubstr("(row torchtitan/fp8)"));
  EXPECT_THAT(refused(&export_torchtitan_toml), HasSubstr("(row torchtitan-0.2/fp8)"));
  plan.fp8 = Fp8Recipe::tensorwise;
  plan.fp8_parameters = true;
  EXPECT_TRUE(back(&export_torchtitan_toml).fp8_parameters);
  EXPECT_THAT(refused(&export_torchtitan_registry), HasSubstr("(row torchtitan/fp8-parameters)"));
  plan.fp8 = Fp8Recipe::none;
  plan.fp8_parameters = false;
  plan.lora = {16, parse_products("linear_qkv+linear_proj+linear_fc1_gate").value(), 0};
  EXPECT_EQ(back(&export_torchtitan_registry).lora, plan.lora);
  EXPECT_THAT(refused(&export_torchtitan_toml), HasSubstr("(row torchtitan-0.2/adapters)"));
  plan.lora.dropout = 0.1;
  EXPECT_THAT(refused(&export_torchtitan_registry), HasSubstr("(row torchtitan/adapters)"));
}

// What Megatron's script says of 8 bits reads back as it was; weights in 8 bits alone need the
// sharded optimizer.
TEST(MegatronRows, ProductsIn8Bits) {
  Plan plan = pipeline(2, 1, 4);
  plan.fp8 = Fp8Recipe::blockwise;
  plan.fp8_parameters = true;
  const auto read_back = [](const std::string& script) {
    return read_megatron_job(script, "megatron.sh", {}).plan;
  };
  EXPECT_THAT(megatron(plan),
              AllOf(HasSubstr("--fp8-recipe blockwise"), HasSubstr("--use-distributed-optimizer")));
  EXPECT_EQ(read_back(megatron(plan)).fp8, Fp8Recipe::blockwise);
  EXPECT_TRUE(read_back(megatron(plan)).fp8_parameters);
  plan.dp = 2;
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/fp8-parameters)"));
  plan.zero = 1;
  EXPECT_TRUE(read_back(megatron(plan)).fp8_parameters);
  plan.fp8_parameters = false;
  plan.fp8 = Fp8Recipe::none;
  EXPECT_THAT(megatron(plan), Not(HasSubstr("fp8")));
}

// A block behind the norm: on the last stage nothing more is said, on one of its own the layout
// says m. Layers: the embedding, 8 blocks, the norm, 9, the block that predicts, 10, the head, 11.
TEST(MegatronRows, PredictionReadsBack) {
  const auto back = [](const Plan& plan) {
    Model model = llama_like(8);
    set_treatment(model, plan);
    const std::string script = export_megatron(loaded(plan, model), {.allowed = {}}).files[0].text;
    return std::pair(script, read_megatron_job(script, "megatron.sh", {}).plan);
  };
  Plan plan = pipeline(2, 1, 4);
  plan.prediction_layers = 1;
  plan.prediction_weight = 0.3;
  const auto [script, read] = back(plan);
  EXPECT_THAT(script, AllOf(HasSubstr("--mtp-num-layers 1 "),
                            HasSubstr("--mtp-loss-scaling-factor 0.3 "), Not(HasSubstr("layout"))));
  EXPECT_EQ(read.prediction_layers, 1);
  EXPECT_EQ(read.prediction_weight, 0.3);
  EXPECT_EQ(read.boundaries, plan.boundaries);
  plan.pp = 3;
  plan.boundaries = {5, 10};
  const auto [alone, again] = back(plan);
  EXPECT_THAT(alone, HasSubstr("'Et*4|t*4|mL'"));
  EXPECT_EQ(again.boundaries, plan.boundaries);
  // Two of them on two stages.
  plan.prediction_layers = 2;
  plan.boundaries = {5, 11};
  EXPECT_THAT(complaint([&] { static_cast<void>(back(plan)); }),
              HasSubstr("boundaries: blocks that predict further tokens are on one stage there"));
}

// Exchanges of experts beside other work: what Megatron asserts of a job is a row each.
TEST(MegatronRows, OverlappedExpertsReadBack) {
  const Model experts = with_experts(8);
  const auto script = [&](const Plan& plan) {
    return export_megatron(loaded(plan, experts), {}).files[0].text;
  };
  const auto refused = [&](const Plan& plan) {
    return complaint([&] { static_cast<void>(script(plan)); });
  };
  Plan plan = pipeline(2, 2, 4);
  plan.dp = plan.ep = 2;
  plan.expert_dispatch = ExpertDispatch::alltoall;
  plan.overlap_experts = true;
  EXPECT_THAT(script(plan), AllOf(HasSubstr("--overlap-moe-expert-parallel-comm"),
                                  HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=32")));
  EXPECT_TRUE(read_megatron_job(script(plan), "megatron.sh", {.gpus = 4}).plan.overlap_experts);
  plan.recompute.mode = RecomputeMode::full;
  EXPECT_THAT(refused(plan), HasSubstr("(row megatron/overlapped-recompute)"));
  plan.recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::moe_act};
  EXPECT_THAT(script(plan), HasSubstr("--overlap-moe-expert-parallel-comm"));
  plan.expert_dispatch = ExpertDispatch::allgather;
  EXPECT_THAT(refused(plan), HasSubstr("(row megatron/overlapped-dispatch)"));
  plan = pipeline(2, 1, 4);
  plan.dp = plan.ep = 2;
  plan.overlap_experts = true;
  EXPECT_THAT(refused(plan), HasSubstr("(row megatron/overlapped-chunks)"));
  EXPECT_THAT(
      complaint([&] { static_cast<void>(export_torchtitan_registry(loaded(plan, experts), {})); }),
      HasSubstr("(row torchtitan/"));
}

// Graphs of blocks, of their parts and of whole steps, whose host checks no losses.
TEST(MegatronRows, GraphsReadBack) {
  const auto back = [](const Plan& plan) {
    return read_megatron_job(megatron(plan), "megatron.sh", {.gpus = plan.devices()}).plan;
  };
  Plan plan = pipeline(2, 1, 4);
  for (const char* word : {"blocks", "attn", "attn+mlp", "step"}) {
    plan.cuda_graphs = parse_cuda_graphs(word).value();
    EXPECT_EQ(to_string(back(plan).cuda_graphs), word);
  }
  EXPECT_THAT(megatron(plan), AllOf(HasSubstr("--cuda-graph-impl full_iteration "),
                                    HasSubstr("--no-check-for-nan-in-loss-and-grad ")));
  plan.recompute.mode = RecomputeMode::full;
  EXPECT_EQ(back(plan).cuda_graphs, plan.cuda_graphs);
  plan.cuda_graphs = CudaGraphs::of_blocks();
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/graphs-recompute)"));
  EXPECT_THAT(megatron(pipeline(2, 1, 4)), Not(HasSubstr("cuda-graph")));
}

// Eight replicas in two groups of four, state with the host, and Muon.
TEST(MegatronRows, SharingAndTheHostReadBack) {
  const auto back = [](const Plan& plan) {
    return read_megatron_job(megatron(plan), "megatron.sh", {.gpus = plan.devices()}).plan;
  };
  Plan plan = pipeline(2, 1, 4);
  plan.dp = 8;
  plan.zero = 1;
  plan.zero_shards = 4;
  plan.offload_optimizer = 0.5;
  EXPECT_THAT(megatron(plan), AllOf(HasSubstr("--num-distributed-optimizer-instances 2 "),
                                    HasSubstr("--optimizer-offload-fraction 0.5 "),
                                    HasSubstr("--use-precision-aware-optimizer ")));
  EXPECT_EQ(back(plan).zero_shards, 4);
  EXPECT_EQ(back(plan).offload_optimizer, 0.5);
  plan.zero_shards = 0;
  plan.optimizer.kind = OptimizerKind::muon;
  plan.optimizer.momentum = 0.95;
  plan.optimizer.newton_schulz = 6;
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/offload-muon)"));
  plan.offload_optimizer = 0;
  EXPECT_EQ(back(plan).optimizer.kind, OptimizerKind::muon);
  EXPECT_EQ(back(plan).optimizer.momentum, 0.95);
  EXPECT_EQ(back(plan).optimizer.newton_schulz, 6);
  EXPECT_EQ(back(plan).zero, 1);
  plan.zero = 3;
  plan.zero_secondary = 4;
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/second-shards)"));
}

// A dense block of 64 numbers, 8 heads of 16 and 2 of keys and values, an MLP of 192 with a gate:
// its modules have 3 x 64 + 192 + 128 = 512 numbers a token that may be offloaded, and its MLP 64,
// 384 and 192 more: 512 of 1152. A quarter of all is 288 of these 512.
TEST(MegatronRows, ActivationsWithTheHostReadBack) {
  Plan plan = pipeline(2, 1, 4);
  plan.offload_activations = 0.25;
  EXPECT_THAT(
      megatron(plan),
      AllOf(HasSubstr("--fine-grained-activation-offloading"),
            HasSubstr("--offload-modules attn_norm qkv_linear core_attn attn_proj mlp_norm "),
            HasSubstr("--activation-offload-fraction 0.5625")));
  EXPECT_NEAR(read_megatron_job(megatron(plan), "megatron.sh", {}).plan.offload_activations, 0.25,
              1e-4);
  plan.offload_activations = 0.5;
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/offload-rest)"));
  plan.offload_activations = 0.25;
  plan.recompute.mode = RecomputeMode::full;
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/offload-rebuilt)"));
  plan.recompute = {};
  EXPECT_THAT(complaint([&] { static_cast<void>(export_torch(loaded(plan, llama_like(8)), {})); }),
              HasSubstr("(row torch/offload-activations)"));
}

// What Megatron asserts of a job whose activations go to the host. Experts keep 288 numbers a token
// of what may be offloaded more: names are left out where all experts are rebuilt.
TEST(MegatronRows, ActivationsWithTheHostStart) {
  const Model experts = with_experts(8);
  const auto script = [&](const Plan& plan) {
    return export_megatron(loaded(plan, experts), {}).files[0].text;
  };
  Plan plan = pipeline(2, 1, 4);
  EXPECT_THAT(megatron(plan), Not(HasSubstr("NVTE_CPU_OFFLOAD_V1")));
  plan.offload_activations = 0.1;
  EXPECT_THAT(script(plan), AllOf(HasSubstr("\nexport NVTE_CPU_OFFLOAD_V1=1\n"),
                                  HasSubstr(" mlp_norm expert_fc1 moe_act"),
                                  Not(HasSubstr("max-inflight-offloads"))));
  plan.recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::moe};
  EXPECT_THAT(script(plan), AllOf(HasSubstr("--offload-modules attn_norm qkv_linear core_attn "
                                            "attn_proj mlp_norm \\\n"),
                                  HasSubstr("--recompute-modules moe")));
  EXPECT_NEAR(read_megatron_job(script(plan), "megatron.sh", {}).plan.offload_activations, 0.1,
              1e-5);
  plan.recompute = {};
  plan.cuda_graphs = parse_cuda_graphs("step").value();
  EXPECT_THAT(script(plan), HasSubstr("--fine-grained-offloading-max-inflight-offloads 1 "));
  EXPECT_THAT(names(read_megatron_job(script(plan), "megatron.sh", {}).remarks),
              Not(Contains("fine-grained-offloading-max-inflight-offloads")));
  plan.cuda_graphs = parse_cuda_graphs("moe").value();
  EXPECT_THAT(complaint([&] { static_cast<void>(script(plan)); }),
              HasSubstr("(row megatron/offload-expert-graphs)"));
  // 1e-5 of 1152 numbers a token is 2.25e-5 of the 512 that may go.
  plan = pipeline(2, 1, 4);
  plan.offload_activations = 1e-5;
  EXPECT_THAT(megatron(plan), HasSubstr("--activation-offload-fraction 2.25e-05 "));
  EXPECT_NEAR(read_megatron_job(megatron(plan), "megatron.sh", {}).plan.offload_activations, 1e-5,
              1e-10);
}

// What the trainer may not run hides no difference, a share below a thousandth neither.
TEST(MegatronRows, SharesThatDifferAreSaid) {
  const auto said = [](double again, double wanted) {
    Plan a = small(), b = small();
    a.offload_activations = again;
    b.offload_activations = wanted;
    std::vector<Remark> remarks;
    remark_differences(a, b, remarks);
    return names(remarks);
  };
  EXPECT_THAT(said(0.25, 0.2), testing::ElementsAre("offload_activations"));
  EXPECT_THAT(said(0, 1e-5), testing::ElementsAre("offload_activations"));
  EXPECT_TRUE(said(0.2, 0.2004).empty());
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
