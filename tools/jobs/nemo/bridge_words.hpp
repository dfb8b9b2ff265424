// Fields of a Megatron-Bridge recipe and what they are to Megatron's arguments
// (NVIDIA-NeMo/Megatron-Bridge@067f987df03b).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace weir {

using BridgeName = std::pair<std::string_view, std::string_view>;

// Where Megatron's argument has another name than the field.
inline constexpr std::array<BridgeName, 13> kBridgeRenamed{
    {{"model.num_moe_experts", "num-experts"},
     {"model.virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"},
     {"model.layernorm_epsilon", "norm-epsilon"},
     {"model.gated_linear_unit", "swiglu"},
     {"model.seq_len_interpolation_factor", "rotary-seq-len-interpolation-factor"},
     {"model.rope_scaling", "use-rope-scaling"},
     {"model.layernorm_zero_centered_gamma", "apply-layernorm-1p"},
     {"model.moe_permute_fusion", "moe-permute-fusion"},
     {"model.fp8", "fp8-format"},
     {"rng.seed", "seed"},
     {"ddp.grad_reduce_in_fp32", "accumulate-allreduce-grads-in-fp32"},
     {"mixed_precision.fp8", "fp8-format"},
     {"mixed_precision.fp8_recipe", "fp8-recipe"}}};
// Said by a flag where the field is false.
inline constexpr std::array<BridgeName, 5> kBridgeDenied{
    {{"model.add_bias_linear", "disable-bias-linear"},
     {"model.share_embeddings_and_output_weights", "untie-embeddings-and-output-weights"},
     {"mixed_precision.grad_reduce_in_fp32", "grad-reduce-in-bf16"},
     {"model.gradient_accumulation_fusion", "no-gradient-accumulation-fusion"},
     {"model.masked_softmax_fusion", "no-masked-softmax-fusion"}}};
// Sections and fields that change neither time nor memory of a step, or are read apart.
inline constexpr std::array<std::string_view, 29> kBridgeBesideTheJob{
    "tokenizer",
    "dataset",
    "validation",
    "checkpoint",
    "logger",
    "env_vars",
    "dist",
    "profiling",
    "rng",
    "ft",
    "straggler",
    "nvrx_straggler",
    "inprocess_restart",
    "train.manual_gc",
    "train.manual_gc_interval",
    "train.manual_gc_eval",
    "train.eval_interval",
    "train.eval_iters",
    "model.use_transformer_engine_full_layer_spec",
    "model.pipeline_dtype",
    "model.params_dtype",
    "model.use_te_rng_tracker",
    "model.should_pad_vocab",
    "mixed_precision.params_dtype",
    "mixed_precision.pipeline_dtype",
    "model.cuda_graph_warmup_steps",
    "model.activation_func",
    "ddp.average_in_collective",
    "ddp.check_for_nan_in_grad"};

// What _pretrain_common() of recipes/common.py sets.
inline constexpr std::array<BridgeName, 16> kBridgeCommon{{{"train.train_iters", "300000"},
                                                           {"train.global_batch_size", "32"},
                                                           {"train.micro_batch_size", "2"},
                                                           {"optimizer.lr", "0.0003"},
                                                           {"optimizer.min_lr", "3e-05"},
                                                           {"optimizer.adam_beta1", "0.9"},
                                                           {"optimizer.adam_beta2", "0.95"},
                                                           {"optimizer.adam_eps", "1e-08"},
                                                           {"optimizer.weight_decay", "0.1"},
                                                           {"optimizer.clip_grad", "1.0"},
                                                           {"scheduler.lr_decay_style", "cosine"},
                                                           {"scheduler.lr_warmup_iters", "500"},
                                                           {"ddp.use_distributed_optimizer", ""},
                                                           {"ddp.overlap_grad_reduce", ""},
                                                           {"ddp.grad_reduce_in_fp32", ""},
                                                           {"rng.seed", "1234"}}};

// What _peft_common() sets, whose adapters are LoRA's of rank 32 beside all four products.
inline constexpr std::string_view kBridgeAdapters = "peft", kBridgePeftCall = "_peft_common";
inline constexpr std::array<BridgeName, 15> kBridgePeft{
    {{"train.train_iters", "1000"},
     {"train.global_batch_size", "128"},
     {"train.micro_batch_size", "1"},
     {"model.seq_length", "2048"},
     {"optimizer.lr", "0.0001"},
     {"optimizer.min_lr", "0"},
     {"optimizer.adam_beta1", "0.9"},
     {"optimizer.adam_beta2", "0.98"},
     {"optimizer.adam_eps", "1e-08"},
     {"optimizer.weight_decay", "0.1"},
     {"optimizer.clip_grad", "1.0"},
     {"scheduler.lr_decay_style", "cosine"},
     {"scheduler.lr_warmup_iters", "50"},
     {"optimizer.use_distributed_optimizer", ""},
     {"ddp.grad_reduce_in_fp32", ""}}};

// By the function that a recipe begins with; empty for another one.
[[nodiscard]] constexpr std::span<const BridgeName> bridge_common(std::string_view callee) {
  if (callee == "_pretrain_common") return kBridgeCommon;
  if (callee == kBridgePeftCall) return kBridgePeft;
  return {};
}

// What distributed_fused_adam_with_cosine_annealing() of recipes/utils/optimizer_utils.py
// (@0d7a394c3a1c) makes of its arguments, in their order, as optimizer and scheduler: its own
// names, the fields, and what they are where nothing is said.
struct BridgeCosineField {
  std::string_view given, field, value;
};
inline constexpr std::string_view kBridgeCosineCall =
    "distributed_fused_adam_with_cosine_annealing";
inline constexpr std::array<BridgeCosineField, 10> kBridgeCosine{
    {{"precision", "", ""},
     {"lr_warmup_iters", "scheduler.lr_warmup_iters", "2000"},
     {"lr_decay_iters", "scheduler.lr_decay_iters", "2000"},
     {"adam_beta1", "optimizer.adam_beta1", "0.9"},
     {"adam_beta2", "optimizer.adam_beta2", "0.95"},
     {"adam_eps", "optimizer.adam_eps", "1e-5"},
     {"weight_decay", "optimizer.weight_decay", "0.1"},
     {"max_lr", "optimizer.lr", "1e-4"},
     {"min_lr", "optimizer.min_lr", ""},
     {"clip_grad", "optimizer.clip_grad", "1.0"}}};

}  // namespace weir
