// The constraints of Megatron-LM's zero-bubble fork, read in
// sail-sg/zero-bubble-pipeline-parallelism@39f2c186a275 (7 May 2025): it is a Megatron-LM of 2024,
// and has no later argument. Paths are within megatron/.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "tools/jobs/trainers/tables.hpp"

namespace weir {
namespace {

using Facts = TrainerFacts;

constexpr const char* kForkArguments = "training/arguments.py";
constexpr const char* kForkInterleaving =
    "core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving";

bool forks_order(const Facts& f) {
  constexpr std::array<std::string_view, 5> kOrders{"zb-h1", "zb-h2", "zb-v", "v-half", "v-min"};
  const std::string& name = f.plan.schedule;
  return name == (f.plan.vpp > 1 ? "interleaved-1f1b" : "1f1b") ||
         std::ranges::find(kOrders, name) != kOrders.end();
}
bool fork_interleaves(const Facts& f) {
  return f.plan.pp > 1 && f.plan.vpp > 1 && f.placement != ChunkPlacement::v_shaped;
}
bool fork_unfused(const Facts& f) { return f.plan.attention == AttentionKind::unfused; }
std::string fork_zero(const Facts&) { return "0"; }

constexpr TrainerRow kFork[] = {
    {"own-schedules", RowKind::other_order, "schedule",
     [](const Facts& f) { return f.plan.pp > 1 && !forks_order(f); },
     "the fork has 1f1b, interleaved-1f1b, zb-h1, zb-h2, zb-v, v-half and v-min: its 1f1b runs",
     "README"},
    {"interleaved-rounds", RowKind::lacks, "microbatches",
     [](const Facts& f) { return fork_interleaves(f) && f.plan.microbatches % f.plan.pp != 0; },
     "the fork interleaves rounds of K micro-batches alone", kForkInterleaving},
    {"equal-stages", RowKind::lacks, "boundaries",
     [](const Facts& f) { return f.plan.pp > 1 && !f.equal_stages; },
     "the fork's stages hold as many blocks each", kForkArguments},
    {"model", RowKind::lacks, "model", [](const Facts& f) { return f.recent_model; },
     "the fork has no arguments for latent attention, dense blocks among those of experts, groups "
     "of experts, shared experts, a router's bias, angles as Llama 3.1's or an embedding's norm",
     kForkArguments},
    {"router-softmax", RowKind::lacks, "model",
     [](const Facts& f) { return f.experts && f.router_pre_softmax; },
     "the fork's experts' weights are their shares of those chosen",
     "core/transformer/moe/router.py"},
    {"graphs", RowKind::lacks, "cuda_graphs",
     [](const Facts& f) { return !f.plan.cuda_graphs.none(); },
     "the fork's schedules launch kernel by kernel", kForkArguments},
    {"overlapped-experts", RowKind::lacks, "overlap_experts",
     [](const Facts& f) { return f.plan.overlap_experts; },
     "the fork's schedules run one micro-batch at a time", kForkArguments},
    {"offload-activations", RowKind::lacks, "offload_activations",
     [](const Facts& f) { return f.plan.offload_activations > 0; },
     "the fork keeps what the backward reads on the device", kForkArguments},
    {"offload", RowKind::lacks, "offload_optimizer",
     [](const Facts& f) { return f.plan.offload_optimizer > 0; },
     "the fork keeps the optimizer's state on the device", kForkArguments},
    {"rows", RowKind::lacks, "lengths", [](const Facts& f) { return f.plan.lengths.known(); },
     "the fork's rows are one sequence each", kForkArguments},
    {"fp8", RowKind::lacks, "fp8",
     [](const Facts& f) {
       return f.plan.fp8 != Fp8Recipe::none && f.plan.fp8 != Fp8Recipe::delayed;
     },
     "the fork's scales are delayed ones", "core/transformer/transformer_block.py"},
    {"fp8-parameters", RowKind::lacks, "fp8_parameters",
     [](const Facts& f) { return f.plan.fp8_parameters; }, "the fork gathers weights in 16 bits",
     kForkArguments},
    {"adapters", RowKind::lacks, "lora", [](const Facts& f) { return f.plan.lora.rank > 0; },
     "the fork trains all weights", kForkArguments},
    {"frozen-layers", RowKind::lacks, "frozen",
     [](const Facts& f) { return !f.plan.frozen.empty(); },
     "the fork has no argument that freezes layers", kForkArguments},
    {"sharding", RowKind::lacks, "zero", [](const Facts& f) { return f.plan.zero > 1; },
     "the fork shares the optimizer's state alone, as ZeRO 1 does", kForkArguments},
    {"groups", RowKind::lacks, "zero_shards", [](const Facts& f) { return f.plan.zero_shards > 0; },
     "the fork shares the optimizer's state among all replicas", kForkArguments},
    {"second-shards", RowKind::lacks, "zero_secondary",
     [](const Facts& f) { return f.plan.zero_secondary > 0; },
     "the fork shares the optimizer's state alone", kForkArguments},
    {"muon", RowKind::lacks, "optimizer",
     [](const Facts& f) { return f.plan.optimizer.kind == OptimizerKind::muon; },
     "the fork has Adam and SGD", kForkArguments},
    {"prediction", RowKind::lacks, "prediction_layers",
     [](const Facts& f) { return f.plan.prediction_layers > 0; },
     "the fork has no blocks that predict further tokens", kForkArguments},
    {"recompute-modules", RowKind::lacks, "recompute",
     [](const Facts& f) {
       const Recompute& recompute = f.plan.recompute;
       return recompute.mode == RecomputeMode::selective &&
              recompute.modules != ModuleSet(BlockModule::core_attn);
     },
     "the fork rebuilds attention's core, or whole blocks", kForkArguments},
    {"dispatch", RowKind::lacks, "expert_dispatch",
     [](const Facts& f) { return f.plan.expert_dispatch == ExpertDispatch::once; },
     "the fork's tokens are exchanged all to all, or gathered", kForkArguments},
    {"divided-experts", RowKind::lacks, "etp", [](const Facts& f) { return f.plan.etp > 0; },
     "the fork divides experts by all of tp", kForkArguments},
    {"experts-format", RowKind::lacks, "dtype",
     [](const Facts& f) { return f.plan.ep > 1 && f.plan.dtype == Dtype::fp16; },
     "the fork has no expert parallelism in fp16", kForkArguments},
    {"experts-sequence-parallel", RowKind::lacks, "sequence_parallel",
     [](const Facts& f) { return f.experts && f.plan.tp > 1 && !f.plan.sequence_parallel; },
     "the fork trains experts under tensor parallelism with sequence parallelism alone",
     "core/transformer/moe/moe_layer.py"},
    {"stage-of-the-norm", RowKind::lacks, "boundaries", [](const Facts& f) { return f.norm_alone; },
     "the fork's last stage has the final norm beside the head: none has it alone",
     "core/transformer/transformer_block.py"},
    {"connections", RowKind::environment, "tp", [](const Facts&) { return true; },
     "collectives of tensor and context parallelism are launched in order through one queue",
     kForkArguments, "CUDA_DEVICE_MAX_CONNECTIONS", [](const Facts&) { return std::string("1"); }},
    {"no-flash-attention", RowKind::environment, "attention", fork_unfused,
     "Transformer Engine takes a fused kernel where nothing is said",
     "core/transformer/custom_layers/transformer_engine.py, TEDotProductAttention",
     "NVTE_FLASH_ATTN", fork_zero},
    {"no-fused-attention", RowKind::environment, "attention", fork_unfused,
     "Transformer Engine takes a fused kernel where nothing is said",
     "core/transformer/custom_layers/transformer_engine.py, TEDotProductAttention",
     "NVTE_FUSED_ATTN", fork_zero},
    {"warm-up-below-decay", RowKind::needs, "lr_warmup_iters",
     [](const Facts& f) {
       const RateSchedule& rate = f.plan.optimizer.rate;
       return rate.style == DecayStyle::constant && rate.warmup_iters > 0;
     },
     "a decay ends with the training where nothing is said, and a warm-up must end before it",
     "core/optimizer_param_scheduler.py, __init__", "lr-decay-iters",
     [](const Facts& f) { return fmt::to_string(f.plan.optimizer.rate.warmup_iters + 1); }},
    {"grouped-gemm", RowKind::states, "model", [](const Facts& f) { return f.experts; },
     "experts are multiplied one after the other where nothing is said",
     "core/transformer/moe/experts.py", "moe-grouped-gemm"},
    {"token-dispatcher", RowKind::states, "model", [](const Facts& f) { return f.experts; },
     "tokens are gathered from all devices where nothing is said",
     "core/transformer/moe/token_dispatcher.py", kDispatcher,
     [](const Facts& f) { return megatron_dispatcher(f.plan.expert_dispatch); }}};

}  // namespace

std::span<const TrainerRow> megatron_fork_rows() { return kFork; }

}  // namespace weir
