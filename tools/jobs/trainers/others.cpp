// The constraints of torchtitan (pytorch/torchtitan@b5bcd76c6 and v0.2.2), of PyTorch's own
// pipelining (2.12) and of DeepSpeed (deepspeedai/DeepSpeed@edaa72212, 0.19.6).
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/recompute.hpp"
#include "tools/jobs/trainers/tables.hpp"

namespace weir {
namespace {

using Facts = TrainerFacts;

bool half(const Facts& f) { return f.plan.dtype == Dtype::bf16 || f.plan.dtype == Dtype::fp16; }
bool predicts_further(const Facts& f) { return f.plan.prediction_layers > 0; }
bool second_shards(const Facts& f) { return f.plan.zero_secondary > 0; }
bool graphs(const Facts& f) { return !f.plan.cuda_graphs.none(); }
bool offloads(const Facts& f) { return f.plan.offload_optimizer > 0; }
bool offloads_activations(const Facts& f) { return f.plan.offload_activations > 0; }
bool orthogonalises(const Facts& f) { return f.plan.optimizer.kind == OptimizerKind::muon; }
bool scales_otherwise(const Facts& f) {
  return f.plan.fp8 == Fp8Recipe::delayed || f.plan.fp8 == Fp8Recipe::blockwise;
}
bool fp8_experts(const Facts& f) { return f.plan.fp8 != Fp8Recipe::none && f.experts; }
// Its Llamas make queries, keys and values in one layer, gate and rest in two.
bool has_linears(const ProductSet& targets) {
  for (const BlockProduct other : {BlockProduct::linear_q, BlockProduct::linear_k,
                                   BlockProduct::linear_v, BlockProduct::linear_fc1}) {
    if (targets.has(other)) return false;
  }
  return true;
}
// Rows of several sequences, and such as vary.
bool in_rows(const Facts& f) { return f.plan.lengths.known(); }
// Of parts of blocks alone; torchtitan's policy by operation is what its stacks take a plan's
// attention core for.
bool rebuilds_parts(const Facts& f) { return f.plan.recompute.mode == RecomputeMode::selective; }
bool rebuilds_other_parts(const Facts& f) {
  return rebuilds_parts(f) && f.plan.recompute.modules != ModuleSet(BlockModule::core_attn);
}
bool gathers_tokens(const Facts& f) { return f.plan.expert_dispatch == ExpertDispatch::allgather; }
bool dispatches_otherwise(const Facts& f) {
  return gathers_tokens(f) || f.plan.expert_dispatch == ExpertDispatch::once;
}
bool overlaps_tensor(const Facts& f) { return f.plan.overlap_tensor_parallel; }
bool groups(const Facts& f) { return f.plan.zero_shards > 0; }
bool exchanges_beside(const Facts& f) { return f.plan.overlap_experts; }
bool other_parallelism(const Facts& f) { return f.plan.tp > 1 || f.plan.pp > 1; }

// Looped orders can be given as a file; a V is placed by the name of its class alone.
constexpr TrainerRow kTitanOrder{
    "orders-of-pytorch",
    RowKind::other_order,
    "schedule",
    [](const Facts& f) {
      if (f.plan.pp == 1 || f.placement == ChunkPlacement::looped) return false;
      const bool named = f.plan.schedule == "zb-v" || f.plan.schedule == "dualpipev";
      return f.placement == ChunkPlacement::other || !named;
    },
    "torchtitan runs looped orders from a file, and a V by the name of PyTorch's class: a class of "
    "that placement runs",
    "torchtitan/distributed/pipeline_parallel.py, build_pipeline_schedule"};

constexpr TrainerRow kTorchtitan[] = {
    kTitanOrder,
    {"tied-pipeline", RowKind::lacks, "pp",
     [](const Facts& f) { return f.tied_llama && f.plan.pp > 1; },
     "torchtitan ties the head to the embedding without a pipeline alone",
     "torchtitan/models/common/decoder.py, update_from_config"},
    {"fp8", RowKind::lacks, "fp8", scales_otherwise,
     "torchtitan's scales are of rows, or of 32 numbers in a row",
     "torchtitan/components/quantization/float8.py"},
    {"fp8-parameters", RowKind::lacks, "fp8_parameters",
     [](const Facts& f) { return f.plan.fp8_parameters; }, "torchtitan gathers weights in 16 bits",
     "torchtitan/components/quantization/float8.py"},
    {"fp8-experts", RowKind::lacks, "fp8", fp8_experts,
     "torchtitan's experts have converters of their own, of models whose sizes are not written",
     "torchtitan/components/quantization/float8.py"},
    {"adapters", RowKind::lacks, "lora",
     [](const Facts& f) {
       const Adapters& its = f.plan.lora;
       return its.rank > 0 && (its.dropout > 0 || f.experts || !has_linears(its.targets));
     },
     "torchtitan's adapters drop nothing out, and stand beside linear_qkv, linear_proj, "
     "linear_fc1_gate, linear_fc1_up and linear_fc2",
     "torchtitan/components/lora.py"},
    {"frozen-layers", RowKind::lacks, "frozen",
     [](const Facts& f) { return !f.plan.frozen.empty(); },
     "torchtitan has no key that freezes weights", "torchtitan/trainer.py, Trainer"},
    {"longest-rows", RowKind::lacks, "lengths",
     [](const Facts& f) { return in_rows(f) && f.plan.lengths.rows == RowsOf::longest; },
     "torchtitan's rows are full: its packings cut a stream, or fit whole documents in",
     "torchtitan/components/data/packing.py"},
    {"dynamic-groups", RowKind::lacks, "lengths",
     [](const Facts& f) { return f.plan.lengths.dynamic_cp > 0; },
     "torchtitan's mesh has one number of devices for all sequences",
     "torchtitan/distributed/parallel_dims.py"},
    {"recompute-modules", RowKind::lacks, "recompute", rebuilds_other_parts,
     "torchtitan rebuilds blocks, or parts by the operation that made them",
     "torchtitan/distributed/activation_checkpoint.py"},
    {"dispatch", RowKind::lacks, "expert_dispatch", dispatches_otherwise,
     "torchtitan's dispatcher is said to models with experts (moe_comm_backend), whose sizes are "
     "not written",
     "torchtitan/models/common/config_utils.py"},
    {"second-shards", RowKind::lacks, "zero_secondary", second_shards,
     "torchtitan keeps weights divided once", "torchtitan/distributed/parallel_dims.py"},
    {"offload", RowKind::lacks, "offload_optimizer", offloads,
     "torchtitan offloads weights, gradients and state together", "torchtitan/config/configs.py"},
    {"offload-activations", RowKind::lacks, "offload_activations", offloads_activations,
     "torchtitan keeps what the backward reads on the device", "torchtitan/config/configs.py"},
    {"overlapped-experts", RowKind::lacks, "overlap_experts", exchanges_beside,
     "torchtitan's schedules run one micro-batch at a time", "torchtitan/config/configs.py"},
    {"muon", RowKind::lacks, "optimizer", orthogonalises,
     "torchtitan's DistMuon wants a layout for each matrix by its name",
     "torchtitan/components/optimizer.py"},
    {"prediction", RowKind::lacks, "prediction_layers", predicts_further,
     "torchtitan's models are written without blocks that predict further tokens",
     "torchtitan/models/llama3/model.py"},
    {"graphs-of-parts", RowKind::lacks, "cuda_graphs",
     [](const Facts& f) { return graphs(f) && !f.plan.cuda_graphs.whole_step(); },
     "torchtitan records whole steps", "torchtitan/distributed/cudagraph.py"},
    {"graphs-alone", RowKind::lacks, "cuda_graphs",
     [](const Facts& f) { return graphs(f) && (f.plan.pp > 1 || f.plan.ep > 1); },
     "torchtitan's CUDA graphs know no pipeline and no expert parallelism",
     "torchtitan/trainer.py, Trainer.Config.__post_init__"},
    {"cuda-graphs", RowKind::needs, "cuda_graphs", [](const Facts& f) { return !graphs(f); },
     "CUDA graphs are on where nothing is said",
     "torchtitan/trainer.py, Trainer.Config.__post_init__", "disable_cuda_graphs",
     [](const Facts&) { return std::string("True"); }}};

constexpr TrainerRow kTorchtitan02[] = {
    kTitanOrder,
    {"tied-head", RowKind::lacks, "model", [](const Facts& f) { return f.tied_llama; },
     "torchtitan 0.2's head has a weight of its own", "torchtitan/models/llama3/model/model.py"},
    {"fp8", RowKind::lacks, "fp8", scales_otherwise,
     "torchtitan 0.2's scales are of tensors, rows, or 32 numbers in a row",
     "torchtitan/components/quantization/float8.py"},
    {"fp8-parameters", RowKind::lacks, "fp8_parameters",
     [](const Facts& f) {
       const bool gathers = f.plan.fp8 == Fp8Recipe::tensorwise && f.plan.zero > 0;
       return f.plan.fp8_parameters && !gathers;
     },
     "torchtitan 0.2 gathers in 8 bits with one scale a tensor, and where weights are sharded",
     "torchtitan/config/job_config.py, Float8Linear"},
    {"fp8-experts", RowKind::lacks, "fp8", fp8_experts,
     "torchtitan 0.2's experts have converters of their own",
     "torchtitan/components/quantization/float8.py"},
    {"adapters", RowKind::lacks, "lora", [](const Facts& f) { return f.plan.lora.rank > 0; },
     "torchtitan 0.2 has no key that freezes weights or adds adapters",
     "torchtitan/train.py, Trainer"},
    {"frozen-layers", RowKind::lacks, "frozen",
     [](const Facts& f) { return !f.plan.frozen.empty(); },
     "torchtitan 0.2 has no key that freezes weights", "torchtitan/train.py, Trainer"},
    {"rows", RowKind::lacks, "lengths", in_rows,
     "torchtitan 0.2 tells a row's documents apart in flavours of its own alone (8B_flex), and "
     "packs none whole",
     "torchtitan/models/llama3/__init__.py, attn_mask_type"},
    {"recompute-modules", RowKind::lacks, "recompute", rebuilds_other_parts,
     "torchtitan 0.2 rebuilds blocks, or parts by the operation that made them",
     "torchtitan/distributed/activation_checkpoint.py"},
    {"dispatch", RowKind::lacks, "expert_dispatch", gathers_tokens,
     "torchtitan 0.2's tokens are exchanged all to all, or by DeepEP",
     "torchtitan/config/job_config.py, Parallelism"},
    {"dispatch-of-divided-experts", RowKind::lacks, "expert_dispatch",
     [](const Facts& f) {
       return f.plan.expert_dispatch == ExpertDispatch::once && f.plan.expert_tp() > 1;
     },
     "torchtitan 0.2 sends tokens by DeepEP to whole experts alone",
     "torchtitan/models/llama4/infra/parallelize.py, parallelize_llama"},
    {"second-shards", RowKind::lacks, "zero_secondary", second_shards,
     "torchtitan 0.2 keeps weights divided once", "torchtitan/distributed/parallel_dims.py"},
    {"offload", RowKind::lacks, "offload_optimizer", offloads,
     "torchtitan 0.2 offloads weights, gradients and state together",
     "torchtitan/config/job_config.py"},
    {"offload-activations", RowKind::lacks, "offload_activations", offloads_activations,
     "torchtitan 0.2 keeps what the backward reads on the device",
     "torchtitan/config/job_config.py"},
    {"overlapped-experts", RowKind::lacks, "overlap_experts", exchanges_beside,
     "torchtitan 0.2's schedules run one micro-batch at a time", "torchtitan/config/job_config.py"},
    {"muon", RowKind::lacks, "optimizer", orthogonalises, "torchtitan 0.2 has Adam and AdamW",
     "torchtitan/components/optimizer.py"},
    {"graphs", RowKind::lacks, "cuda_graphs", graphs, "torchtitan 0.2 launches kernel by kernel",
     "torchtitan/train.py, Trainer"},
    {"prediction", RowKind::lacks, "prediction_layers", predicts_further,
     "torchtitan 0.2 has no blocks that predict further tokens",
     "torchtitan/models/llama3/model/model.py"},
    {"replicas-alone", RowKind::lacks, "zero",
     [](const Facts& f) {
       return f.plan.zero == 0 && f.plan.dp > 1 && f.plan.cp == 1 && other_parallelism(f);
     },
     "torchtitan 0.2 keeps whole replicas without tensor parallelism and pipeline alone",
     "torchtitan/models/llama3/infra/parallelize.py, parallelize_llama"},
    {"half-without-sharding", RowKind::needs, "dtype",
     [](const Facts& f) { return half(f) && f.plan.dp * f.plan.cp == 1 && other_parallelism(f); },
     "mixed precision is FSDP's: without replicas the weights' own format is the format",
     "torchtitan/distributed/utils.py, maybe_enable_amp", "dtype",
     [](const Facts&) { return std::string("\"bfloat16\""); }}};

constexpr TrainerRow kTorch[] = {
    {"fp8", RowKind::lacks, "fp8", [](const Facts& f) { return f.plan.fp8 != Fp8Recipe::none; },
     "the script that is written multiplies in its number format", "tools/jobs/torch/export"},
    {"adapters", RowKind::lacks, "lora", [](const Facts& f) { return f.plan.lora.rank > 0; },
     "the script that is written trains all weights, and adds no adapters",
     "tools/jobs/torch/export"},
    {"frozen-layers", RowKind::lacks, "frozen",
     [](const Facts& f) { return !f.plan.frozen.empty(); },
     "the script that is written trains all weights", "tools/jobs/torch/export"},
    {"rows", RowKind::lacks, "lengths", in_rows,
     "the script that is written has rows of one sequence each", "tools/jobs/torch/export"},
    {"recompute-modules", RowKind::lacks, "recompute", rebuilds_parts,
     "the script that is written rebuilds whole layers", "tools/jobs/torch/export"},
    {"overlapped-tensor-parallelism", RowKind::lacks, "overlap_tensor_parallel", overlaps_tensor,
     "the script that is written divides no layer", "tools/jobs/torch/export"},
    {"overlapped-experts", RowKind::lacks, "overlap_experts", exchanges_beside,
     "torch.distributed.pipelining runs one micro-batch at a time",
     "torch/distributed/pipelining/schedules.py, _PipelineScheduleRuntime"},
    {"dispatch", RowKind::lacks, "expert_dispatch", dispatches_otherwise,
     "the script that is written sends no tokens to experts", "tools/jobs/torch/export"},
    {"groups", RowKind::lacks, "zero_shards", groups,
     "the script that is written shares nothing among replicas", "tools/jobs/torch/export"},
    {"second-shards", RowKind::lacks, "zero_secondary", second_shards,
     "the script that is written shares nothing among replicas", "tools/jobs/torch/export"},
    {"offload", RowKind::lacks, "offload_optimizer", offloads,
     "the script that is written keeps the optimizer's state on its device",
     "tools/jobs/torch/export"},
    {"offload-activations", RowKind::lacks, "offload_activations", offloads_activations,
     "the script that is written keeps what the backward reads on its device",
     "tools/jobs/torch/export"},
    {"muon", RowKind::lacks, "optimizer", orthogonalises,
     "the script that is written has torch.optim's older rules", "tools/jobs/torch/export"},
    {"graphs", RowKind::lacks, "cuda_graphs", graphs,
     "the script that is written launches kernel by kernel", "tools/jobs/torch/export"},
    {"prediction", RowKind::lacks, "prediction_layers", predicts_further,
     "the script that is written has one loss", "tools/jobs/torch/export"},
    {"one-copy", RowKind::lacks, "schedule", [](const Facts& f) { return f.copies; },
     "copies of the weights or slices of sequences are not in torch.distributed.pipelining",
     "torch/distributed/pipelining/schedules.py, _PipelineScheduleRuntime"}};

constexpr TrainerRow kDeepSpeed[] = {
    {"fp8", RowKind::lacks, "fp8", [](const Facts& f) { return f.plan.fp8 != Fp8Recipe::none; },
     "DeepSpeed's configuration has no products in 8 bits", "deepspeed/runtime/config.py"},
    {"adapters", RowKind::lacks, "lora", [](const Facts& f) { return f.plan.lora.rank > 0; },
     "DeepSpeed's configuration has no key that freezes weights or adds adapters",
     "deepspeed/runtime/config.py"},
    {"frozen-layers", RowKind::lacks, "frozen",
     [](const Facts& f) { return !f.plan.frozen.empty(); },
     "DeepSpeed's configuration has no key that freezes weights", "deepspeed/runtime/config.py"},
    {"rows", RowKind::lacks, "lengths", in_rows,
     "DeepSpeed's configuration says nothing of how sequences lie in rows: the script makes them",
     "deepspeed/runtime/config.py"},
    {"recompute-modules", RowKind::lacks, "recompute", rebuilds_parts,
     "DeepSpeed's pipeline rebuilds whole layers, so many at a time",
     "deepspeed/runtime/pipe/module.py, forward"},
    {"context-parallelism", RowKind::lacks, "cp", [](const Facts& f) { return f.plan.cp > 1; },
     "DeepSpeed's pipeline has stages, replicas and the model's own parts: no sequence is divided",
     "deepspeed/runtime/pipe/topology.py"},
    {"overlapped-tensor-parallelism", RowKind::lacks, "overlap_tensor_parallel", overlaps_tensor,
     "DeepSpeed leaves tensor parallelism to the model's own code",
     "deepspeed/runtime/pipe/module.py"},
    {"overlapped-experts", RowKind::lacks, "overlap_experts", exchanges_beside,
     "DeepSpeed's TrainSchedule runs one micro-batch at a time",
     "deepspeed/runtime/pipe/schedule.py"},
    {"dispatch", RowKind::lacks, "expert_dispatch", dispatches_otherwise,
     "DeepSpeed's tokens are exchanged all to all", "deepspeed/moe/sharded_moe.py"},
    {"offload-part", RowKind::lacks, "offload_optimizer",
     [](const Facts& f) { return f.plan.offload_optimizer > 0 && f.plan.offload_optimizer < 1; },
     "a part of the state goes to the host under ZeRO 3 alone, which pipeline.py's engine has not",
     "deepspeed/runtime/zero/offload_config.py"},
    {"offload-activations", RowKind::lacks, "offload_activations",
     [](const Facts& f) {
       const bool inputs =
           f.plan.offload_activations == 1 && rebuilds_every_block(f.plan.recompute);
       return offloads_activations(f) && !inputs;
     },
     "DeepSpeed's cpu_checkpointing offloads all inputs of its checkpoints, and nothing of blocks "
     "that are not rebuilt",
     "deepspeed/runtime/activation_checkpointing/checkpointing.py"},
    {"offload-unsharded", RowKind::lacks, "offload_optimizer",
     [](const Facts& f) {
       return f.plan.offload_optimizer == 1 && f.plan.zero == 0 && f.plan.replicas() > 1;
     },
     "DeepSpeed's host updates under ZeRO alone", "deepspeed/runtime/engine.py"},
    {"groups", RowKind::lacks, "zero_shards", groups,
     "MiCS is of ZeRO 3, and pipeline.py's engine takes 1 at most",
     "deepspeed/runtime/zero/mics.py"},
    {"second-shards", RowKind::lacks, "zero_secondary", second_shards,
     "hpZ is of ZeRO 3, and pipeline.py's engine takes 1 at most",
     "deepspeed/runtime/zero/config.py"},
    {"muon", RowKind::lacks, "optimizer", orthogonalises,
     "DeepSpeed's Muon wants a mark on each of the model's tensors, which no file says",
     "deepspeed/runtime/engine.py, _configure_basic_optimizer"},
    {"graphs", RowKind::lacks, "cuda_graphs", graphs, "DeepSpeed's training has no CUDA graphs",
     "deepspeed/runtime/engine.py"},
    {"prediction", RowKind::lacks, "prediction_layers", predicts_further,
     "DeepSpeed's configuration says nothing of a model's losses", "deepspeed/runtime/config.py"},
    {"one-stage-a-rank", RowKind::lacks, "vpp", [](const Facts& f) { return f.plan.vpp > 1; },
     "DeepSpeed's pipeline has one stage a rank", "deepspeed/runtime/pipe/module.py"},
    {"train-schedule", RowKind::other_order, "schedule",
     [](const Facts& f) { return f.plan.pp > 1 && f.plan.schedule != "1f1b"; },
     "DeepSpeed's TrainSchedule is a 1f1b, which runs", "deepspeed/runtime/pipe/schedule.py"}};

}  // namespace

std::span<const TrainerRow> torchtitan_rows() { return kTorchtitan; }
std::span<const TrainerRow> torchtitan_0_2_rows() { return kTorchtitan02; }
std::span<const TrainerRow> torch_rows() { return kTorch; }
std::span<const TrainerRow> deepspeed_rows() { return kDeepSpeed; }

}  // namespace weir
