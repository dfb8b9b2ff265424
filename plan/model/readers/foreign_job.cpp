// Tools by the words of their files.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/readers/foreign_job.hpp"

#include <algorithm>
#include <array>

namespace weir {
namespace {

struct Mark {
  ForeignTool tool;
  std::array<std::string_view, 2> words;  // both are there
};
// The more particular before those that they hold.
constexpr std::array<Mark, 18> kMarks{
    {{{"torchtitan", "torchtitan"}, {"torchtitan", "import "}},
     {{"NeMo 2 or Megatron-Bridge (Python; the YAML of NeMo 1 is read)", ""},
      {"import ", "nemo.collections"}},
     {{"NeMo 2 or Megatron-Bridge (Python; the YAML of NeMo 1 is read)", ""},
      {"import ", "megatron.bridge"}},
     {{"NeMo 2 or Megatron-Bridge (Python; the YAML of NeMo 1 is read)", ""},
      {"_target_:", "megatron.bridge"}},
     {{"torchtitan", "torchtitan"}, {"[parallelism]", "[training]"}},
     {{"torchtitan", "torchtitan"}, {"[model]", "flavor"}},
     {{"GPT-NeoX", "neox"}, {"pipe_parallel_size", "model_parallel_size"}},
     {{"GPT-NeoX", "neox"}, {"num_layers", "train_micro_batch_size_per_gpu"}},
     {{"GPT-NeoX", "neox"}, {"attention_config", "num_layers"}},
     {{"NeMo", "nemo"}, {"trainer:", "tensor_model_parallel_size"}},
     {{"NeMo", "nemo"}, {"trainer:", "encoder_seq_length"}},
     {{"nanotron", ""}, {"parallelism:", "pp_engine"}},
     {{"Hugging Face Accelerate", ""}, {"compute_environment", "distributed_type"}},
     {{"axolotl", ""}, {"base_model:", "datasets:"}},
     {{"Galvatron", ""}, {"\"pp_deg\"", "tp_sizes"}},
     {{"Megatron-LM", "megatron"}, {"--num-layers", "--hidden-size"}},
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

}  // namespace weir
