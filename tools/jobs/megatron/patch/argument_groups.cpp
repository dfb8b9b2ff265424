// The tables of arguments that go together.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/patch/argument_groups.hpp"

#include <array>
#include <cstddef>

namespace weir {
namespace {

constexpr std::array<std::string_view, 8> kStages{
    "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank",
    "pipeline-model-parallel-layout",        "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",      "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",    "pp-partition-method"};
constexpr std::array<std::string_view, 8> kRecompute{
    "recompute-activations", "recompute-granularity",
    "recompute-method",      "recompute-num-layers",
    "recompute-modules",     "checkpoint-activations",
    "checkpoint-num-layers", "activations-checkpoint-method"};
constexpr std::array<std::string_view, 8> kSharding{"use-distributed-optimizer",
                                                    "ckpt-format",
                                                    "use-megatron-fsdp",
                                                    "use-custom-fsdp",
                                                    "use-torch-fsdp2",
                                                    "torch-fsdp2-no-reshard-after-forward",
                                                    "data-parallel-sharding-strategy",
                                                    "zero-stage"};
constexpr std::array<std::string_view, 2> kAttention{"attention-backend", "use-flash-attn"};
constexpr std::array<std::string_view, 4> kSchedule{
    "enable-zero-bubble", "zero-bubble-max-pending-backward", "zero-bubble-v-schedule",
    "zero-bubble-v-schedule-mem-setup"};
constexpr std::array<std::string_view, 3> kFormat{"bf16", "fp16",
                                                  "accumulate-allreduce-grads-in-fp32"};
constexpr std::array<std::string_view, 1> kTensor{"tensor-model-parallel-size"};
constexpr std::array<std::string_view, 1> kPipeline{"pipeline-model-parallel-size"};
constexpr std::array<std::string_view, 1> kContext{"context-parallel-size"};
constexpr std::array<std::string_view, 2> kSequence{"sequence-parallel", "tp-comm-overlap"};
constexpr std::array<std::string_view, 2> kReduction{"overlap-grad-reduce", "overlap-param-gather"};
constexpr std::array<std::string_view, 1> kGroups{
    "microbatch-group-size-per-virtual-pipeline-stage"};
constexpr std::string_view kUnchecked = "no-check-for-nan-in-loss-and-grad";
constexpr std::array<std::string_view, 6> kGraphs{"cuda-graph-impl",     "cuda-graph-modules",
                                                  "cuda-graph-scope",    "enable-cuda-graph",
                                                  "external-cuda-graph", kUnchecked};
constexpr std::array<std::string_view, 1> kRankOrder{"use-tp-pp-dp-mapping"};
constexpr std::array<std::string_view, 1> kMicroBatch{"micro-batch-size"};
constexpr std::array<std::string_view, 1> kBatch{"global-batch-size"};
constexpr std::array<std::string_view, 1> kTokens{"seq-length"};
constexpr std::array<std::string_view, 3> kExperts{"expert-model-parallel-size",
                                                   "expert-tensor-parallel-size",
                                                   "overlap-moe-expert-parallel-comm"};
constexpr std::array<std::string_view, 5> kOffload{"fine-grained-activation-offloading",
                                                   "offload-modules", "activation-offload-fraction",
                                                   "cpu-offloading", "cpu-offloading-num-layers"};
constexpr std::array<std::string_view, 1> kOffloadsInFlight{
    "fine-grained-offloading-max-inflight-offloads"};
constexpr std::string_view kPrecise = "use-precision-aware-optimizer";
constexpr std::array<std::string_view, 3> kHost{"optimizer-cpu-offload",
                                                "optimizer-offload-fraction", kPrecise};
constexpr std::array<std::string_view, 1> kInstances{"num-distributed-optimizer-instances"};
constexpr std::array<std::string_view, 5> kFp8{"fp8-format", "fp8-recipe", "fp8-param-gather",
                                               "fp8-hybrid", "fp8-e4m3"};
constexpr std::array<std::string_view, 2> kPrediction{"mtp-num-layers", "mtp-loss-scaling-factor"};
constexpr std::array<std::string_view, 3> kDispatch{
    "moe-token-dispatcher-type", "moe-enable-deepep", "moe-flex-dispatcher-backend"};
constexpr std::array<ArgumentGroup, 25> kRun{
    kStages, kRecompute, kSharding,   kAttention,       kSchedule,  kFormat,    kFp8,
    kTensor, kPipeline,  kContext,    kSequence,        kReduction, kRankOrder, kMicroBatch,
    kBatch,  kTokens,    kExperts,    kDispatch,        kGroups,    kGraphs,    kOffload,
    kHost,   kInstances, kPrediction, kOffloadsInFlight};
constexpr std::array<std::string_view, 4> kMuon{"optimizer", "muon-momentum", "muon-nesterov",
                                                "muon-num-ns-steps"};
constexpr std::array<std::string_view, 11> kRate{"lr-decay-style",
                                                 "lr-warmup-iters",
                                                 "lr-warmup-samples",
                                                 "lr-warmup-fraction",
                                                 "lr-decay-iters",
                                                 "lr-decay-samples",
                                                 "min-lr",
                                                 "lr-warmup-init",
                                                 "lr-wsd-decay-style",
                                                 "lr-wsd-decay-iters",
                                                 "lr-wsd-decay-samples"};
// Each says one thing alone.
constexpr std::array<std::string_view, 8> kAlone{"lr",           "weight-decay", "clip-grad",
                                                 "seed",         "adam-eps",     "adam-beta1",
                                                 "sgd-momentum", "adam-beta2"};
constexpr ArgumentGroup alone(std::size_t index) { return {&kAlone[index], 1}; }
constexpr std::array<ArgumentGroup, 10> kTraining{kRate,    kMuon,    alone(0), alone(1), alone(2),
                                                  alone(3), alone(4), alone(5), alone(6), alone(7)};

}  // namespace

ArgumentGroup reduction_arguments() { return kReduction; }
ArgumentGroup muon_arguments() { return kMuon; }
std::span<const ArgumentGroup> run_arguments() { return kRun; }
std::span<const ArgumentGroup> training_arguments() { return kTraining; }

// Graphs of whole steps and the host's optimizer need these, others may have them.
bool stays_alone(std::string_view argument) {
  return argument == kUnchecked || argument == kPrecise;
}

}  // namespace weir
