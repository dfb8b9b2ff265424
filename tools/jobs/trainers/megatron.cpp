// Megatron-LM's constraints, read in NVIDIA/Megatron-LM@d98e8a64ddf3 (22 August 2026). Paths are
// within megatron/, but that of pretrain_gpt.py.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/jobs/trainers/tables.hpp"

namespace weir {
namespace {

using Facts = TrainerFacts;

bool interleaved(const Facts& f) { return f.plan.pp > 1 && f.plan.vpp > 1; }
bool broken_rounds(const Facts& f) {
  return interleaved(f) && f.plan.microbatches > f.plan.pp && f.plan.microbatches % f.plan.pp != 0;
}
bool few_microbatches(const Facts& f) { return interleaved(f) && f.plan.microbatches < f.plan.pp; }
bool fsdp(const Facts& f) { return f.plan.zero > 1; }
bool overlaps_experts(const Facts& f) { return f.plan.overlap_experts; }
bool in_rows(const Facts& f, RowsOf rows) {
  return f.plan.lengths.known() && f.plan.lengths.rows == rows;
}
bool packed(const Facts& f) { return in_rows(f, RowsOf::packed); }
// Rows whose sequences' ends go along with them (packed_seq_params).
bool told_apart(const Facts& f) { return packed(f) || in_rows(f, RowsOf::cut); }
bool dynamic(const Facts& f) { return f.plan.lengths.dynamic_cp > 0; }
bool muon(const Facts& f) { return f.plan.optimizer.kind == OptimizerKind::muon; }
bool offloads_optimizer(const Facts& f) { return f.plan.offload_optimizer > 0; }
bool hosts_activations(const Facts& f) { return f.plan.offload_activations > 0; }

// The smallest group of K or more micro-batches of which the last is as large: M = 7, K = 2: 4.
std::string microbatch_group(const Facts& f) {
  const int all = f.plan.microbatches, least = f.plan.pp;
  int group = least;
  while (all % group != 0 && all % group < least) ++group;
  return fmt::to_string(group);
}

bool own_order(const Plan& plan) {
  return plan.schedule == (plan.vpp > 1 ? "interleaved-1f1b" : "1f1b");
}

constexpr const char* kArguments = "training/arguments.py, validate_args";
constexpr const char* kTransformerConfig = "core/transformer/transformer_config.py, __post_init__";

// The order's rows come first, since they are what most plans fail by.
constexpr TrainerRow kOrders[] = {
    {"own-schedules", RowKind::other_order, "schedule",
     [](const Facts& f) { return f.plan.pp > 1 && !own_order(f.plan); },
     "Megatron-LM has 1f1b, and interleaved-1f1b where ranks have several stages, which runs",
     "core/pipeline_parallel/schedules.py, get_forward_backward_func"},
    {"interleaved-rounds", RowKind::other_order, "microbatches", broken_rounds,
     "Megatron-LM interleaves rounds of K micro-batches: with M no multiple it needs larger groups",
     "core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving"},
    // A plan of another order too, whose chunks are interleaved there.
    {"interleaved-few", RowKind::lacks, "microbatches", few_microbatches,
     "Megatron-LM interleaves at least K micro-batches",
     "core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving"}};
constexpr TrainerRow kOthers[] = {
    {"fp8-parameters", RowKind::lacks, "fp8_parameters",
     [](const Facts& f) {
       return f.plan.fp8_parameters && f.plan.zero == 0 && f.plan.replicas() > 1;
     },
     "Megatron-LM keeps weights in 8 bits with a sharded optimizer alone", kArguments},
    {"fp8-parameters-alone", RowKind::needs, "fp8_parameters",
     [](const Facts& f) { return f.plan.fp8_parameters && f.plan.replicas() == 1; },
     "Megatron-LM keeps weights in 8 bits with a sharded optimizer alone", kArguments,
     "use-distributed-optimizer"},
    {"adapters", RowKind::lacks, "lora", [](const Facts& f) { return f.plan.lora.rank > 0; },
     "Megatron-LM trains all weights: adapters are Megatron-Bridge's (peft)", kArguments},
    {"frozen-layers", RowKind::lacks, "frozen",
     [](const Facts& f) { return !f.plan.frozen.empty(); },
     "Megatron-LM's pretraining has no argument that freezes layers", kArguments},
    {"longest-rows", RowKind::lacks, "lengths",
     [](const Facts& f) { return in_rows(f, RowsOf::longest); },
     "Megatron-LM's rows are all as long: no argument lets them vary (variable_seq_lengths)",
     kArguments},
    {"packed-rows", RowKind::needs, "lengths", packed,
     "rows of whole conversations are those of supervised fine-tuning alone",
     "training/datasets/sft_dataset.py, SFTDataset", "sft"},
    {"packed-mask", RowKind::needs, "lengths", packed, "they have no mask of their own",
     "training/datasets/sft_dataset.py, SFTDataset.__getitem__",
     "no-create-attention-mask-in-dataloader"},
    {"dynamic-groups", RowKind::needs, "lengths", dynamic,
     "each sequence has devices of its own where that is asked for",
     "core/pipeline_parallel/schedules.py, forward_backward_no_pipelining",
     "hybrid-context-parallel"},
    {"dynamic-tokens", RowKind::needs, "lengths", dynamic, "how many follows from it",
     "core/pipeline_parallel/hybrid_cp_schedule.py, BalancedCPScheduler.gpus_needed",
     "max-seqlen-per-dp-cp-rank",
     [](const Facts& f) { return fmt::to_string(f.plan.lengths.dynamic_cp); }},
    {"dynamic-loss", RowKind::needs, "lengths", dynamic,
     "sequences of other lengths weigh by their tokens", kArguments, "calculate-per-token-loss"},
    {"dynamic-sharding", RowKind::lacks, "lengths",
     [](const Facts& f) { return dynamic(f) && fsdp(f); },
     "Megatron-LM's sequences have devices of their own without Megatron-FSDP alone", kArguments},
    {"dynamic-latent", RowKind::lacks, "lengths",
     [](const Facts& f) { return dynamic(f) && f.latent_attention; },
     "Megatron-LM's sequences have devices of their own without latent attention alone",
     "core/transformer/multi_latent_attention.py, get_query_key_value_tensors"},
    {"cut-rows", RowKind::needs, "lengths", [](const Facts& f) { return in_rows(f, RowsOf::cut); },
     "a row's documents attend to each other where nothing is said",
     "core/datasets/gpt_dataset.py, GPTDatasetConfig.inter_document_masking",
     "dataloader-inter-document-masking"},
    {"rows-of-overlapped-experts", RowKind::lacks, "lengths",
     [](const Facts& f) { return told_apart(f) && overlaps_experts(f); },
     "Megatron-LM overlaps experts' exchanges where a row is one sequence: its plan of the step "
     "is made without the sequences' ends",
     "pretrain_gpt.py, forward_step"},
    {"rows-in-graphs", RowKind::lacks, "lengths",
     [](const Facts& f) {
       const CudaGraphs& graphs = f.plan.cuda_graphs;
       return told_apart(f) &&
              (graphs.whole_step() || graphs.whole_blocks() || graphs.has(GraphPart::attn));
     },
     "Megatron-LM records attention in graphs where a row is one sequence",
     "core/transformer/transformer_layer.py, _te_cuda_graph_replay; pretrain_gpt.py, forward_step"},
    {"rows-unfused", RowKind::untried, "lengths",
     [](const Facts& f) { return told_apart(f) && f.plan.attention == AttentionKind::unfused; },
     "releases of Transformer Engine have no unfused attention for rows of several sequences, and "
     "then the job does not start: --attention fused",
     "transformer_engine/pytorch/attention/dot_product_attention/utils.py, get_attention_backend"},
    {"second-shards", RowKind::lacks, "zero_secondary",
     [](const Facts& f) { return f.plan.zero_secondary > 0; },
     "Megatron-LM keeps weights divided once: hpZ is DeepSpeed's", kArguments},
    {"offload-precision", RowKind::needs, "offload_optimizer", offloads_optimizer,
     "the host's optimizer goes by the code of that one", kArguments,
     "use-precision-aware-optimizer"},
    {"offload-unsharded", RowKind::lacks, "offload_optimizer",
     [](const Facts& f) {
       return f.plan.offload_optimizer > 0 && f.plan.zero == 0 && f.plan.replicas() > 1;
     },
     "Megatron-LM's host updates what a distributed optimizer divides among the replicas",
     kArguments},
    {"offload-sharded", RowKind::needs, "offload_optimizer",
     [](const Facts& f) { return f.plan.offload_optimizer > 0 && f.plan.zero == 0; },
     "that one is of the distributed optimizer", kArguments, "use-distributed-optimizer"},
    {"offload-adam-alone", RowKind::lacks, "offload_optimizer",
     [](const Facts& f) {
       // What is written for rmsprop is adam too.
       return offloads_optimizer(f) && (muon(f) || f.plan.optimizer.kind == OptimizerKind::sgd);
     },
     "Megatron-LM's host updates by Adam alone",
     "core/optimizer/optimizer_config.py, OptimizerConfig.__post_init__"},
    {"offload-fp8-parameters", RowKind::lacks, "offload_optimizer",
     [](const Facts& f) {
       return offloads_optimizer(f) && f.plan.fp8_parameters && f.plan.fp8 != Fp8Recipe::delayed;
     },
     "Megatron-LM's host updates weights in 8 bits with delayed scales alone", kArguments},
    {"offload-rebuilt", RowKind::lacks, "offload_activations",
     [](const Facts& f) {
       const RecomputeMode mode = f.plan.recompute.mode;
       const bool whole = mode == RecomputeMode::full || mode == RecomputeMode::stage;
       return hosts_activations(f) && whole;
     },
     "Megatron-LM offloads what blocks keep where they are not rebuilt as a whole",
     "core/pipeline_parallel/fine_grained_activation_offload.py"},
    {"offload-rest", RowKind::lacks, "offload_activations",
     [](const Facts& f) { return f.plan.offload_activations > f.offloadable + 5e-4; },
     "Megatron-LM's modules that may be offloaded keep less", kTransformerConfig},
    {"offload-untried", RowKind::untried, "offload_activations", hosts_activations,
     "norms that are fused with the next product keep no input of their own to offload, and a few "
     "last modules stay on the device",
     "core/pipeline_parallel/fine_grained_activation_offload.py"},
    {"offload-expert-graphs", RowKind::lacks, "cuda_graphs",
     [](const Facts& f) {
       const CudaGraphs& graphs = f.plan.cuda_graphs;
       const bool parts = !graphs.whole_step() && !graphs.whole_blocks();
       return hosts_activations(f) && parts && graphs.has(GraphPart::moe);
     },
     "Megatron-LM offloads activations where experts are in no graph of their own",
     kTransformerConfig},
    {"offload-step-graphs", RowKind::needs, "cuda_graphs",
     [](const Facts& f) { return hosts_activations(f) && f.plan.cuda_graphs.whole_step(); },
     "a graph of the whole step waits for copies only where it is said for how many",
     kTransformerConfig, "fine-grained-offloading-max-inflight-offloads",
     [](const Facts&) { return std::string("1"); }},
    {"offload-environment", RowKind::environment, "offload_activations", hosts_activations,
     "Transformer Engine 2.10 and later would offload weights too", kArguments,
     "NVTE_CPU_OFFLOAD_V1", [](const Facts&) { return std::string("1"); }},
    {"muon-format", RowKind::lacks, "optimizer",
     [](const Facts& f) { return muon(f) && f.plan.dtype == Dtype::fp16; },
     "Megatron-LM's muon trains in bf16 and fp32, and not in fp16", "core/optimizer/__init__.py"},
    {"muon-groups", RowKind::lacks, "zero_shards",
     [](const Facts& f) { return f.plan.zero_shards > 0 && muon(f); },
     "Megatron-LM distributes muon's matrices among all replicas",
     "core/optimizer/layer_wise_optimizer.py"},
    {"muon-fsdp", RowKind::lacks, "zero", [](const Facts& f) { return fsdp(f) && muon(f); },
     "Megatron-LM's muon needs whole matrices, which FSDP divides",
     "core/optimizer/layer_wise_optimizer.py"},
    {"prediction-stages", RowKind::lacks, "boundaries",
     [](const Facts& f) { return f.predicting_parted; },
     "Megatron-LM has blocks that predict further tokens on one stage",
     "core/transformer/pipeline_parallel_layer_layout.py, validate_layer_layout"},
    {"prediction-chunks", RowKind::lacks, "recompute",
     [](const Facts& f) {
       return f.plan.prediction_layers > 0 && f.plan.recompute.mode == RecomputeMode::full &&
              f.plan.recompute.at_a_time > 1;
     },
     "Megatron-LM rebuilds blocks that predict further tokens one at a time alone",
     "core/transformer/multi_token_prediction.py, _checkpointed_forward"},
    {"graphs-recompute", RowKind::lacks, "cuda_graphs",
     [](const Facts& f) {
       const RecomputeMode mode = f.plan.recompute.mode;
       const bool whole = mode == RecomputeMode::full || mode == RecomputeMode::stage;
       return whole && !f.plan.cuda_graphs.none() && !f.plan.cuda_graphs.whole_step();
     },
     "Megatron-LM rebuilds whole blocks in graphs of whole steps alone", kTransformerConfig},
    {"graphs-of-experts", RowKind::untried, "cuda_graphs",
     [](const Facts& f) { return f.experts && f.plan.cuda_graphs.has(GraphPart::moe); },
     "Megatron-LM records experts in graphs where their tokens are padded to a capacity alone",
     kTransformerConfig},
    {"graphs-unchecked", RowKind::needs, "cuda_graphs",
     [](const Facts& f) { return f.plan.cuda_graphs.whole_step(); },
     "the host's check of losses and gradients cannot be in a graph", kArguments,
     "no-check-for-nan-in-loss-and-grad"},
    {"overlapped-chunks", RowKind::lacks, "overlap_experts",
     [](const Facts& f) { return overlaps_experts(f) && f.plan.pp > 1 && f.plan.vpp == 1; },
     "Megatron-LM overlaps experts' exchanges in a pipeline with several stages a rank alone",
     kTransformerConfig},
    {"overlapped-recompute", RowKind::lacks, "overlap_experts",
     [](const Facts& f) {
       const Recompute& recompute = f.plan.recompute;
       const bool modules = recompute.mode == RecomputeMode::selective;
       return overlaps_experts(f) && recompute.mode != RecomputeMode::none &&
              (!modules || recompute.modules.meets(BlockModule::moe));
     },
     "Megatron-LM overlaps experts' exchanges where neither blocks nor experts are rebuilt",
     kTransformerConfig},
    {"overlapped-dispatch", RowKind::lacks, "overlap_experts",
     [](const Facts& f) {
       return overlaps_experts(f) && f.plan.expert_dispatch == ExpertDispatch::allgather;
     },
     "Megatron-LM overlaps what goes all to all, and no gather of all tokens", kTransformerConfig},
    {"overlapped-format", RowKind::lacks, "overlap_experts",
     [](const Facts& f) { return overlaps_experts(f) && bytes_per_element(f.plan.dtype) != 2; },
     "Megatron-LM overlaps experts' exchanges in bf16 and fp16 alone", kTransformerConfig},
    {"overlapped-prediction", RowKind::lacks, "overlap_experts",
     [](const Facts& f) { return overlaps_experts(f) && f.plan.prediction_layers > 1; },
     "Megatron-LM overlaps experts' exchanges with one block that predicts further tokens at most",
     kTransformerConfig},
    {"overlapped-graphs", RowKind::lacks, "overlap_experts",
     [](const Facts& f) {
       const CudaGraphs& graphs = f.plan.cuda_graphs;
       const bool inside =
           graphs.whole_blocks() || graphs.has(GraphPart::moe) || graphs.has(GraphPart::mlp);
       return overlaps_experts(f) && !graphs.whole_step() && inside;
     },
     "Megatron-LM records neither experts nor MLPs in graphs where exchanges are overlapped",
     kTransformerConfig},
    {"stage-of-the-norm", RowKind::lacks, "boundaries", [](const Facts& f) { return f.norm_alone; },
     "Megatron-LM's last stage has the final norm beside the head: none has it alone",
     "core/transformer/transformer_block.py, has_final_layernorm_in_this_stage"},
    {"experts-sequence-parallel", RowKind::lacks, "sequence_parallel",
     [](const Facts& f) { return f.experts && f.plan.tp > 1 && !f.plan.sequence_parallel; },
     "Megatron-LM trains experts under tensor parallelism with sequence parallelism alone",
     "core/transformer/moe/moe_layer.py, forward"},
    {"fsdp-pipeline", RowKind::untried, "zero",
     [](const Facts& f) { return fsdp(f) && f.plan.pp > 1; },
     "Megatron-FSDP takes the arguments of a pipeline, and no test of Megatron-LM's runs one",
     "tests/functional_tests/test_cases; training/arguments.py, validate_args"},
    {"fsdp-checkpoints", RowKind::needs, "zero", fsdp, "Megatron-FSDP saves in that format alone",
     kArguments, "ckpt-format", [](const Facts&) { return std::string("fsdp_dtensor"); }},
    {"checkpoints", RowKind::states, "zero", [](const Facts& f) { return !fsdp(f); }, "its default",
     "training/config/training_config.py", "ckpt-format",
     [](const Facts&) { return std::string("torch_dist"); }},
    {"connections", RowKind::environment, "tp",
     [](const Facts& f) { return !fsdp(f) && !overlaps_experts(f); },
     "collectives of tensor and context parallelism are launched in order through one queue",
     kArguments, "CUDA_DEVICE_MAX_CONNECTIONS", [](const Facts&) { return std::string("1"); }},
    {"overlapped-connections", RowKind::environment, "overlap_experts",
     [](const Facts& f) { return !fsdp(f) && overlaps_experts(f); },
     "exchanges beside other work need queues of their own", kArguments,
     "CUDA_DEVICE_MAX_CONNECTIONS", [](const Facts&) { return std::string("32"); }},
    {"fsdp-connections", RowKind::environment, "zero", fsdp,
     "Megatron-FSDP needs more than one queue", kArguments, "CUDA_DEVICE_MAX_CONNECTIONS"},
    {"warm-up-below-decay", RowKind::needs, "lr_warmup_iters",
     [](const Facts& f) {
       const RateSchedule& rate = f.plan.optimizer.rate;
       return rate.style == DecayStyle::constant && rate.warmup_iters > 0;
     },
     "a decay ends with the training where nothing is said, and a warm-up must end before it",
     "core/optimizer_param_scheduler.py, __init__", "lr-decay-iters",
     [](const Facts& f) { return fmt::to_string(f.plan.optimizer.rate.warmup_iters + 1); }},
    {"micro-batch-groups", RowKind::needs, "microbatches", broken_rounds, kOrders[1].says,
     kOrders[1].source, "microbatch-group-size-per-virtual-pipeline-stage", microbatch_group},
    {"router-softmax", RowKind::needs, "model",
     [](const Facts& f) { return f.experts && f.router_pre_softmax; },
     "the experts' weights are their shares of those chosen where nothing is said",
     "core/transformer/moe/router.py", "moe-router-pre-softmax"},
    {"grouped-gemm", RowKind::states, "model", [](const Facts& f) { return f.experts; },
     "experts are multiplied one after the other where nothing is said",
     "core/transformer/moe/experts.py", "moe-grouped-gemm"},
    {"token-dispatcher", RowKind::states, "model", [](const Facts& f) { return f.experts; },
     "tokens are gathered from all devices where nothing is said",
     "core/transformer/moe/token_dispatcher.py", kDispatcher,
     [](const Facts& f) { return megatron_dispatcher(f.plan.expert_dispatch); }}};

template <std::size_t A, std::size_t B>
constexpr std::array<TrainerRow, A + B> joined(const TrainerRow (&first)[A],
                                               const TrainerRow (&second)[B]) {
  std::array<TrainerRow, A + B> all{};
  std::copy_n(first, A, all.begin());
  std::copy_n(second, B, all.begin() + A);
  return all;
}
constexpr auto kMegatron = joined(kOrders, kOthers);

bool always(const Facts&) { return true; }
const std::vector<std::string_view> kChunks{"num-layers-per-virtual-pipeline-stage",
                                            "num-virtual-stages-per-pipeline-rank",
                                            "pipeline-model-parallel-layout"};
const std::vector<std::string_view> kSharded{"use-distributed-optimizer", "use-megatron-fsdp",
                                             "use-custom-fsdp", "use-torch-fsdp2"};

}  // namespace

std::string megatron_dispatcher(ExpertDispatch way) {
  if (way == ExpertDispatch::once) return "flex";
  return way == ExpertDispatch::allgather ? "allgather" : "alltoall";
}
std::span<const TrainerRow> megatron_rows() { return kMegatron; }

const std::vector<ArgumentRule>& megatron_argument_rules() {
  static const std::vector<ArgumentRule> kRules{
      {"overlap-param-gather", {"overlap-grad-reduce"}, always, "overlaps the reduction with it"},
      {"overlap-param-gather",
       {"use-distributed-optimizer", "use-megatron-fsdp", "use-custom-fsdp"},
       always,
       "gathers what a sharded optimizer has: without one there is no gather to overlap"},
      {"overlap-param-gather-with-optimizer-step",
       {"overlap-param-gather"},
       always,
       "is a part of it"},
      {"overlap-param-gather-with-optimizer-step", kChunks,
       [](const Facts& f) { return f.plan.vpp > 1 && f.plan.zero == 1; },
       "needs an interleaved pipeline and the distributed optimizer"},
      {"fp8-param-gather", kSharded, always, "gathers what a sharded optimizer has"},
      {"fp4-param-gather", kSharded, always, "gathers what a sharded optimizer has"},
      {"use-precision-aware-optimizer",
       {"use-distributed-optimizer"},
       always,
       "is of the distributed optimizer"},
      {"tp-comm-overlap",
       {"sequence-parallel"},
       [](const Facts& f) { return f.plan.tp > 1 && f.plan.sequence_parallel; },
       "overlaps what sequence parallelism sends"},
      {"overlap-p2p-communication-warmup-flush", {}, interleaved, "needs an interleaved pipeline"},
      {"no-overlap-p2p-communication",
       {},
       [](const Facts& f) { return !(f.plan.vpp > 1 && f.plan.pp == 2); },
       "interleaving over two ranks needs the overlap"},
      {"defer-embedding-wgrad-compute",
       {},
       [](const Facts& f) { return f.plan.pp > 1; },
       "needs a pipeline"},
      {"distribute-saved-activations",
       {"recompute-method"},
       [](const Facts& f) { return f.plan.tp > 1 && f.plan.recompute.mode == RecomputeMode::full; },
       "needs tensor parallelism and full re-materialisation"},
      {"overlap-moe-expert-parallel-comm",
       {},
       [](const Facts& f) {
         const bool chunks = f.plan.pp == 1 || f.plan.vpp > 1;
         return f.plan.ep > 1 && chunks && f.plan.recompute.mode != RecomputeMode::full;
       },
       "needs expert parallelism, chunks under a pipeline, and no full re-materialisation"},
      {"delay-wgrad-compute", {"overlap-moe-expert-parallel-comm"}, always, "is a part of it"},
      {"moe-shared-expert-overlap",
       {},
       [](const Facts& f) {
         const Recompute& recompute = f.plan.recompute;
         const bool again = recompute.mode == RecomputeMode::selective &&
                            recompute.modules.meets(BlockModule::shared_experts);
         return !overlaps_experts(f) && !again;
       },
       "is excluded by the overlap of experts' exchanges, and by shared experts that are made "
       "again"},
      {"cpu-offloading-num-layers",
       {},
       [](const Facts& f) {
         return f.plan.pp == 1 && f.plan.recompute.mode == RecomputeMode::none;
       },
       "needs one stage, and no re-materialisation"},
      {"cpu-offloading", {"cpu-offloading-num-layers"}, always, "is of layers"}};
  return kRules;
}

}  // namespace weir
