// Keys of a NeMo 1 file and what they are to Megatron's arguments. NeMo hands every key of its
// model on to Megatron-Core's TransformerConfig by its own name (NVIDIA/NeMo@8cfedd720346,
// nlp/models/language_modeling/megatron_base_model.py, build_transformer_config), or by one of its
// own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace weir {

// How the argument says what the key says: by the same value, by the words of a list, or by being
// there where the key is true.
enum class Said : std::uint8_t { by_value, by_list, by_flag };

struct NemoWord {
  std::string_view nemo;
  std::string_view megatron;
  Said said = Said::by_value;
  std::string_view beside = "";  // without effect where this key is not true
};
inline constexpr std::array<NemoWord, 62> kNemoWords{
    {{"model.num_layers", "num-layers"},
     {"model.hidden_size", "hidden-size"},
     {"model.ffn_hidden_size", "ffn-hidden-size"},
     {"model.num_attention_heads", "num-attention-heads"},
     {"model.kv_channels", "kv-channels"},
     {"model.encoder_seq_length", "seq-length"},
     {"model.max_position_embeddings", "max-position-embeddings"},
     {"model.make_vocab_size_divisible_by", "make-vocab-size-divisible-by"},
     {"model.micro_batch_size", "micro-batch-size"},
     {"model.global_batch_size", "global-batch-size"},
     {"model.tensor_model_parallel_size", "tensor-model-parallel-size"},
     {"model.pipeline_model_parallel_size", "pipeline-model-parallel-size"},
     {"model.virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"},
     {"model.context_parallel_size", "context-parallel-size"},
     {"model.expert_model_parallel_size", "expert-model-parallel-size"},
     {"model.expert_tensor_parallel_size", "expert-tensor-parallel-size"},
     {"model.num_moe_experts", "num-experts"},
     {"model.moe_router_topk", "moe-router-topk"},
     {"model.moe_token_dispatcher_type", "moe-token-dispatcher-type"},
     {"model.moe_grouped_gemm", "moe-grouped-gemm", Said::by_flag},
     {"model.moe_router_pre_softmax", "moe-router-pre-softmax", Said::by_flag},
     {"model.moe_expert_capacity_factor", "moe-expert-capacity-factor"},
     {"model.moe_pad_expert_input_to_capacity", "moe-pad-expert-input-to-capacity", Said::by_flag},
     {"model.qkv_bias", "add-qkv-bias", Said::by_flag},
     {"model.sequence_parallel", "sequence-parallel", Said::by_flag},
     {"model.activations_checkpoint_granularity", "recompute-granularity"},
     {"model.activations_checkpoint_method", "recompute-method"},
     {"model.activations_checkpoint_num_layers", "recompute-num-layers"},
     {"model.hidden_dropout", "hidden-dropout"},
     {"model.attention_dropout", "attention-dropout"},
     {"model.layernorm_epsilon", "norm-epsilon"},
     {"model.init_method_std", "init-method-std"},
     {"model.position_embedding_type", "position-embedding-type"},
     {"model.rotary_percentage", "rotary-percent"},
     {"model.rotary_base", "rotary-base"},
     {"model.seq_len_interpolation_factor", "rotary-seq-len-interpolation-factor"},
     {"model.seed", "seed"},
     {"model.use_flash_attention", "use-flash-attn", Said::by_flag},
     {"model.qk_layernorm", "qk-layernorm", Said::by_flag},
     {"model.optim.lr", "lr"},
     {"model.optim.sched.min_lr", "min-lr"},
     {"model.optim.weight_decay", "weight-decay"},
     {"trainer.gradient_clip_val", "clip-grad"},
     {"model.num_query_groups", "num-query-groups"},
     {"trainer.devices", "nproc-per-node"},
     {"trainer.num_nodes", "nnodes"},
     {"model.tokenizer.type", "tokenizer-type"},
     {"model.overlap_p2p_comm", "overlap-p2p-communication", Said::by_flag},
     {"model.fp8_recipe", "fp8-recipe", Said::by_value, "model.fp8"},
     {"model.recompute_modules", "recompute-modules", Said::by_list},
     {"model.enable_cuda_graph", "enable-cuda-graph", Said::by_flag},
     {"model.external_cuda_graph", "external-cuda-graph", Said::by_flag},
     {"model.cuda_graph_impl", "cuda-graph-impl"},
     {"model.cuda_graph_scope", "cuda-graph-scope", Said::by_list},
     {"model.cuda_graph_modules", "cuda-graph-modules", Said::by_list},
     {"model.moe_router_num_groups", "moe-router-num-groups"},
     {"model.moe_router_group_topk", "moe-router-group-topk"},
     {"model.moe_ffn_hidden_size", "moe-ffn-hidden-size"},
     {"model.moe_shared_expert_intermediate_size", "moe-shared-expert-intermediate-size"},
     {"model.cpu_offloading", "cpu-offloading", Said::by_flag},
     {"model.cpu_offloading_num_layers", "cpu-offloading-num-layers", Said::by_value,
      "model.cpu_offloading"},
     {"model.cpu_offloading_activations", "cpu-offloading-activations", Said::by_value,
      "model.cpu_offloading"}}};

// Changes neither time nor memory of a step, or is read apart.
inline constexpr std::array<std::string_view, 29> kNemoBesideTheJob{
    "name",
    "model.native_amp",
    "model.hysteresis",
    "model.apex_transformer",
    "model.use_scaled_init",
    "model.pre_process",
    "model.post_process",
    "model.normalize_attention",
    "model.mcore_gpt",
    "model.gc_interval",
    "model.precision",
    "model.layernorm_zero_centered",
    "model.do_layer_norm_weight_decay",
    "trainer.",
    "exp_manager.",
    "model.data.",
    "model.optim.sched",
    "run.",
    "model.tokenizer",
    "model.optim.name",
    "model.nsys",
    "restore_from",
    "model.resume",
    "defaults",
    "hydra",
    "model.apply_query_key",
    "model.seed",
    "model.gradient_as_bucket_view",
    "cluster"};

namespace nemo_words {
inline constexpr std::string_view kKernel = "another kernel, not modelled: the costs in use decide";
inline constexpr std::string_view kSums = "how gradients are summed over replicas, not modelled";
inline constexpr std::string_view kHides = "hides or moves communication, not modelled";
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kMeanings{
    {{"model.optim.bucket_cap", kSums},
     {"model.optim.contiguous_", kSums},
     {"model.optim.grad_sync_dtype", kSums},
     {"model.optim.dtype", "format of the optimizer's state, not in the plan"},
     {"model.optim.overlap_", kHides},
     {"model.grad_allreduce_chunk", kSums},
     {"model.grad_div_ar_fusion", kSums},
     {"model.reduce_amax", kSums},
     {"model.batch_p2p_comm", kHides},
     {"model.ub_tp_comm_overlap_cfg", kHides},
     {"model.gradient_accumulation_fusion", kKernel},
     {"model.persist_layer_norm", kKernel},
     {"model.get_attention_mask", kKernel}}};
}  // namespace nemo_words

}  // namespace weir
