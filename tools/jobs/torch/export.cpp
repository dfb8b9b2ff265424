// The plan for torch.distributed.pipelining: the order as PyTorch's CSV and a script that runs it
// on layers of transformers (torch_layers.py) or on the user's.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/script.hpp"
#include "tools/jobs/torch/torch_layers.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir {
namespace {

constexpr std::string_view kTorchScript = R"py(#!/usr/bin/env python3
"""Runs a plan by torch.distributed.pipelining. Written by weir export@WHOSE@.

    @LAUNCH@

Layers of the plan's model, in its order:
@LAYERS@
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.utils.checkpoint import checkpoint

MICROBATCHES = @M@
MICRO_BATCH_SIZE = @B@
SEQ_LENGTH = @TOKENS@
BOUNDS = @BOUNDS@  # first layer of each stage, then one past the last
RANK_OF_STAGE = @RANKS@
RECOMPUTE = @RECOMPUTE@  # the stage at once ("stage"), or these layers one at a time
DTYPE = torch.@DTYPE@
SEED = @SEED@
STAGES = len(RANK_OF_STAGE)
HERE = os.path.dirname(os.path.abspath(__file__))

@MODEL@

def loss(output, target):
    """The loss of one micro-batch, a mean."""
    return torch.nn.functional.cross_entropy(output.flatten(0, -2).float(), target.flatten())

@LOSS@
def optimizer(parameters):
    """Matrices decay; biases and norms do not."""
    groups = [{"params": [p for p in parameters if p.dim() > 1]},
              {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
    return @OPTIMIZER@


class Dense(torch.autograd.Function):
    """The identity, whose gradient lies densely in memory."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous()


class StageModule(torch.nn.Module):
    def __init__(self, modules, first):
        super().__init__()
        self.body = torch.nn.ModuleList(modules)
        self.first = first  # layer of the model

    def run(self, *x):
        """Each layer takes what the one before returns, one tensor or several."""
        for layer, module in enumerate(self.body, self.first):
            again = self.training and RECOMPUTE != "stage" and layer in RECOMPUTE
            x = checkpoint(module, *x, use_reentrant=False) if again else module(*x)
            x = x if isinstance(x, tuple) else (x,)
        return x

    def forward(self, *x):
        """Messages are sent as they lie in memory: both ends of a boundary are made dense."""
        x = tuple(Dense.apply(each) if each.requires_grad else each for each in x)
        whole = self.training and RECOMPUTE == "stage"
        x = checkpoint(self.run, *x, use_reentrant=False) if whole else self.run(*x)
        x = tuple(each.contiguous() for each in x)
        return x[0] if len(x) == 1 else x


class Trainer:
    """One rank of the pipeline; its ranks are those of the group (None: all)."""

    def __init__(self, device, group=None):
        self.group, rank = group, dist.get_rank(group)
        self.mine = [s for s in range(STAGES) if RANK_OF_STAGE[s] == rank]
        self.stages = []
        for s in self.mine:
            modules = layers(BOUNDS[s], BOUNDS[s + 1])
            count = BOUNDS[s + 1] - BOUNDS[s]
            assert len(modules) == count, f"stage {s}: {len(modules)} modules, not {count}"
            body = StageModule(modules, BOUNDS[s]).to(device, DTYPE)
            self.stages.append(PipelineStage(body, s, STAGES, device, group=group))
        self.tie()
        self.schedule = _PipelineScheduleRuntime(self.stages, n_microbatches=MICROBATCHES,
                                                 loss_fn=loss)
        placement = dict(enumerate(RANK_OF_STAGE))
        self.schedule.stage_index_to_group_rank = placement
        for stage in self.stages:
            stage.stage_index_to_group_rank = placement
        self.schedule._load_csv(os.path.join(HERE, "schedule.csv"), format="compute_only")
        # PyTorch divides the gradients of each stage, those of a weight of two of them twice.
        self.schedule.scale_grads = False
        self.parameters = list(dict.fromkeys(p for stage in self.stages
                                             for p in stage.submod.parameters()))
        self.optimizer = optimizer(self.parameters)

    def layer(self, index):
        """Layer `index` of the model where this rank has it, else None."""
        for s, stage in zip(self.mine, self.stages):
            if BOUNDS[s] <= index < BOUNDS[s + 1]:
                return stage.submod.body[index - BOUNDS[s]]
        return None

    def tie(self):
        """The head's weight is the embedding's: one where a rank has both, else two that stay
        equal, since their gradients are summed."""
        self.twins, self.twin = None, None
        self.shared = shared(self)  # (weight, group of the ranks that have it)
        if not TIED:
            return
        first, last = self.layer(0), self.layer(BOUNDS[-1] - 1)
        if first is not None and last is not None:
            last.weight = first.tokens.weight
        elif RANK_OF_STAGE[0] != RANK_OF_STAGE[-1]:
            ranks = dist.get_process_group_ranks(self.group or dist.group.WORLD)
            self.twins = dist.new_group([ranks[r] for r in (RANK_OF_STAGE[0], RANK_OF_STAGE[-1])],
                                        use_local_synchronization=True)
            self.twin = first.tokens.weight if first else last.weight if last else None

    def step(self, x, target):
        """One update; the mean loss where the last stage is, else None."""
        self.optimizer.zero_grad()
        losses = []
        inputs = x if isinstance(x, tuple) else (x,)
        self.schedule.step(*(inputs if 0 in self.mine else ()),
                           **({"target": target, "losses": losses}
                              if STAGES - 1 in self.mine else {}))
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.div_(MICROBATCHES)
        if self.twin is not None:
            dist.all_reduce(self.twin.grad, group=self.twins)
        for weight, group in self.shared:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            dist.all_reduce(weight.grad, group=group)
        self.optimizer.step()
        return torch.stack(losses).mean() if losses else None


def main():
    options = argparse.ArgumentParser(description="Trains by the plan beside this script.")
    options.add_argument("--steps", type=int, default=10)
    steps = options.parse_args().steps
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    trainer = Trainer(device)
    for _, (x, target) in zip(range(steps), batches(device)):
        value = trainer.step(x, target)
        if value is not None:
            print(f"loss {value.item():.4f}", flush=True)
    dist.destroy_process_group()


if not torch.cuda.is_available() and hasattr(PipelineStage, "_get_init_p2p_neighbors_ops"):
    # torch 2.9: its first messages have two sizes at their two ends, which gloo refuses
    PipelineStage._get_init_p2p_neighbors_ops = lambda self: []
if __name__ == "__main__":
    main()
)py";

// The user's to fill in.
constexpr std::string_view kUsersModel = R"py(TIED = False


def layers(first, last):
    """Layers first to last - 1 of the model's @COUNT@ as modules; each takes what the one before
    returns."""
    raise NotImplementedError("layers")


def batches(device):
    """Yields (input, target) of MICROBATCHES * MICRO_BATCH_SIZE samples on the device."""
    raise NotImplementedError("batches")


def shared(trainer):
    """(weight, group of the ranks that have it), where several stages have one."""
    return []

)py";

// The module that `weir plan --from torch` read, cut as it was read (kTorchGraph stands before it).
constexpr std::string_view kOwnModel = R"py(import @MODULE@ as source

TIED = False


def built():
    """(module, example inputs) on every rank with the same weights."""
    torch.manual_seed(SEED)
    return source.@FUNCTION@()


class Whole:
    """The model's layers, @COUNT@, cut once a process."""

    layers = None

    @classmethod
    def cut(cls):
        if cls.layers is None:
            module, inputs = built()
            inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
            cls.layers = layers_of(module, resized(inputs, MICRO_BATCH_SIZE), crossing=@CROSSING@)
        return cls.layers


def layers(first, last):
    """Layers first to last - 1 of the model as modules; each takes what the one before returns."""
    return [layer.module for layer in Whole.cut()[first:last]]


def shared(trainer):
    """(weight, group of the ranks that have it), where stages of several ranks have one: their
    gradients are summed."""
    users = {}
    for place, layer in enumerate(Whole.cut()):
        stage = sum(bound <= place for bound in BOUNDS[1:-1])
        for parameter in layer.module.parameters():
            ranks = users.setdefault(id(parameter), (parameter, set()))[1]
            ranks.add(RANK_OF_STAGE[stage])
    mine, found = dist.get_rank(trainer.group), []
    world = dist.get_process_group_ranks(trainer.group or dist.group.WORLD)
    for parameter, ranks in users.values():
        if len(ranks) > 1 and mine in ranks and parameter.requires_grad:
            group = dist.new_group([world[rank] for rank in sorted(ranks)],
                                   use_local_synchronization=True)
            found.append((parameter, group))
    return found


def batches(device):
    """Yields (input, target): those of the source's batches(samples, device) where it has that,
    else the example's inputs, drawn anew where they are real numbers, and drawn classes."""
    samples = MICROBATCHES * MICRO_BATCH_SIZE
    if hasattr(source, "batches"):
        yield from source.batches(samples, device)
        return
    module, inputs = built()
    inputs = resized(inputs if isinstance(inputs, (tuple, list)) else (inputs,), samples)
    with torch.no_grad():
        output = all_tensors(module.to(DTYPE)(*inputs))[0]
    draw = torch.Generator().manual_seed(SEED)
    while True:
        drawn = tuple(torch.randn(x.shape, generator=draw).to(DTYPE) if x.is_floating_point() else x
                      for x in inputs)
        target = torch.randint(output.shape[-1], output.shape[:-1], generator=draw)
        yield tuple(x.to(device) for x in drawn), target.to(device)

)py";

constexpr const char* kOwnLoss = "\nloss = getattr(source, \"loss\", loss)\n\n";

// Layers of transformers (kTorchLayers stands before it), and random tokens.
constexpr std::string_view kKnownModel = R"py(import json

with open(os.path.join(HERE, "config.json")) as file:
    CONFIG = model_config(json.load(file), attention="@ATTENTION@")
TIED = is_tied(CONFIG)
BESIDE = Beside(CONFIG)


def layers(first, last):
    """Layers first to last - 1 of the model, of @COUNT@, with new weights."""
    return [make_layer(CONFIG, layer, BESIDE, SEED) for layer in range(first, last)]


def batches(device):
    """Yields (input, target): random tokens, to be replaced by the job's data."""
    draw = torch.Generator().manual_seed(SEED)
    size = (MICROBATCHES * MICRO_BATCH_SIZE, SEQ_LENGTH + 1)
    while True:
        tokens = torch.randint(CONFIG.vocab_size, size, generator=draw).to(device)
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def shared(trainer):
    """The tied weight is a twin of its own."""
    return []

)py";

// The families of which torch_layers.py makes the layers, and the model is one of them as it stands
// in its config.json.
bool has_layers(const ResolvedPlan& loaded, const ExportOptions& options) {
  const std::string& family = loaded.model.family;
  return !options.model_config.empty() && (family == "gpt2" || family == "llama");
}

// Of a plan from `weir plan --from torch`: the module's name in Python, the function that builds
// it, and its file's text; empty where it is of a package.
struct OwnModel {
  std::string module, function, crossing, text;
};

std::optional<OwnModel> own_model(const SourceJob& job) {
  if (job.tool != "torch" || job.lines.size() < 2) return std::nullopt;
  const std::string& build = job.lines[0];
  const std::size_t colon = build.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  OwnModel own{build.substr(0, colon), build.substr(colon + 1), job.lines[1], {}};
  const std::string_view word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const bool file = own.module.ends_with(".py");
  // They become Python of a script: names, and nothing else.
  if (own.function.find_first_not_of(word) != std::string::npos ||
      own.crossing.find_first_not_of("0123456789") != std::string::npos ||
      (!file && own.module.find_first_not_of(std::string(word) + ".") != std::string::npos))
    throw InputError("plan", "job", build + ": expected FILE.py:FUNCTION or PACKAGE:FUNCTION");
  if (file) {
    own.module = "own_model";
    own.text = job_text({job.lines.begin() + 2, job.lines.end()});
  }
  return own;
}

std::string model_section(const ResolvedPlan& loaded, const ExportOptions& options) {
  const std::pair<std::string_view, std::string> count{"COUNT",
                                                       std::to_string(loaded.model.layers.size())};
  if (const auto own = own_model(loaded.plan.job)) {
    return std::string(torch_graph_script()) + "\n\n" +
           filled(kOwnModel, {count,
                              {"MODULE", own->module},
                              {"FUNCTION", own->function},
                              {"CROSSING", own->crossing}});
  }
  if (!has_layers(loaded, options)) return filled(kUsersModel, {count});
  const bool fused = loaded.plan.attention == AttentionKind::fused;
  return std::string(torch_layers_script()) + "\n\n" +
         filled(kKnownModel, {count, {"ATTENTION", fused ? "fused" : "unfused"}});
}

// Python for what the script's forward makes again.
std::string recomputed(const ResolvedPlan& loaded) {
  if (loaded.plan.recompute.mode == RecomputeMode::stage) return "\"stage\"";
  std::vector<int> layers;
  for (int l = 0; l < loaded.part->size(); ++l) {
    if (rebuilds(loaded.plan.recompute, loaded.part->layer(l), l)) layers.push_back(l);
  }
  return fmt::format("{}", layers);
}

// The module that a layer of a family's class is called there, as `pipeline(split_spec=...)` takes
// it; of other models the layer's own name.
std::string module_name(const Model& model, int layer) {
  const auto last = static_cast<int>(model.layers.size()) - 1;
  const bool gpt2 = model.family == "gpt2", llama = model.family == "llama";
  if (!gpt2 && !llama) return model.layers[static_cast<std::size_t>(layer)].name;
  if (layer == last) return "lm_head";
  if (layer == last - 1) return gpt2 ? "transformer.ln_f" : "model.norm";
  if (layer == 0) return gpt2 ? "transformer.wte" : "model.embed_tokens";
  return fmt::format("{}.{}", gpt2 ? "transformer.h" : "model.layers", layer - 1);
}

// Where each stage but the first begins, for torch.distributed.pipelining.pipeline's split_spec.
std::string split_points(const ResolvedPlan& loaded) {
  Json json = Json::object();
  const std::vector<int> bounds = bounds_of(loaded);
  for (std::size_t s = 1; s + 1 < bounds.size(); ++s) {
    if (bounds[s] < static_cast<int>(loaded.model.layers.size()))
      json[module_name(loaded.model, bounds[s])] = "SplitPoint.BEGINNING";
  }
  return json.dump(2) + "\n";
}

// Python that makes it.
std::string optimizer_call(const Optimizer& o) {
  const std::string rate = python_number(o.learning_rate), momentum = python_number(o.momentum),
                    decay = python_number(o.weight_decay), epsilon = python_number(o.epsilon);
  switch (o.kind) {
    case OptimizerKind::sgd:
      return fmt::format("torch.optim.SGD(groups, lr={}, momentum={}, weight_decay={}{})", rate,
                         momentum, decay, o.nesterov ? ", nesterov=True" : "");
    case OptimizerKind::rmsprop:
      return fmt::format(
          "torch.optim.RMSprop(groups, lr={}, alpha={}, eps={}, weight_decay={}, momentum={})",
          rate, python_number(o.alpha), epsilon, decay, momentum);
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::muon:  // refused by its row
      break;
  }
  return fmt::format("torch.optim.{}(groups, lr={}, betas=({}, {}), eps={}, weight_decay={})",
                     o.kind == OptimizerKind::adam ? "Adam" : "AdamW", rate, python_number(o.beta1),
                     python_number(o.beta2), epsilon, decay);
}

}  // namespace

ExportedJob export_torch(const ResolvedPlan& loaded, const ExportOptions& options) {
  const Plan& plan = loaded.plan;
  const ScheduleShape& shape = loaded.schedule.shape;
  require_trainer_runs(Trainer::torch, loaded, options.allowed);
  ExportedJob job;
  std::vector<std::int32_t> ranks;
  for (const Rank rank : shape.rank_of_stage) ranks.push_back(rank.value);
  // The script has no other parallelism.
  job.launch = torchrun(nodes_of(Plan{.pp = plan.pp}, options)) + " pipeline.py";
  const std::optional<OwnModel> own = own_model(plan.job);
  const bool known = own || has_layers(loaded, options);
  const std::string whose =
      known ? "" : "; put the model into\nlayers() and the data into batches()";
  job.files.push_back(
      {"pipeline.py", filled(kTorchScript, {{"LAUNCH", job.launch},
                                            {"LAYERS", layer_lines(loaded.model)},
                                            {"WHOSE", whose},
                                            {"MODEL", model_section(loaded, options)},
                                            {"LOSS", own ? kOwnLoss : ""},
                                            {"TOKENS", std::to_string(plan.seq_length)},
                                            {"M", std::to_string(plan.microbatches)},
                                            {"B", std::to_string(plan.micro_batch_size)},
                                            {"BOUNDS", fmt::format("{}", bounds_of(loaded))},
                                            {"RANKS", fmt::format("{}", ranks)},
                                            {"RECOMPUTE", recomputed(loaded)},
                                            {"DTYPE", torch_dtype(plan.dtype)},
                                            {"OPTIMIZER", optimizer_call(plan.optimizer)},
                                            {"SEED", std::to_string(plan.seed)}})});
  job.files.push_back({"schedule.csv", to_csv(loaded.schedule)});
  job.files.push_back({"split_points.json", split_points(loaded)});
  if (own && !own->text.empty()) job.files.push_back({"own_model.py", own->text});
  if (known && !own) job.files.push_back({"config.json", options.model_config});
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
  if (!known && !loaded.ties.empty()) {
    job.not_carried.push_back(
        {"model", "the tied weight: gradients of its two copies must be summed by the user"});
  }
  remark_sharing(plan, "PyTorch", job.not_carried);
  remark_ours(plan, "PyTorch", job.not_carried);
  remark_chunks(plan, "PyTorch's script", job.not_carried);
  remark_rank_order(plan, "PyTorch's script", job.not_carried);
  return job;
}

}  // namespace weir
