// Arguments that no reader asks for: which of them change neither time nor memory of a training
// step, and why the others matter. What is in neither table is listed as not understood.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/job/unmodelled.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {
namespace megatron_words {

// Data, files, logs, evaluation, start-up: between steps or beside them.
constexpr std::string_view kHarmlessPrefixes[] = {
    "log-", "tensorboard", "wandb-", "save", "load", "eval-", "data-", "lr-", "min-lr", "train-",
    "valid-", "test-", "exit-", "tokenizer", "split", "ckpt-", "dist-ckpt-", "profile", "timing-",
    "rdzv-", "master-", "node-rank", "node", "account", "jobid", "cpu-bind", "container-", "ntasks",
    "mem-per", "gpu-bind", "time", "output", "finetune", "override-", "error", "job-",
    // Monitors, restarts and start-up.
    "adlr-autoresume", "one-logger", "enable-one-logger", "app-tag-", "non-persistent-",
    "memory-snapshot", "num-dataset-builder", "straggler-", "use-tokenizer-model-from",
    // slime's rollouts, which are no part of a training step.
    "rollout-", "over-sampling-", "num-rollout", "sglang-", "n-samples-", "rm-", "advantage-",
    "eps-clip", "kl-loss-", "entropy-", "prompt-", "input-key", "label-key", "apply-chat-",
    "ref-load", "hf-checkpoint", "balance-data", "dynamic-sampling-", "update-weight-", "kl-coef",
    // ms-swift's and Primus's data and logs, and what a server of a model takes.
    "dataset", "dataloader-", "stderr-sink-", "tiktoken-", "inference-max-", "num-tokens-to-",
    "incoming-requests-"};
constexpr std::string_view kHarmless[] = {
    "num-workers", "seed", "lr", "split", "mmap-warmup", "vocab-extra-ids", "reset-position-ids",
    "reset-attention-mask", "eod-mask-loss", "decoupled-lr", "decoupled-min-lr",
    "start-weight-decay", "end-weight-decay", "weight-decay-incr-style",
    "override-opt-param-scheduler", "use-checkpoint-opt-param-scheduler", "use-checkpoint-args",
    "no-load-optim", "no-load-rng", "no-save-optim", "no-save-rng", "loss-scale",
    "initial-loss-scale", "min-loss-scale", "loss-scale-window", "hysteresis",
    "init-method-xavier-uniform", "rotary-base", "rotary-interleaved", "rope-theta",
    "use-rope-scaling", "rope-scaling-factor", "rotary-seq-len-interpolation-factor",
    "distributed-backend", "distributed-timeout-minutes", "local-rank", "use-mcore-models",
    "use-legacy-models", "mock-data", "kill-switch-path", "abort-on-unmet-fused-kernel-constraints",
    "deepspeed-config", "skip-train", "no-create-attention-mask-in-dataloader",
    "calculate-per-token-loss", "check-for-nan-in-loss-and-grad",
    "no-check-for-nan-in-loss-and-grad", "manual-gc", "manual-gc-interval",
    "attention-softmax-in-fp32", "max-restarts", "tiktoken-pattern", "no-mmap-bin-files",
    "mmap-bin-files", "create-attention-mask-in-dataloader", "disable-last-saving",
    "no-data-sharding", "dataloader-type", "no-barrier-with-level-1-timing",
    "no-log-loss-scale-to-tensorboard", "kill-on-bad-exit", "wait", "label", "export", "unbuffered",
    "norm-target-loss", "loss-on-targets-only", "reset-progress", "universal-checkpoint",
    "codecarbon-dir", "tee", "mscale", "mscale-all-dim", "rotary-scaling-factor", "beta-fast",
    "beta-slow", "original-max-position-embeddings", "async-save", "use-persistent-ckpt-worker",
    "auto-detect-ckpt-format", "pretrained-checkpoint", "trust-remote-code", "te-rng-tracker",
    "apply-query-key-layer-scaling", "straggler-minmax-count", "fp8-margin", "fp8-interval",
    "fp8-amax-history-len", "fp8-amax-compute-algo", "model-type", "trainable", "num-samples",
    "num-train-epochs", "agent-template", "perform-initialization", "barrier-with-L1-time",
    "temperature", "top-k", "return-log-probs", "max-tokens-to-oom", "use-pytorch-profiler",
    // Numbers of a router of a few products a token.
    "moe-aux-loss-coeff", "moe-z-loss-coeff", "moe-router-score-function",
    "moe-router-bias-update-rate", "moe-router-topk-scaling-factor",
    // Experts as full as each other, as plans have them.
    "moe-router-force-load-balancing", "moe-grouped-gemm"};  // as the costs have it

// Of experts, what has a size's name and is none.
constexpr std::string_view kMoe = "moe-";
constexpr std::string_view kRouting[] = {"moe-router-num-groups", "moe-hybridep-num-sms",
                                         "moe-deepep-num-sms"};
constexpr std::string_view kDoubtfulSize =
    "names a size and is not understood: parameters, memory and time are in doubt";

struct Matter {
  std::string_view prefix;
  std::string_view why;
};
constexpr std::string_view kKernels = "another kernel, not modelled: the costs in use decide";
constexpr std::string_view kOverlapsWork = "hides or moves communication, not modelled";
constexpr Matter kMatters[] = {
    {"use-dynamic-batch-size",
     "micro-batches of as many samples as fit: in the plan they are all alike"},
    {"max-tokens-per-gpu", "what fits a micro-batch: --seq-length and -b say it to the plan"},
    {"modules-to-save",
     "modules that are trained as a whole beside adapters, not modelled: their gradients and "
     "optimizer's state are not in the forecast"},
    {"use-kl-loss", "a second model's forwards beside the step, not modelled"},
    {"cp-comm-type", "how context parallelism moves keys and values; the forecast gathers them"},
    {"overlap-", kOverlapsWork},
    {"no-overlap-", kOverlapsWork},
    {"tp-comm-", kOverlapsWork},
    {"delay-", kOverlapsWork},
    {"defer-", "moves work to the end of the step, not modelled"},
    {"wgrad-", "moves work to the end of the step, not modelled"},
    {"no-async-tensor-model-parallel", kOverlapsWork},
    {"DDP-impl", "how gradients are summed over replicas, not modelled"},
    {"ddp-", "how gradients are summed over replicas, not modelled"},
    {"grad-reduce-in-", "gradients' format when they are summed; the plan says fp32"},
    {"main-", "format of the optimizer's state, not in the plan"},
    {"exp-avg-", "format of the optimizer's state, not in the plan"},
    {"use-precision-aware-optimizer", "format of the optimizer's state, not in the plan"},
    {"optimizer-offload", "keeps the optimizer's state in host memory; not modelled"},
    {"cpu-offload", "keeps tensors in host memory; not modelled"},
    {"offload-", "keeps tensors in host memory; not modelled"},
    {"cpu-optimizer", "keeps the optimizer's state in host memory; not modelled"},
    {"fp8-", "a detail of products in 8 bits, not modelled"},
    {"first-last-layers-bf16",
     "the first and last blocks' products are not in 8 bits, in the plan "
     "all are"},
    {"fp4-", "products in 4 bits; the plan has the format around them"},
    {"transformer-impl", kKernels},
    {"cross-entropy-", kKernels},
    {"no-", "switches off something that is on by default; not modelled"},
    {"apply-rope-fusion", kKernels},
    {"bias-", kKernels},
    {"masked-softmax-fusion", kKernels},
    {"use-fused-", kKernels},
    {"use-flashinfer-", kKernels},
    {"deterministic-mode", "kernels that repeat their bits, not modelled: the costs in use decide"},
    {"use-nccl-ub", "collectives from registered memory, not modelled"},
    {"rerun-mode", "makes steps again to check their results; not modelled"},
    {"cuda-graph", "a detail of launches without the host, not modelled"},
    {"rampup-batch-size", "the batch grows; the plan is for its last size"},
    {"step-batch-size-schedule", "the batch grows; the plan is for its last size"},
    {"distribute-saved-activations",
     "shares what re-materialisation keeps among ranks; not modelled"},
    {"partition-activations", "shares what re-materialisation keeps among ranks; not modelled"},
    {"empty-unused-memory-level", "frees memory between steps, which takes time; not modelled"},
    {"moe-", "a detail of the experts, not modelled"},
    {"sync-tp-duplicated-parameters", "sums over tensor-parallel ranks; not modelled"},
};

}  // namespace megatron_words
}  // namespace

bool says_default(std::string_view name, std::string_view value) {
  constexpr std::string_view kStates[] = {"exp-avg-dtype", "exp-avg-sq-dtype", "main-grads-dtype",
                                          "main-params-dtype"};
  if (std::ranges::find(kStates, name) != std::end(kStates)) return value == "fp32";
  // On or 1 where nothing is said (core/transformer/transformer_config.py, core/distributed/
  // distributed_data_parallel_config.py, core/optimizer/optimizer_config.py @d98e8a64ddf3).
  constexpr std::string_view kOn[] = {
      "align-grad-reduce",          "align-param-gather", "clone-scatter-output-in-embedding",
      "gradient-reduce-div-fusion", "pin-cpu-grads",      "pin-cpu-params"};
  constexpr std::string_view kEnds[] = {"num-layers-at-start-in-bf16", "num-layers-at-end-in-bf16"};
  if (std::ranges::find(kOn, name) != std::end(kOn)) return value.empty() || says_true(value);
  if (std::ranges::find(kEnds, name) != std::end(kEnds)) return value == "1";
  if (name == "wgrad-deferral-limit" || name == "empty-unused-memory-level") return value == "0";
  return name == "rerun-mode" && value == "disabled";
}

UnreadArgument unread_argument(std::string_view name) {
  using namespace megatron_words;
  if (std::ranges::find(kHarmless, name) != std::end(kHarmless)) return {};
  if (is_of_adapters(name)) return {Fate::unknown, kFullTraining};
  const bool of_experts = name.starts_with(kMoe);
  if (of_experts && std::ranges::find(kRouting, name) == std::end(kRouting) && names_a_size(name))
    return {Fate::unknown, kDoubtfulSize};
  for (const Matter& matter : kMatters) {
    if (name.starts_with(matter.prefix)) return {Fate::not_carried, matter.why};
  }
  for (const std::string_view prefix : kHarmlessPrefixes) {
    if (name.starts_with(prefix)) return {};
  }
  if (names_a_size(name)) return {Fate::unknown, kDoubtfulSize};
  if (name == "spec") {
    return {
        Fate::unknown,
        "names a module whose blocks are not followed: Megatron's own are taken, and parameters "
        "and memory are in doubt"};
  }
  return {Fate::unknown, "not understood: it may change time or memory"};
}

}  // namespace weir
