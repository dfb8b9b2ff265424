// Keys of DeepSpeed's and GPT-NeoX's configurations that no plan has a word for, by their
// beginnings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace weir {
namespace deepspeed_words {

inline constexpr std::string_view kCurriculum =
    "sequences are shorter, or chosen by their length, while training is young where that is its "
    "measure: not modelled, in the plan all are as long";

// What they change. Of data_efficiency: deepspeedai/DeepSpeed@edaa72212672, deepspeed/runtime/
// data_pipeline/data_sampling/variable_batch_size_and_lr.py, batch_by_seqlens, and data_routing/
// basic_layer.py, RandomLayerTokenDrop.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kMeanings{
    {{"curriculum_learning.enabled", kCurriculum},
     {"data_efficiency.data_sampling.curriculum_learning.enabled", kCurriculum},
     {"data_efficiency.data_sampling.dynamic_batching.enabled",
      "a micro-batch has as many samples of their own lengths as a number of tokens holds, and as "
      "many rows: not modelled, in the plan micro-batches are alike"},
     {"data_efficiency.data_routing.random_ltd.enabled",
      "layers drop tokens in the middle of the model, fewer as training goes on: not modelled, in "
      "the plan each layer has all"},
     {"zero_optimization.allgather", "how gathered weights travel, not modelled"},
     {"zero_optimization.reduce", "how reduced gradients travel, not modelled"},
     {"zero_optimization.stage3", "how gathered weights travel, not modelled"},
     {"zero_optimization.sub_group_size", "how the update is cut up, not modelled"},
     {"zero_optimization.contiguous_gradients", "one more buffer of gradients, not modelled"},
     {"zero_optimization.zero", "ZeRO++'s 8 bits on the wire, not modelled"},
     {"communication_data_type", "gradients' format when they are summed; the plan says fp32"},
     {"data_types", "gradients' format when they are summed; the plan says fp32"},
     {"fp32_allreduce", "gradients' format when they are summed; the plan says fp32"},
     {"sparse_attention", "another attention, not modelled"},
     {"activation_checkpointing", "how what is kept is kept, where the model re-materialises"},
     {"pipeline", "a detail of the pipeline, not modelled"},
     {"wall_clock_breakdown", "waits for the device at each part of a step; not modelled"}}};

// Neither time nor memory. Offload that is on was refused: what else is said of it has no effect.
inline constexpr std::array<std::string_view, 24> kBeside{"steps_per_print",
                                                          "zero_optimization.cpu_offload",
                                                          "zero_optimization.offload",
                                                          "scheduler",
                                                          "tensorboard",
                                                          "wandb",
                                                          "csv_monitor",
                                                          "flops_profiler",
                                                          "comms_logger",
                                                          "autotuning",
                                                          "dump_state",
                                                          "prescale_gradients",
                                                          "zero_allow",
                                                          "zero_force",
                                                          "checkpoint",
                                                          "timers",
                                                          "elasticity",
                                                          "amp",
                                                          "seed",
                                                          "data_efficiency",
                                                          "curriculum",
                                                          "gradient_predivide",
                                                          "bf16.",
                                                          "optimizer."};

}  // namespace deepspeed_words

namespace neox_words {

// Neither time nor memory.
inline constexpr std::array<std::string_view, 49> kBeside{"soft_prompt_tuning.",
                                                          "data_",
                                                          "pos_train_",
                                                          "label_data",
                                                          "dataset_impl",
                                                          "pack_impl",
                                                          "train_",
                                                          "valid_",
                                                          "test_",
                                                          "lr_",
                                                          "min_lr",
                                                          "warmup",
                                                          "eval_",
                                                          "log_",
                                                          "save",
                                                          "load",
                                                          "split",
                                                          "checkpoint_",
                                                          "distributed_backend",
                                                          "tensorboard",
                                                          "wandb",
                                                          "use_wandb",
                                                          "tokenizer",
                                                          "vocab_file",
                                                          "merge_file",
                                                          "keep_last",
                                                          "extra_save",
                                                          "num_workers",
                                                          "init_method",
                                                          "output_layer_init",
                                                          "finetune",
                                                          "seed",
                                                          "hostfile",
                                                          "launcher",
                                                          "deepspeed",
                                                          "comment",
                                                          "text_gen",
                                                          "maximum_tokens",
                                                          "sample_",
                                                          "num_samples",
                                                          "rotary_emb_base",
                                                          "override_lr",
                                                          "weight_by",
                                                          "temperature",
                                                          "top_",
                                                          "master_",
                                                          "profile",
                                                          "use_shared_fs",
                                                          "no_ssh"};

// Another kernel.
inline constexpr std::array<std::string_view, 11> kKernels{"scaled_",
                                                           "bias_gelu_fusion",
                                                           "bias_dropout_fusion",
                                                           "rope_fusion",
                                                           "layernorm_fusion",
                                                           "rmsnorm_fusion",
                                                           "attention_softmax_in_fp32",
                                                           "te_",
                                                           "use_flashattn",
                                                           "mamba_",
                                                           "async_"};

}  // namespace neox_words
}  // namespace weir
