// A plan and a machine from what tables of Megatron-Core's jobs state.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/megatron_core_run.hpp"

#include <fmt/format.h>

namespace weir {
namespace {

Plan plan_of(const MegatronCoreJob& job) {
  Plan plan;
  plan.seq_length = job.sequence;
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.tp = job.tp;
  plan.pp = job.pp;
  plan.vpp = job.vpp;
  plan.cp = job.cp;
  // Replicas are what the other degrees leave of the devices.
  plan.dp = job.gpus / (job.tp * job.pp * job.cp);
  plan.micro_batch_size = job.micro_batch_size;
  plan.microbatches = job.microbatches;
  // Micro-batches where they are stated, else from the mini-batch.
  if (plan.microbatches == 0 && plan.dp > 0)
    plan.microbatches = job.global_batch / (plan.dp * plan.micro_batch_size);
  // These recipes divide by tokens wherever they divide layers.
  plan.sequence_parallel = plan.tp > 1;
  plan.zero = job.zero;
  // Every recipe of these tables that divides layers has tp_comm_overlap, but for products in 4
  // bits (NVIDIA-NeMo/Megatron-Bridge@067f987: perf_recipes/llama; NeMo's ub_tp_comm_overlap), and
  // the defaults beside it reduce and gather beside the passes (training/comm_overlap.py).
  plan.overlap_tensor_parallel = plan.tp > 1;
  plan.overlap_grad_reduce = plan.overlap_param_gather = plan.replicas() > 1;
  plan.schedule = plan.vpp > 1 ? "interleaved-1f1b" : "1f1b";
  plan.slots = 0;
  if (job.recompute) plan.recompute.mode = RecomputeMode::full;
  return plan;
}

std::string contradiction(const MegatronCoreJob& job, const Plan& plan) {
  if (plan.devices() != job.gpus)
    return "its devices are no multiple of tp x pp x cp, so its model had fewer layers";
  const std::int64_t batch = plan.global_batch_size();
  if (job.global_batch > 0 && batch != job.global_batch)
    return "its micro-batches do not make its mini-batch";
  return "";
}

}  // namespace

MeasuredRun megatron_core_run(const MegatronCoreJob& job, DecoderShelf& shelf) {
  MeasuredRun run;
  run.model_name = job.model;
  run.plan = plan_of(job);
  run.unforeseen = contradiction(job, run.plan);
  const DecoderSizes* sizes = known_decoder(job.model);
  if (sizes == nullptr) run.unforeseen = "the shape of its model is not stated";
  if (!run.unforeseen.empty()) return run;
  run.model = shelf.get(*sizes, job.sequence, AttentionKind::fused);
  set_machine(run, job.cluster, "megatron-core");
  set_products(run, job.fp8);
  if (sizes->layers % run.plan.stages() != 0)
    run.cluster.stack.placement = StagePlacement::embedding_head;
  place_stages(run);
  return run;
}

}  // namespace weir
