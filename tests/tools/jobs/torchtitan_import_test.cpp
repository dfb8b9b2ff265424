// Torchtitan's jobs as plans: small files written here with the numbers worked out beside them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir::torchtitan_import_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Job titan(const std::string& text, const JobOptions& options = {.dp = 1}) {
  return read_torchtitan_job(text, "job.toml", options);
}

// Llama 3 8B: 32 blocks, embedding and head count as one each: 34 = 9 + 9 + 8 + 8 stages, less one
// at either end.
TEST(TorchtitanJob, DealsBlocksAsItsTrainerDoes) {
  const Job job = titan(
      "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 8\nseq_len = 4096\n"
      "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = 2\n"
      "[activation_checkpoint]\nmode = 'full'\n");
  EXPECT_EQ(parameter_count(job.model), 8'030'261'248);
  EXPECT_THAT(job.plan.boundaries, ElementsAre(9, 18, 26));
  EXPECT_EQ(job.plan.microbatches, 4);
  EXPECT_EQ(job.plan.micro_batch_size, 2);
  EXPECT_EQ(job.plan.dtype, Dtype::bf16);
  EXPECT_EQ(job.plan.schedule, "1f1b");
  EXPECT_EQ(job.plan.recompute.mode, RecomputeMode::full);
  EXPECT_THAT(job.remarks, IsEmpty());
}

TEST(TorchtitanJob, ModulesOfEachStage) {
  const std::string head =
      "[model]\nflavor = '8B'\n[training]\nseq_len = 128\n[activation_checkpoint]\nmode = "
      "'none'\n[parallelism]\n"
      "pipeline_parallel_degree = 2\n";
  std::string modules = "module_fqns_per_model_part = [['tok_embeddings'";
  for (int l = 0; l < 32; ++l)
    modules += (l == 20 ? "],\n  ['layers." : ", 'layers.") + std::to_string(l) + "'";
  EXPECT_THAT(titan(head + modules + ", 'norm', 'output']]\n").plan.boundaries, ElementsAre(21));
  EXPECT_EQ(complaint([&] { static_cast<void>(titan(head + modules + ", 'output']]\n")); }),
            "job.toml: parallelism.module_fqns_per_model_part: stage 1: \"output\" is out of order "
            "or no module of this "
            "model");
  EXPECT_THAT(titan(head + "pipeline_parallel_split_points = ['layers.20']\n").plan.boundaries,
              ElementsAre(21));
  EXPECT_THAT(titan(head + "pipeline_parallel_schedule = "
                           "'Interleaved1F1B'\npipeline_parallel_layers_per_stage = 9\n")
                  .plan.boundaries,
              ElementsAre(9, 18, 26));
}

// toml++ takes for granted that a key begins as keys do, and that no letter of Greek (of Japanese)
// follows a value; with NDEBUG what followed was undefined.
TEST(TorchtitanJob, WhatIsNoTomlIsRefused) {
  for (const char* text : {"[/job]\n", "[job]\n= 1\n", "[job\n", "a = [\n", "\"", "a.\n",
                           "a = 6\u03A2\n", "a = 6'\u03A2'\n", "a = \u3042\n", "\u0E50 = 1\n"}) {
    EXPECT_THAT(complaint([&] { static_cast<void>(titan(text)); }),
                testing::AllOf(testing::StartsWith("job.toml: "), HasSubstr("no valid TOML: ")))
        << text;
  }
}

TEST(TorchtitanJob, ListsWhatItDoesNotCarry) {
  const Job job = titan(
      "[job]\ndescription = 'x'\n[model]\nflavor = '8B'\nconverters = "
      "['float8']\n[compile]\nenable = true\n"
      "[training]\nglobal_batch_size = 32\nlocal_batch_size = "
      "8\n[parallelism]\npipeline_parallel_degree = 2\n"
      "enable_async_tensor_parallel = false\n[metrics]\nlog_freq = 1\n",
      {});
  EXPECT_EQ(names(job), "data parallelism training.global_batch_size ");
  EXPECT_EQ(job.plan.fp8, Fp8Recipe::tensorwise);
  EXPECT_EQ(job.stack, "torchtitan");
}

// FSDP as ZeRO's stages, among dp and cp; a pipeline reduces once a step. Tensor parallelism is
// always with sequence parallelism there.
TEST(TorchtitanJob, WhatDevicesShareIsInThePlan) {
  const auto read = [](const std::string& parallelism) {
    return titan(
        "[model]\nflavor = '8B'\n[training]\nlocal_batch_size = 4\n[activation_checkpoint]\nmode = "
        "'none'\n"
        "[parallelism]\n" +
            parallelism,
        {});
  };
  const auto zero = [&](const std::string& parallelism) {
    const Job job = read(parallelism);
    EXPECT_EQ(names(job), "") << parallelism;
    return job.plan.zero;
  };
  const std::string eight = "data_parallel_shard_degree = 8\n",
                    pipeline = eight + "pipeline_parallel_degree = 2\n";
  const std::string always = "fsdp_reshard_after_forward = 'always'\n",
                    never = "fsdp_reshard_after_forward = 'never'\n";
  EXPECT_EQ(zero(eight), 3);
  EXPECT_EQ(zero(eight + always), 3);
  EXPECT_EQ(zero(eight + never), 2);
  EXPECT_EQ(zero(pipeline), 1);
  EXPECT_EQ(zero(pipeline + never), 1);
  EXPECT_EQ(zero("data_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 8\n"), 0);
  EXPECT_EQ(zero("data_parallel_shard_degree = 1\ncontext_parallel_degree = 2\n"), 3);
  EXPECT_EQ(names(read(pipeline + always)), "parallelism.fsdp_reshard_after_forward ");
  // Two copies, each sharded among eight.
  const Plan hybrid = read(eight + "data_parallel_replicate_degree = 2\n").plan;
  EXPECT_EQ(hybrid.dp, 16);
  EXPECT_EQ(hybrid.zero_shards, 8);
  EXPECT_EQ(hybrid.share_groups(), 2);
  EXPECT_EQ(read(eight).plan.zero_shards, 0);
  const Plan plan = read(eight + "tensor_parallel_degree = 4\n").plan;
  EXPECT_EQ(plan.split(), (Split{4, 1, true}));
  EXPECT_TRUE(plan.overlap_grad_reduce);
  EXPECT_FALSE(plan.overlap_tensor_parallel);
  const std::string async = "enable_async_tensor_parallel = true\n";
  EXPECT_TRUE(read(async + eight + "tensor_parallel_degree = 4\n").plan.overlap_tensor_parallel);
  EXPECT_FALSE(read(async + eight).plan.overlap_tensor_parallel) << "nothing to send";
  EXPECT_TRUE(read("tensor_parallel_degree = 4\n[compile]\nenable = true\n" + async)
                  .plan.overlap_tensor_parallel);
  EXPECT_FALSE(read("data_parallel_shard_degree = 1\n").plan.overlap_grad_reduce);
}

// Its trainer refuses degrees whose product is not the number of devices; -1 takes what is left.
TEST(TorchtitanJob, DegreesMakeUpTheDevices) {
  const auto read = [](const std::string& degrees) {
    return titan(
        "[model]\nflavor = '8B'\n[training]\nseq_len = 8\n[activation_checkpoint]\n"
        "mode = 'none'\n[parallelism]\n" +
            degrees,
        {.gpus = 8});
  };
  const std::string two = "data_parallel_shard_degree = 2\n";
  for (const auto& [degrees, product] : {std::pair(two, 2),
                                         {two + "data_parallel_replicate_degree = 2\n", 4},
                                         {two + "tensor_parallel_degree = 2\n", 4},
                                         {two + "context_parallel_degree = 2\n", 4},
                                         {two + "pipeline_parallel_degree = 2\n", 4},
                                         {std::string("data_parallel_shard_degree = 16\n"), 16}}) {
    EXPECT_THAT(complaint([&, text = degrees] { static_cast<void>(read(text)); }),
                HasSubstr(fmt::format("are {} devices, not 8: torchtitan refuses that", product)))
        << degrees;
  }
  EXPECT_EQ(read("data_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n").plan.dp, 4);
  EXPECT_EQ(read(two + "tensor_parallel_degree = 4\n").plan.dp, 2);
}

TEST(TorchtitanJob, SelectiveIsNotAPlansSelective) {
  const auto read = [](const std::string& checkpoint) {
    return titan(
        "[model]\nflavor = '8B'\n[training]\nseq_len = 8\n[activation_checkpoint]\nmode = "
        "'selective'\n" +
        checkpoint);
  };
  EXPECT_EQ(read("selective_ac_option = '1'\n").plan.recompute.mode,
            RecomputeMode::full);  // every layer
  EXPECT_EQ(names(read("selective_ac_option = '1'\n")), "");
  // Every second of 32 blocks, which are layers 1 to 32.
  const Recompute second = read("selective_ac_option = '2'\n").plan.recompute;
  EXPECT_EQ(second.mode, RecomputeMode::full);
  EXPECT_EQ(second.layers.size(), 16U);
  EXPECT_EQ(second.layers.front(), (LayerRange{2, 3}));
  EXPECT_EQ(names(read("selective_ac_option = '2'\n")), "");
  EXPECT_THAT(complaint([&] { static_cast<void>(read("selective_ac_option = 'all'\n")); }),
              HasSubstr("selective_ac_option: expected op, or which layers"));
  const Job by_operation = read("selective_ac_option = 'op'\n");
  EXPECT_EQ(by_operation.plan.recompute.mode, RecomputeMode::selective);
  EXPECT_EQ(names(by_operation), "activation_checkpoint.mode ");
  // Where nothing is said it is every second one (config/job_config.py).
  EXPECT_EQ(read("").plan.recompute, second);
  EXPECT_EQ(read("").stack, "torchtitan-eager");
}

TEST(TorchtitanJob, FormatsOfGradientsAndStateAreListed) {
  EXPECT_EQ(names(titan("[model]\nflavor = '8B'\n[activation_checkpoint]\nmode = 'none'\n"
                        "[optimizer]\nimplementation = 'foreach'\n[training]\ndtype = 'bfloat16'\n"
                        "mixed_precision_reduce = 'bfloat16'\n")),
            "training.mixed_precision_reduce training.dtype optimizer.implementation ");
}

// torchtitan's own defaults where nothing is said: a norm of 1, 200 steps of warm-up, then linear
// to 0 at the last step.
TEST(TorchtitanJob, ClipsAndMovesItsRate) {
  const std::string head = "[model]\nflavor = '8B'\n[activation_checkpoint]\nmode = 'none'\n";
  const Optimizer usual = titan(head + "[training]\nsteps = 1000\n").plan.optimizer;
  EXPECT_EQ(usual.clip_norm, 1);
  EXPECT_EQ(usual.rate, (RateSchedule{200, 1000, DecayStyle::linear, 0}));
  const Job said =
      titan(head +
            "[training]\nsteps = 50\nmax_norm = 0.5\n[optimizer]\nname = 'Adam'\nlr = 0.1\n"
            "[lr_scheduler]\nwarmup_steps = 5\ndecay_type = 'cosine'\nmin_lr_factor = 0.25\n");
  EXPECT_EQ(said.plan.optimizer.kind, OptimizerKind::adam);
  EXPECT_EQ(said.plan.optimizer.clip_norm, 0.5);
  EXPECT_EQ(said.plan.optimizer.rate, (RateSchedule{5, 50, DecayStyle::cosine, 0.025}));
  EXPECT_EQ(names(said), "");
  const Job stable = titan(head +
                           "[training]\nsteps = 50\n[lr_scheduler]\nwarmup_steps = 5\n"
                           "decay_ratio = 0.5\n");
  EXPECT_EQ(stable.plan.optimizer.rate, RateSchedule{.warmup_iters = 5});
  EXPECT_EQ(names(stable), "lr_scheduler.decay_ratio ");
  EXPECT_EQ(names(titan(head + "[training]\nsteps = 500\n[lr_scheduler]\ndecay_type = 'sqrt'\n")),
            "lr_scheduler.decay_type ");
}

TEST(TorchtitanJob, RefusesInOneLine) {
  const auto line = [](const std::string& text) {
    return complaint([&] { static_cast<void>(titan(text)); });
  };
  EXPECT_THAT(line("[training\n"), HasSubstr("job.toml: line 1: no valid TOML: "));
  EXPECT_EQ(line("x = 1\n"), "job.toml: parallelism: is missing: expected a torchtitan job");
  EXPECT_EQ(line("[model]\nflavor = '9B'\n[training]\nseq_len = 8\n"),
            "job.toml: model.flavor: the sizes of llama3 9B are not known here: give its "
            "model");
  EXPECT_EQ(line("[model]\nflavor = '8B'\n[training]\nseq_len = '8'\n"),
            "job.toml: training.seq_len: expected an integer from 1 to 16777216");
  EXPECT_EQ(line("[model]\nflavor = '8B'\n[training]\n[parallelism]\npipeline_parallel_schedule = "
                 "'Spiral'\n"),
            "job.toml: parallelism.pipeline_parallel_schedule: Spiral: unknown schedule");
}

}  // namespace
}  // namespace weir::torchtitan_import_test
