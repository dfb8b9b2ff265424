// What jobs of tools that train ready models say of their optimizer: verl's actor.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
