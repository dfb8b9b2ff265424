// The plan for torch.distributed.pipelining: the order as PyTorch's CSV and a script that runs it
// on the user's layers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/export/export.hpp"
#include "plan/export/script.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::string_view kTorchScript = R"py(#!/usr/bin/env python3
"""Runs a plan by torch.distributed.pipelining. Written by weir export; put the model into )py"
                                          R"py(layers() and the data into
batches().

    @LAUNCH@

Layers of the plan's model, in its order:
@LAYERS@
"""
import os

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.utils.checkpoint import checkpoint

MICROBATCHES = @M@
MICRO_BATCH_SIZE = @B@
BOUNDS = @BOUNDS@  # first layer of each stage, then one past the last
RANK_OF_STAGE = @RANKS@
RECOMPUTE = @RECOMPUTE@  # the stage at once ("stage"), or these layers one at a time
DTYPE = torch.@DTYPE@
STAGES = len(RANK_OF_STAGE)


def layers():
    """The model's layers as modules, @COUNT@ of them; each takes what the one before returns."""
    raise NotImplementedError("layers")


def loss(output, target):
    """The loss of one micro-batch, a mean."""
    return torch.nn.functional.cross_entropy(output.flatten(0, -2).float(), target.flatten())


def batches(device):
    """Yields (input, target) of MICROBATCHES * MICRO_BATCH_SIZE samples on the device."""
    raise NotImplementedError("batches")


def optimizer(parameters):
    return @OPTIMIZER@


class StageModule(torch.nn.Module):
    def __init__(self, modules, first):
        super().__init__()
        self.body = torch.nn.Sequential(*modules)
        self.first = first  # layer of the model

    def forward(self, x):
        if not self.training:
            return self.body(x)
        if RECOMPUTE == "stage":
            return checkpoint(self.body, x, use_reentrant=False)
        for layer, module in enumerate(self.body, self.first):
            x = checkpoint(module, x, use_reentrant=False) if layer in RECOMPUTE else module(x)
        return x


def main():
    cuda = torch.cuda.is_available()
    if not cuda:  # its first messages have two sizes at their two ends (torch 2.9), which )py"
                                          R"py(gloo refuses
        PipelineStage._get_init_p2p_neighbors_ops = lambda self: []
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    torch.manual_seed(@SEED@)
    modules = layers()
    assert len(modules) == BOUNDS[-1], f"layers() returned {len(modules)} modules, the plan )py"
                                          R"py(has {BOUNDS[-1]}"
    mine = [s for s in range(STAGES) if RANK_OF_STAGE[s] == rank]
    stages = [PipelineStage(StageModule(modules[BOUNDS[s]:BOUNDS[s + 1]], BOUNDS[s]))py"
                                          R"py(.to(device, DTYPE), s, STAGES, device)
              for s in mine]
    schedule = _PipelineScheduleRuntime(stages, n_microbatches=MICROBATCHES, loss_fn=loss)
    placement = dict(enumerate(RANK_OF_STAGE))
    schedule.stage_index_to_group_rank = placement
    for stage in stages:
        stage.stage_index_to_group_rank = placement
    schedule._load_csv(os.path.join(os.path.dirname(os.path.abspath(__file__)), )py"
                                          R"py("schedule.csv"), format="compute_only")
    step = optimizer([p for stage in stages for p in stage.submod.parameters()])
    for x, target in batches(device):
        step.zero_grad()
        losses = []
        schedule.step(*([x] if 0 in mine else []), **({"target": target, "losses": losses} if )py"
                                          R"py(STAGES - 1 in mine else {}))
        step.step()
        if losses:
            print(f"loss {torch.stack(losses).mean().item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
)py";

// Python for what the script's forward makes again.
std::string recomputed(const ResolvedPlan& loaded) {
  if (loaded.plan.recompute.mode == RecomputeMode::stage) return "\"stage\"";
  std::vector<int> layers;
  for (int l = 0; l < static_cast<int>(loaded.part->layers.size()); ++l) {
    if (rebuilds(loaded.plan.recompute, loaded.part->layer(l), l)) layers.push_back(l);
  }
  return fmt::format("{}", layers);
}

// Python that makes it.
std::string optimizer_call(const Optimizer& o) {
  const std::string rate = python_number(o.learning_rate), momentum = python_number(o.momentum),
                    decay = python_number(o.weight_decay), epsilon = python_number(o.epsilon);
  switch (o.kind) {
    case OptimizerKind::sgd:
      return fmt::format("torch.optim.SGD(parameters, lr={}, momentum={}, weight_decay={}{})", rate,
                         momentum, decay, o.nesterov ? ", nesterov=True" : "");
    case OptimizerKind::rmsprop:
      return fmt::format(
          "torch.optim.RMSprop(parameters, lr={}, alpha={}, eps={}, weight_decay={}, momentum={})",
          rate, python_number(o.alpha), epsilon, decay, momentum);
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      break;
  }
  return fmt::format("torch.optim.{}(parameters, lr={}, betas=({}, {}), eps={}, weight_decay={})",
                     o.kind == OptimizerKind::adam ? "Adam" : "AdamW", rate, python_number(o.beta1),
                     python_number(o.beta2), epsilon, decay);
}

}  // namespace

ExportedJob export_torch(const ResolvedPlan& loaded, const ExportOptions& options) {
  const Plan& plan = loaded.plan;
  const ScheduleShape& shape = loaded.schedule.shape;
  if (shape.replicas > 1 || shape.segments > 1) {
    throw InputError("plan", "schedule",
                     fmt::format("{}: copies of the weights or slices of sequences are not in "
                                 "torch.distributed.pipelining",
                                 plan.schedule));
  }
  ExportedJob job;
  std::vector<std::int32_t> ranks;
  for (const Rank rank : shape.rank_of_stage) ranks.push_back(rank.value);
  // The script has no other parallelism.
  job.launch = torchrun(nodes_of(Plan{.pp = plan.pp}, options)) + " pipeline.py";
  job.files.push_back(
      {"pipeline.py", filled(kTorchScript, {{"LAUNCH", job.launch},
                                            {"LAYERS", layer_lines(loaded.model)},
                                            {"COUNT", std::to_string(loaded.model.layers.size())},
                                            {"M", std::to_string(plan.microbatches)},
                                            {"B", std::to_string(plan.micro_batch_size)},
                                            {"BOUNDS", fmt::format("{}", bounds_of(loaded))},
                                            {"RANKS", fmt::format("{}", ranks)},
                                            {"RECOMPUTE", recomputed(loaded)},
                                            {"DTYPE", torch_dtype(plan.dtype)},
                                            {"OPTIMIZER", optimizer_call(plan.optimizer)},
                                            {"SEED", std::to_string(plan.seed)}})});
  job.files.push_back({"schedule.csv", to_csv(loaded.schedule)});
  const auto parallel = [&](const char* name, int degree, const char* instead) {
    if (degree > 1) job.not_carried.push_back({name, fmt::format("{}: {}", degree, instead)});
  };
  parallel("tp", plan.tp, "torch.distributed.tensor.parallel is the user's to apply in layers()");
  parallel("cp", plan.cp, "context parallelism is the user's to apply in layers()");
  parallel("dp", plan.dp,
           "replicas are the user's: DistributedDataParallel or fully_shard over each stage");
  if (plan.optimizer.clip_norm > 0)
    job.not_carried.push_back({"clip_norm", "the norm over all ranks' gradients is the user's"});
  if (plan.optimizer.rate != RateSchedule{})
    job.not_carried.push_back({"lr_decay_style", "the script's learning rate is constant"});
  if (plan.dtype == Dtype::tf32)
    job.not_carried.push_back({"dtype", "tf32: torch.set_float32_matmul_precision('high')"});
  if (plan.dtype == Dtype::bf16 || plan.dtype == Dtype::fp16) {
    job.not_carried.push_back(
        {"dtype", "weights are kept in 16 bits there, without a copy in fp32"});
  }
  if (!loaded.ties.empty()) {
    job.not_carried.push_back(
        {"model", "the tied weight: gradients of its two copies must be summed by the user"});
  }
  remark_sharing(plan, "PyTorch", job.not_carried);
  remark_ours(plan, "PyTorch", job.not_carried);
  return job;
}

}  // namespace weir
