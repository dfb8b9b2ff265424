// How a Megatron job's experts are shared, and how tokens come to them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "plan/job/plan.hpp"
#include "plan/model/model.hpp"
#include "tools/jobs/job/job.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {

// Megatron gathers all tokens where nothing is said (transformer_config.py:891 @d98e8a64ddf3); flex
// sends a token once, by DeepEP or HybridEP (:1024 of token_dispatcher.py). Megatron-DeepSpeed's
// experts exchange all to all.
void set_dispatch(Arguments& a, Plan& plan, bool deepspeed, Job& job) {
  const std::string type = a.text_or("moe-token-dispatcher-type", "allgather");
  const std::string backend = a.text_or("moe-flex-dispatcher-backend", "deepep");
  const bool once = a.flag("moe-enable-deepep") || type == "flex";
  if (deepspeed || plan.ep == 1) return;
  if (type != "allgather" && type != "alltoall" && type != "alltoall_seq" && type != "flex")
    a.fail("moe-token-dispatcher-type", "expected allgather, alltoall or flex");
  if (backend != "deepep" && backend != "hybridep" && backend != "ncclep")
    a.fail("moe-flex-dispatcher-backend", "expected deepep, hybridep or ncclep");
  plan.expert_dispatch = once                  ? ExpertDispatch::once
                         : type == "allgather" ? ExpertDispatch::allgather
                                               : ExpertDispatch::alltoall;
  if (!once && !a.says("moe-token-dispatcher-type"))
    job.defaults.push_back({"token dispatcher", "allgather"});
}

}  // namespace

namespace {

// What Megatron asserts of a job whose experts' exchanges are overlapped
// (transformer_config.py:3002-3046 @d98e8a64ddf3): the first that this one breaks; "": none.
std::string unmet_by_overlap(Arguments& a, const Job& job) {
  const Plan& plan = job.plan;
  const Recompute& recompute = plan.recompute;
  const bool whole =
      recompute.mode == RecomputeMode::full || recompute.mode == RecomputeMode::stage;
  if (plan.ep == 1) return "--expert-model-parallel-size above 1";
  if (plan.pp > 1 && plan.vpp == 1) return "several stages a rank under a pipeline";
  if (plan.expert_dispatch == ExpertDispatch::allgather)
    return "--moe-token-dispatcher-type alltoall or flex";
  if (whole) return "no full re-materialisation";
  if (recompute.mode == RecomputeMode::selective && recompute.modules.meets(BlockModule::moe))
    return "no moe among --recompute-modules";
  if (bytes_per_element(plan.dtype) != 2) return "--bf16 or --fp16";
  if (a.says("moe-shared-expert-overlap")) return "no --moe-shared-expert-overlap";
  return plan.prediction_layers > 1 ? "one block that predicts further tokens at most" : "";
}

}  // namespace

// Forward of one micro-batch beside backward of another.
void set_expert_overlap(Arguments& a, Job& job) {
  constexpr const char* kOverlap = "overlap-moe-expert-parallel-comm";
  if (!a.flag(kOverlap)) return;
  const std::string unmet = unmet_by_overlap(a, job);
  Plan& plan = job.plan;
  plan.overlap_experts = unmet.empty();
  if (!unmet.empty()) {
    job.remarks.push_back(
        {kOverlap, fmt::format("Megatron refuses it, it needs {}: not in the plan", unmet)});
    return;
  }
  if (plan.pp > 1) {
    job.remarks.push_back({kOverlap,
                           "one more micro-batch of a stage is kept there (schedules.py: "
                           "get_pp_rank_microbatches) than the plan's order has"});
  }
}

// Experts that are padded to a capacity are all as full as that; without padding, and where tokens
// are dropped, as full as they are on average.
void set_expert_parallelism(Arguments& a, const std::string& file, Job& job) {
  Plan& plan = job.plan;
  const Model& model = job.model;
  const bool deepspeed = a.flag("deepspeed");  // whose experts are always padded
  const char* const name = deepspeed ? "moe-expert-parallel-size" : "expert-model-parallel-size";
  plan.ep = static_cast<int>(a.integer_or(name, 1, 1, kMostRanks));
  const auto apart = a.maybe_integer("expert-tensor-parallel-size", 1, kMostRanks);
  const double capacity = a.number_or("moe-expert-capacity-factor", 1, 0, kMostExpertLoad);
  if (a.flag("moe-pad-expert-input-to-capacity")) plan.expert_load = std::max(1.0, capacity);
  const bool experts = has_experts(model);
  if (deepspeed && experts) {
    const double load = a.number_or("moe-train-capacity-factor", 1, 0, kMostExpertLoad);
    plan.expert_load = std::max(1.0, load);
  } else if (deepspeed) {
    plan.ep = 1;  // Megatron-DeepSpeed's scripts say it of dense models, too
  }
  if (experts) set_dispatch(a, plan, deepspeed, job);
  // Of dense models it says nothing.
  if (experts && apart && *apart != plan.tp) plan.etp = static_cast<int>(*apart);
  if (plan.ep == 1 && plan.expert_load == 1 && plan.etp == 0) return;
  const auto misfit = cannot_divide(model, plan);
  if (!misfit) return;
  if (misfit->key == "etp") a.fail("expert-tensor-parallel-size", misfit->reason);
  if (misfit->key == "zero_shards") a.fail("num-distributed-optimizer-instances", misfit->reason);
  if (const auto devices = cannot_share_experts(plan); devices && experts)
    throw DeviceCountError(file, fmt::format("--{}", name), devices->reason);
  a.fail(name, misfit->reason);
}

}  // namespace weir
