// The plan for DeepSpeed's pipeline engine: its JSON, and a PipelineModule that takes the plan's
// partition as it stands.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/job/script.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir {
namespace {

constexpr std::string_view kDeepSpeedScript =
    R"py(#!/usr/bin/env python3
"""Runs a plan by DeepSpeed's pipeline engine. Written by weir export; put the model into )py"
    R"py(layers() and the data into
batches().

    @LAUNCH@

Layers of the plan's model, in its order:
@LAYERS@
"""
import argparse

import deepspeed
import torch
from deepspeed.pipe import PipelineModule

PARTS = @BOUNDS@  # first layer of each stage, then one past the last
CHECKPOINT_INTERVAL = @INTERVAL@  # layers between kept inputs; 0: everything is kept
CHECKPOINTS_IN_CPU = @AWAY@  # as ds_config.json has it, which no engine hands on


class PlannedModule(PipelineModule):
    """DeepSpeed balances stages by its own methods only; this one takes the plan's."""

    def _partition_layers(self, method="uniform"):
        stage = self._topo.get_coord(self.global_rank).pipe
        self.parts = PARTS
        self._set_bounds(start=PARTS[stage], stop=PARTS[stage + 1])


def layers():
    """The model's layers as modules or LayerSpecs, @COUNT@ of them; tied ones as TiedLayerSpec."""
    raise NotImplementedError("layers")


def loss(output, target):
    return torch.nn.functional.cross_entropy(output.flatten(0, -2).float(), target.flatten())


def batches():
    """Yields (input, target) of one micro-batch."""
    raise NotImplementedError("batches")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--steps", type=int, default=10)
    arguments = deepspeed.add_config_arguments(parser).parse_args()
    deepspeed.init_distributed()
    if CHECKPOINTS_IN_CPU:
        deepspeed.checkpointing.configure(None, checkpoint_in_cpu=True)
    torch.manual_seed(@SEED@)
    modules = layers()
    assert len(modules) == PARTS[-1], f"layers() returned {len(modules)} modules, the plan )py"
    R"py(has {PARTS[-1]}"
    model = PlannedModule(modules, num_stages=@K@, loss_fn=loss, )py"
    R"py(activation_checkpoint_interval=CHECKPOINT_INTERVAL)
    engine, _, _, _ = deepspeed.initialize(args=arguments, model=model, )py"
    R"py(model_parameters=model.parameters())
    data = iter(batches())
    for _ in range(arguments.steps):
        engine.train_batch(data_iter=data)


if __name__ == "__main__":
    main()
)py";

Json optimizer_of(const Optimizer& o) {
  Json params{{"lr", o.learning_rate}};
  switch (o.kind) {
    case OptimizerKind::sgd:
      params["momentum"] = o.momentum;
      if (o.nesterov) params["nesterov"] = true;
      params["weight_decay"] = o.weight_decay;
      return {{"type", "SGD"}, {"params", params}};
    case OptimizerKind::rmsprop:
      params["alpha"] = o.alpha;
      params["momentum"] = o.momentum;
      params["eps"] = o.epsilon;
      params["weight_decay"] = o.weight_decay;
      return {{"type", "RMSprop"}, {"params", params}};
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::muon:  // refused by its row
      break;
  }
  params["betas"] = {o.beta1, o.beta2};
  params["eps"] = o.epsilon;
  params["weight_decay"] = o.weight_decay;
  if (o.kind == OptimizerKind::adamw) return {{"type", "AdamW"}, {"params", params}};
  params["adam_w_mode"] = false;
  return {{"type", "Adam"}, {"params", params}};
}

// Its linear decay ends at 0, whatever the plan's minimum is.
Json scheduler_of(const Optimizer& o) {
  const RateSchedule& rate = o.rate;
  Json params{{"warmup_num_steps", rate.warmup_iters}, {"warmup_type", "linear"}};
  if (rate.style != DecayStyle::constant) params["total_num_steps"] = rate.decay_iters;
  if (rate.style == DecayStyle::cosine) {
    params["warmup_min_ratio"] = 0;
    params["cos_min_ratio"] = rate.min_lr / o.learning_rate;
    return {{"type", "WarmupCosineLR"}, {"params", params}};
  }
  params["warmup_min_lr"] = 0;
  params["warmup_max_lr"] = o.learning_rate;
  return {{"type", rate.style == DecayStyle::linear ? "WarmupDecayLR" : "WarmupLR"},
          {"params", params}};
}

Json written_config(const Plan& plan) {
  const Optimizer& o = plan.optimizer;
  Json json;
  json["train_batch_size"] = plan.global_batch_size();
  json["train_micro_batch_size_per_gpu"] = plan.micro_batch_size;
  json["gradient_accumulation_steps"] = plan.microbatches;
  json["optimizer"] = optimizer_of(o);
  if (o.rate != RateSchedule{}) json["scheduler"] = scheduler_of(o);
  json["gradient_clipping"] = o.clip_norm;  // 1 where nothing is said, since June 2026
  json["bf16"] = {{"enabled", plan.dtype == Dtype::bf16}};
  json["fp16"] = {{"enabled", plan.dtype == Dtype::fp16}};
  // The host updates under ZeRO alone, and of one replica 1 is as 0.
  const bool host = plan.offload_optimizer > 0;
  // The pipeline engine takes no more: ZeRO 2 and 3 share gradients before they are all there.
  json["zero_optimization"] = {{"stage", host ? 1 : std::min(plan.zero, 1)}};
  if (host)
    json["zero_optimization"]["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  if (plan.pp > 1) json["pipeline"] = {{"stages", plan.pp}};
  return json;
}

void change(Json& in, const Json& before, const Json& after) {
  for (const auto& [key, value] : after.items()) {
    const bool known = before.contains(key);
    if (known && before[key] == value) continue;
    if (in.contains(key) && in[key].is_object() && value.is_object()) {
      change(in[key], known && before[key].is_object() ? before[key] : Json::object(), value);
    } else {
      in[key] = value;
    }
  }
  for (const auto& [key, value] : before.items()) {
    if (!after.contains(key)) in.erase(key);
  }
}

// Whether rebuilt blocks have their inputs with the host. Where the plan rebuilds none the user's
// file says of their script's own checkpoints what it said.
void set_checkpoints(Json& json, const Plan& plan) {
  constexpr const char *kSection = "activation_checkpointing", *kAway = "cpu_checkpointing";
  const bool away = plan.offload_activations > 0;
  const bool said = json.contains(kSection) && json[kSection].is_object() &&
                    json[kSection].contains(kAway) && plan.recompute.mode == RecomputeMode::full;
  if (away || said) json[kSection][kAway] = away;
}

// A script of the user's may hand on more of the section than pipeline.py does.
void remark_checkpoints(const Json& json, std::vector<Remark>& not_carried) {
  const Json section = json.value("activation_checkpointing", Json::object());
  for (const auto& [key, value] : section.items()) {
    const bool off = value.is_null() || (value.is_boolean() && !value.get<bool>());
    if (key == "cpu_checkpointing" || off) continue;
    not_carried.push_back({"activation_checkpointing." + key,
                           fmt::format("{}: in ds_config.json for a script of yours; pipeline.py "
                                       "hands on cpu_checkpointing alone",
                                       value.dump())});
  }
}

// The user's own configuration, changed where the plan is not what it says; else one of our own.
Json config(const ResolvedPlan& loaded, const std::optional<Job>& own) {
  Json wanted = written_config(loaded.plan);
  Json json = wanted;
  if (own) {
    json = parse_json(job_text(loaded.plan.job.lines), kOwnJob);
    change(json, written_config(own->plan), wanted);
  }
  set_checkpoints(json, loaded.plan);
  return json;
}

}  // namespace

ExportedJob export_deepspeed(const ResolvedPlan& loaded, const ExportOptions& options) {
  const Plan& plan = loaded.plan;
  require_trainer_runs(Trainer::deepspeed, loaded, options.allowed);
  require_stages(loaded, Stack{.name = "DeepSpeed"});
  ExportedJob job;
  const Nodes nodes = nodes_of(plan, options);
  job.launch = fmt::format(
      "deepspeed --num_gpus {} --num_nodes {} pipeline.py --deepspeed --deepspeed_config "
      "ds_config.json",
      nodes.each, nodes.count);
  const std::vector<int> bounds = bounds_of(loaded);
  int longest = 0;
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s)
    longest = std::max(longest, bounds[s + 1] - bounds[s]);
  int interval = 0;
  if (plan.recompute.mode == RecomputeMode::stage) interval = longest;
  if (plan.recompute.mode == RecomputeMode::full) {
    interval = plan.recompute.at_a_time;
    job.not_carried.push_back(
        {"recompute", fmt::format("{}: DeepSpeed rebuilds every layer that has weights",
                                  recompute_word(plan.recompute))});
  }
  const std::optional<Job> own = own_job(loaded, "deepspeed", &read_deepspeed_job);
  job.whole_job = own.has_value();
  const Json json = config(loaded, own);
  remark_checkpoints(json, job.not_carried);
  job.files.push_back({"ds_config.json", json.dump(2) + "\n"});
  job.files.push_back(
      {"pipeline.py",
       filled(kDeepSpeedScript, {{"LAUNCH", job.launch},
                                 {"LAYERS", layer_lines(loaded.model)},
                                 {"COUNT", std::to_string(loaded.model.layers.size())},
                                 {"BOUNDS", fmt::format("{}", bounds)},
                                 {"INTERVAL", std::to_string(interval)},
                                 {"AWAY", plan.offload_activations > 0 ? "True" : "False"},
                                 {"SEED", std::to_string(plan.seed)},
                                 {"K", std::to_string(plan.pp)}})});
  if (plan.schedule != "1f1b" && plan.pp > 1) {
    job.not_carried.push_back(
        {"schedule", fmt::format("{}: DeepSpeed's TrainSchedule runs, a 1f1b", plan.schedule)});
  }
  if (plan.tp > 1)
    job.not_carried.push_back(
        {"tp", "DeepSpeed leaves it to the model: pass a topology and an mpu"});
  if (plan.dtype == Dtype::tf32)
    job.not_carried.push_back({"dtype", "tf32: torch.set_float32_matmul_precision('high')"});
  job.not_carried.push_back(
      {"messages", "DeepSpeed's send and receive wait for each other and overlap nothing"});
  // What the job's own file says, it says still.
  const bool shards = own && own->plan.zero == plan.zero;
  if (plan.zero > 1) {
    job.not_carried.push_back(
        {"zero",
         fmt::format("{}: pipeline.py's engine takes 1 at most, so that devices hold more{}",
                     plan.zero,
                     shards ? ", ds_config.json has the job's, for a script of yours" : "")});
  }
  Plan others = plan;
  others.zero = 0;
  if (own && own->plan.overlap_grad_reduce) others.overlap_grad_reduce = false;
  remark_sharing(others, "DeepSpeed", job.not_carried);
  remark_ours(plan, "DeepSpeed", job.not_carried);
  remark_rank_order(plan, "DeepSpeed", job.not_carried);
  const RateSchedule& rate = plan.optimizer.rate;
  if (rate.style == DecayStyle::linear && rate.min_lr > 0)
    job.not_carried.push_back({"min_lr", "WarmupDecayLR ends at 0"});
  return job;
}

}  // namespace weir
