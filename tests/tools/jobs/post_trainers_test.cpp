// What jobs of tools that train ready models say of their optimizer and of what they leave
// untrained: verl's actor, ms-swift's frozen layers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/recompute.hpp"
#include "plan/model/limits.hpp"
#include "plan/text/words_of.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tests/tools/jobs/remark_names.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir::verl_jobs_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Settings of the actor, a blank between them, in a job of eight devices of 2 a replica.
Job read(const std::string& settings) {
  std::string job =
      "python3 -m verl.trainer.main_ppo data.max_prompt_length=48 data.max_response_length=80"
      " actor_rollout_ref.model.path=some/model actor_rollout_ref.actor.ppo_mini_batch_size=16"
      " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2"
      " actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 trainer.n_gpus_per_node=8";
  for (const std::string& setting : words_of(settings))
    job += fmt::format(" +actor_rollout_ref.actor.{}", setting);
  const Model model = llama_like(8);
  return read_megatron_job(job + "\n", "job", {.model = &model});
}
std::string remark(const Job& job, std::string_view name) {
  for (const Remark& one : job.remarks) {
    if (one.name == name) return one.text;
  }
  return "";
}

// Moved away behind each update and back before the next (workers/megatron_workers.py,
// update_actor): the update itself has all of it on the device.
TEST(VerlJobs, WhatWaitsWithTheHostIsNotInThePlan) {
  const Job job = read("megatron.optimizer_offload=True megatron.param_offload=True");
  EXPECT_EQ(job.plan.offload_optimizer, 0);
  EXPECT_EQ(
      remark(job, "actor.megatron.optimizer_offload"),
      "True: the optimizer's state waits with the host while the actor is not trained, and is "
      "back on the device before its update: not in the plan");
  EXPECT_THAT(remark(job, "actor.megatron.param_offload"), HasSubstr("weights and gradients wait"));
  EXPECT_THAT(remark(job, "actor"), Not(HasSubstr("offload")));
  EXPECT_THAT(names(read("megatron.optimizer_offload=False")), Not(HasSubstr("offload")));
}

// Megatron-Core's own word for state that the host keeps and updates; a job of verl's examples has
// both words.
TEST(VerlJobs, MegatronsOffloadIsOverridden) {
  const std::string of = "optim.override_optimizer_config.";
  EXPECT_EQ(read(of + "optimizer_cpu_offload=True").plan.offload_optimizer, 1);
  const Job job =
      read("megatron.optimizer_offload=True " + of + "optimizer_offload_fraction=0.5 " + of +
           "optimizer_cpu_offload=True " + of + "overlap_cpu_optimizer_d2h_h2d=True");
  EXPECT_EQ(job.plan.offload_optimizer, 0.5);
  EXPECT_THAT(names(job), HasSubstr("overlap-cpu-optimizer-d2h-h2d "));
  EXPECT_EQ(read(of + "optimizer_offload_fraction=1. " + of + "optimizer_cpu_offload=True")
                .plan.offload_optimizer,
            1);
  EXPECT_EQ(read(of + "optimizer_offload_fraction=0.5").plan.offload_optimizer, 0);
  EXPECT_EQ(read("optim.lr=1e-3 " + of + "lr=1e-4").plan.optimizer.learning_rate, 1e-4);
}

TEST(VerlJobs, TheOptimizerIsNamed) {
  EXPECT_EQ(read("").plan.optimizer.kind, OptimizerKind::adamw);
  EXPECT_EQ(read("optim.optimizer=adam").plan.optimizer.kind, OptimizerKind::adamw);
  EXPECT_EQ(read("optim.optimizer=sgd").plan.optimizer.kind, OptimizerKind::sgd);
  const Optimizer muon =
      read("optim.optimizer=muon optim.override_optimizer_config.muon_momentum=0.95")
          .plan.optimizer;
  EXPECT_EQ(muon.kind, OptimizerKind::muon);
  EXPECT_EQ(muon.momentum, 0.95);
  EXPECT_EQ(complaint([] { static_cast<void>(read("optim.optimizer=lion")); }),
            "job: actor_rollout_ref.actor.optim.optimizer: lion: expected adam, sgd or muon");
}

}  // namespace
}  // namespace weir::verl_jobs_test

namespace weir::swift_jobs_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Layers 0 embedding, 1 to 12 blocks, 13 norm, 14 head of its own.
Job read(const std::string& words, bool tied = false) {
  Model model = llama_like(12);
  std::get<EmbeddingShape>(model.layers.front().shape).tied = tied;
  std::get<HeadShape>(model.layers.back().shape).tied = tied;
  return read_megatron_job(
      fmt::format("NPROC_PER_NODE=8 megatron sft --model some/model --max_length 128 {}\n", words),
      "job", {.model = &model});
}
std::string frozen(const std::string& words, bool tied = false) {
  const Job job = read(words, tied);
  for (const LayerRange& range : job.plan.frozen) {
    for (int i = range.first; i < range.last; ++i)
      EXPECT_TRUE(job.model.layers[static_cast<std::size_t>(i)].treated.frozen) << i;
  }
  return job.plan.frozen.empty() ? "none" : layers_word(job.plan.frozen);
}
std::string refusal(const std::string& words, bool tied = false) {
  return complaint([&] { static_cast<void>(read(words, tied)); });
}

// A beginning without a point behind it begins more numbers than one: 1, 10 and 11.
TEST(SwiftJobs, FrozenLayersAreReadByTheirNames) {
  EXPECT_EQ(frozen(""), "none");
  EXPECT_EQ(frozen("--freeze_parameters embedding decoder.layers.0. decoder.layers.1."), "0-2");
  EXPECT_EQ(frozen("--freeze_parameters decoder.layers.1"), "2,11-12");
  EXPECT_EQ(frozen("--freeze_parameters decoder"), "1-13");
  EXPECT_EQ(frozen("--freeze_parameters_ratio 1 --trainable_parameters output_layer"), "0-13");
  EXPECT_EQ(frozen("--freeze_parameters_ratio 0 --freeze_parameters output_layer.weight"), "14");
}

// One weight twice: on one device the head's is the embedding's, in a pipeline each has its own.
TEST(SwiftJobs, ASharedWeightIsFrozenAsAWhole) {
  EXPECT_EQ(frozen("--freeze_parameters embedding.", true), "0,14");
  const std::string pipeline = "--pipeline_model_parallel_size 2 --freeze_parameters embedding.";
  EXPECT_EQ(frozen(pipeline), "0");
  EXPECT_EQ(frozen(pipeline + " output_layer.", true), "0,14");
  EXPECT_THAT(refusal(pipeline, true), HasSubstr("job: --freeze-parameters: leaves of a weight"));
}

TEST(SwiftJobs, WhatIsNoWholeLayersIsRefused) {
  EXPECT_THAT(refusal("--freeze_parameters decoder.layers.0.mlp"),
              HasSubstr("job: --freeze-parameters: decoder.layers.0.mlp: a part of a layer"));
  EXPECT_THAT(refusal("--freeze_parameters model.layers.0."),
              HasSubstr("model.layers.0.: begins no parameter of a language model: expected"));
  EXPECT_THAT(refusal("--freeze_parameters_ratio 0.5"),
              HasSubstr("job: --freeze-parameters-ratio: 0.5: a share of the parameters ends"));
  EXPECT_THAT(refusal("--freeze_parameters_ratio nan"), HasSubstr("expected a share from 0 to 1"));
  EXPECT_THAT(refusal("--freeze_parameters_ratio 1"), HasSubstr("leaves nothing to train"));
  EXPECT_THAT(refusal("--freeze_parameters_regex 'layers.[0-3]'"),
              HasSubstr("job: --freeze-parameters-regex: regular expressions are not followed"));
  EXPECT_THAT(refusal("--freeze_llm true"), HasSubstr("job: --freeze-llm: true: trains what"));
  // Of a pipeline's second stage it is another block.
  EXPECT_THAT(refusal("--pipeline_model_parallel_size 2 --freeze_parameters decoder.layers.0."),
              HasSubstr("decoder.layers.0.: blocks are numbered from each stage's first there"));
}

// Of modules that are trained beside adapters a plan has nothing; of all weights they are some.
TEST(SwiftJobs, WhatStandsBesideAdapters) {
  const std::string lora = "--tuner_type lora --lora_rank 8 ";
  const Job job = read(lora +
                       "--modules_to_save word_embeddings output_layer --lora_bias none "
                       "--freeze_parameters embedding. --freeze_vit true");
  EXPECT_EQ(job.plan.lora.rank, 8);
  EXPECT_TRUE(job.plan.frozen.empty());
  EXPECT_THAT(names(job), HasSubstr("freeze-parameters "));
  EXPECT_THAT(names(job), HasSubstr("modules-to-save "));
  EXPECT_THAT(names(read("--modules_to_save output_layer")), Not(HasSubstr("modules-to-save")));
  EXPECT_THAT(refusal(lora + "--lora_bias all"), HasSubstr("job: --lora-bias: all: biases"));
  EXPECT_THAT(refusal(lora + "--target_regex '.*fc1'"),
              HasSubstr("job: --target-regex: regular expressions are not followed"));
}

}  // namespace
}  // namespace weir::swift_jobs_test
