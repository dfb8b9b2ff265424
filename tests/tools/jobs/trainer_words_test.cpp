// What the trainers have of the words that plans have since jobs of 2026, and what they need beside
// them: numbers as they are written, and rows by which a plan is refused.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tests/tools/jobs/trainer_plans.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::trainer_words_test {
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
              HasSubstr("blocks that predict further tokens on one stage (row "
                        "megatron/prediction-stages)"));
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
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/offload-adam-alone)"));
  plan.offload_optimizer = 0;
  EXPECT_EQ(back(plan).optimizer.kind, OptimizerKind::muon);
  EXPECT_EQ(back(plan).optimizer.momentum, 0.95);
  EXPECT_EQ(back(plan).optimizer.newton_schulz, 6);
  EXPECT_EQ(back(plan).zero, 1);
  plan.zero = 3;
  plan.zero_secondary = 4;
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/second-shards)"));
}

// What Megatron asserts of the host's optimizer and of Muon: Adam, delayed scales, no fp16.
TEST(MegatronRows, OptimizersThatDoNotStart) {
  Plan plan = pipeline(2, 1, 4);
  plan.dp = 2;
  plan.zero = 1;
  plan.offload_optimizer = 1;
  plan.fp8 = Fp8Recipe::delayed;
  plan.fp8_parameters = true;
  EXPECT_THAT(megatron(plan), HasSubstr("--optimizer-cpu-offload "));
  plan.fp8 = Fp8Recipe::tensorwise;
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/offload-fp8-parameters)"));
  plan.fp8 = Fp8Recipe::none;
  plan.fp8_parameters = false;
  plan.optimizer.kind = OptimizerKind::sgd;
  EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/offload-adam-alone)"));
  plan.offload_optimizer = 0;
  EXPECT_THAT(megatron(plan), HasSubstr("--optimizer sgd "));
  plan.optimizer.kind = OptimizerKind::muon;
  EXPECT_THAT(megatron(plan), HasSubstr("--optimizer muon "));
  plan.dtype = Dtype::fp16;
  EXPECT_THAT(refusal(plan), HasSubstr("optimizer: muon: Megatron-LM's muon trains in bf16"));
}

// Where sequences' ends go along with a row, no step is planned without them and no graph has
// attention in it; unfused attention is written, and said.
TEST(MegatronRows, RowsOfSeveralSequences) {
  for (const RowsOf rows : {RowsOf::packed, RowsOf::cut}) {
    Plan plan = pipeline(2, 2, 4);
    plan.lengths = {{16, 64, 128}, rows};
    plan.dp = plan.ep = 2;
    plan.expert_dispatch = ExpertDispatch::alltoall;
    plan.overlap_experts = true;
    EXPECT_THAT(
        complaint([&] { static_cast<void>(export_megatron(loaded(plan, with_experts(8)), {})); }),
        HasSubstr("(row megatron/rows-of-overlapped-experts)"));
    plan = pipeline(2, 1, 4);
    plan.lengths = {{16, 64, 128}, rows};
    for (const char* word : {"step", "blocks", "attn"}) {
      plan.cuda_graphs = parse_cuda_graphs(word).value();
      EXPECT_THAT(refusal(plan), HasSubstr("(row megatron/rows-in-graphs)")) << word;
    }
    plan.cuda_graphs = parse_cuda_graphs("mlp").value();
    EXPECT_THAT(megatron(plan), HasSubstr("--cuda-graph-modules mlp "));
    plan.attention = AttentionKind::unfused;
    const auto said = export_megatron(loaded(plan, llama_like(8)), {}).not_carried;
    EXPECT_TRUE(std::ranges::any_of(said, [](const Remark& remark) {
      return remark.text.ends_with("(row megatron/rows-unfused)");
    }));
  }
}

// The fork is a Megatron-LM of 2024: what came later is refused, and no later word is written.
TEST(ForkRows, WordsOfLaterYears) {
  const Allowed fork{.fork = true};
  const auto refused = [&](void (*change)(Plan&)) {
    Plan plan = pipeline(2, 1, 4);
    plan.dp = 2;
    change(plan);
    return refusal(plan, fork);
  };
  EXPECT_THAT(refused([](Plan& p) { p.optimizer.kind = OptimizerKind::muon; }),
              HasSubstr("(row megatron-fork/muon)"));
  EXPECT_THAT(refused([](Plan& p) { p.prediction_layers = 1; }),
              HasSubstr("(row megatron-fork/prediction)"));
  EXPECT_THAT(refused([](Plan& p) { p.offload_optimizer = p.zero = 1; }),
              HasSubstr("(row megatron-fork/offload)"));
  EXPECT_THAT(refused([](Plan& p) { p.zero_shards = p.zero = 1; }),
              HasSubstr("(row megatron-fork/groups)"));
  EXPECT_THAT(refused([](Plan& p) { p.zero = 3; }), HasSubstr("(row megatron-fork/sharding)"));
  EXPECT_THAT(refused([](Plan& p) { p.fp8 = Fp8Recipe::mxfp8; }),
              HasSubstr("(row megatron-fork/fp8)"));
  EXPECT_THAT(refused([](Plan& p) {
                p.recompute = {.mode = RecomputeMode::selective, .modules = BlockModule::mlp};
              }),
              HasSubstr("(row megatron-fork/recompute-modules)"));
  EXPECT_THAT(refused([](Plan& p) { p.boundaries = {4}; }),
              HasSubstr("(row megatron-fork/equal-stages)"));
  EXPECT_THAT(refused([](Plan& p) { p.expert_dispatch = ExpertDispatch::once; }),
              HasSubstr("(row megatron-fork/dispatch)"));
  Plan plan = pipeline(2, 1, 4);
  plan.fp8 = Fp8Recipe::delayed;
  EXPECT_THAT(megatron(plan, fork),
              AllOf(HasSubstr("--fp8-format hybrid "), Not(HasSubstr("--fp8-recipe")),
                    Not(HasSubstr("--attention-backend")), Not(HasSubstr("--ckpt-format")),
                    Not(HasSubstr("NVTE_"))));
  plan.attention = AttentionKind::unfused;
  EXPECT_THAT(megatron(plan, fork), AllOf(HasSubstr("\nexport NVTE_FLASH_ATTN=0\n"),
                                          HasSubstr("\nexport NVTE_FUSED_ATTN=0\n")));
  Model scaled = llama_like(8);
  for (Layer& layer : scaled.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) block->shared_ffn = 64;
  }
  EXPECT_THAT(complaint([&] {
                static_cast<void>(export_megatron(loaded(plan, scaled), {.allowed = fork}));
              }),
              HasSubstr("(row megatron-fork/model)"));
}

// A dense block of 64 numbers, 8 heads of 16 and 2 of keys and values, an MLP of 192 with a gate:
// its modules have 3 x 64 + 192 + 128 = 512 numbers a token that may be offloaded, 1024 bytes; its
// MLP 64, 384 and 192 more, and there are 8 + 32 bytes of statistics: 1024 of 2344. A quarter of
// all is 586 of these 1024.
TEST(MegatronRows, ActivationsWithTheHostReadBack) {
  Plan plan = pipeline(2, 1, 4);
  plan.offload_activations = 0.25;
  EXPECT_THAT(
      megatron(plan),
      AllOf(HasSubstr("--fine-grained-activation-offloading"),
            HasSubstr("--offload-modules attn_norm qkv_linear core_attn attn_proj mlp_norm "),
            HasSubstr("--activation-offload-fraction 0.572266")));
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
  // 1e-5 of 2344 bytes a token is 2.28906e-5 of the 1024 that may go.
  plan = pipeline(2, 1, 4);
  plan.offload_activations = 1e-5;
  EXPECT_THAT(megatron(plan), HasSubstr("--activation-offload-fraction 2.28906e-05 "));
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

}  // namespace
}  // namespace weir::trainer_words_test
