// Tools by the words of their files.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/readers/foreign_job.hpp"

#include <algorithm>
#include <array>

#include "plan/text/strict_json.hpp"

namespace weir {
namespace {

struct Mark {
  ForeignTool tool;
  std::array<std::string_view, 2> words;  // both are there
};
// The more particular before those that they hold.
constexpr std::array<Mark, 43> kMarks{
    {{{"Primus", "megatron"}, {"pre_trainer:", "overrides:"}},
     {{"Primus", "megatron"}, {"post_trainer:", "overrides:"}},
     {{"FlagScale", "megatron"}, {"system:", "tensor_model_parallel_size:"}},
     {{"FlagScale", "megatron"}, {"experiment:", "runner:"}},
     {{"ms-swift", "megatron"}, {"megatron sft", "--model "}},
     {{"ms-swift", "megatron"}, {"megatron pt", "--model "}},
     {{"ms-swift", ""}, {"swift sft", "--model "}},
     {{"verl", "megatron"}, {"actor_rollout_ref", ""}},
     {{"OpenRLHF", ""}, {"openrlhf.cli", ""}},
     {{"torchtitan", "torchtitan"}, {"torchtitan", "import "}},
     {{"NeMo 2 (the Megatron-Bridge recipe of the same model is read)", ""},
      {"import ", "nemo.collections"}},
     {{"NeMo 2 (the Megatron-Bridge recipe of the same model is read)", ""},
      {"import ", "nemo_run"}},
     {{"Megatron-Bridge", "nemo"}, {"import ", "megatron.bridge"}},
     {{"Megatron-Bridge in YAML (its Python recipe is read)", ""},
      {"_target_:", "megatron.bridge"}},
     {{"Colossal-AI", ""}, {"colossalai", ""}},
     {{"Colossal-AI", ""}, {"parallel = dict(", "tensor"}},
     {{"PyTorch Lightning", ""}, {"import ", "lightning.pytorch"}},
     {{"PyTorch Lightning", ""}, {"import ", "pytorch_lightning"}},
     {{"PyTorch Lightning", ""}, {"trainer:", "class_path:"}},
     {{"Composer or llm-foundry", ""}, {"device_train_microbatch_size", ""}},
     {{"Composer or llm-foundry", ""}, {"global_train_batch_size", "max_seq_len"}},
     {{"MaxText", ""}, {"base_emb_dim", ""}},
     {{"MaxText", ""}, {"per_device_batch_size", "ici_"}},
     {{"MaxText", ""}, {"per_device_batch_size", "dcn_"}},
     {{"torchtune", ""}, {"_component_:", "torchtune"}},
     {{"LLaMA-Factory", ""}, {"model_name_or_path:", "finetuning_type:"}},
     {{"torchtitan", "torchtitan"}, {"[parallelism]", "[training]"}},
     {{"torchtitan", "torchtitan"}, {"[model]", "flavor"}},
     {{"GPT-NeoX", "neox"}, {"pipe_parallel_size", "model_parallel_size"}},
     {{"GPT-NeoX", "neox"}, {"num_layers", "train_micro_batch_size_per_gpu"}},
     {{"GPT-NeoX", "neox"}, {"attention_config", "num_layers"}},
     {{"NeMo", "nemo"}, {"trainer:", "tensor_model_parallel_size"}},
     {{"NeMo", "nemo"}, {"trainer:", "encoder_seq_length"}},
     {{"PyTorch Lightning", ""}, {"trainer:", "accelerator:"}},
     {{"nanotron", ""}, {"parallelism:", "pp_engine"}},
     {{"Hugging Face Accelerate", ""}, {"compute_environment", "distributed_type"}},
     {{"axolotl", ""}, {"base_model:", "datasets:"}},
     {{"the Hugging Face Trainer", ""}, {"per_device_train_batch_size", ""}},
     {{"Galvatron", ""}, {"\"pp_deg\"", "tp_sizes"}},
     {{"Megatron-LM", "megatron"}, {"--num-layers", "--hidden-size"}},
     {{"Megatron-LM", "megatron"}, {"num_layers ..", "hidden_size .."}},  // as its log prints them
     {{"DeepSpeed", "deepspeed"}, {"zero_optimization", "stage"}},
     {{"DeepSpeed", "deepspeed"}, {"train_micro_batch_size_per_gpu", ""}}}};

}  // namespace

ForeignTool foreign_tool(std::string_view text) {
  const auto found = std::ranges::find_if(kMarks, [&](const Mark& mark) {
    return std::ranges::all_of(mark.words,
                               [&](std::string_view word) { return text.find(word) != text.npos; });
  });
  return found == kMarks.end() ? ForeignTool{} : found->tool;
}

ForeignTool tool_of_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("schema") ? ForeignTool{} : foreign_tool(text);
}

}  // namespace weir
