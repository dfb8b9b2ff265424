// Each line is a variable of argparse's namespace: what it holds by default is left out, what it
// holds by a flag is that flag.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/dump.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/text/cells.hpp"
#include "plan/text/quote.hpp"
#include "tools/jobs/job/truth.hpp"

namespace weir {
namespace {

constexpr std::size_t kFewestLines = 3;

// Variables whose flag turns them off (megatron/training/arguments.py, action='store_false').
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kDenied{
    {{"add_bias_linear", "disable-bias-linear"},
     {"add_position_embedding", "no-position-embedding"},
     {"masked_softmax_fusion", "no-masked-softmax-fusion"},
     {"bias_gelu_fusion", "no-bias-gelu-fusion"},
     {"bias_swiglu_fusion", "no-bias-swiglu-fusion"},
     {"bias_dropout_fusion", "no-bias-dropout-fusion"},
     {"apply_rope_fusion", "no-rope-fusion"},
     {"gradient_accumulation_fusion", "no-gradient-accumulation-fusion"},
     {"async_tensor_model_parallel_allreduce", "no-async-tensor-model-parallel-allreduce"},
     {"persist_layer_norm", "no-persist-layer-norm"},
     {"overlap_p2p_comm", "no-overlap-p2p-communication"},
     {"scatter_gather_tensors_in_pipeline", "no-scatter-gather-tensors-in-pipeline"},
     {"tp_comm_bulk_dgrad", "disable-tp-comm-bulk-dgrad"},
     {"tp_comm_bulk_wgrad", "disable-tp-comm-bulk-wgrad"},
     {"tp_comm_overlap_ag", "disable-tp-comm-overlap-ag"},
     {"tp_comm_overlap_rs", "disable-tp-comm-overlap-rs"},
     {"tp_comm_split_ag", "disable-tp-comm-split-ag"},
     {"tp_comm_split_rs", "disable-tp-comm-split-rs"}}};
// What Megatron works out itself from the others, or says of itself.
constexpr std::array<std::string_view, 14> kWorkedOut{"rank",
                                                      "data_parallel_size",
                                                      "transformer_pipeline_model_parallel_size",
                                                      "params_dtype",
                                                      "consumed_train_samples",
                                                      "consumed_valid_samples",
                                                      "iteration",
                                                      "encoder_num_layers",
                                                      "decoder_num_layers",
                                                      "max_tokens_to_oom",
                                                      "model_parallel_size",
                                                      "num_layers_per_virtual_pipeline_stage",
                                                      "local_rank",
                                                      "decoder_seq_length"};

// What other programs of Megatron's have in the same namespace, at its default where this one runs
// (megatron/training/arguments.py: vision, retrievers, BERT, reinforcement learning, Mamba,
// inference).
constexpr std::array<std::string_view, 15> kOfOthers{
    "biencoder_", "retro_",   "ict_",  "bert_", "dino_",  "swin_",      "vision_",   "img_",
    "mask_",      "indexer_", "grpo_", "rl_",   "mamba_", "inference_", "retriever_"};
constexpr std::array<std::string_view, 11> kOthersOwn{"classes_fraction",
                                                      "data_per_class_fraction",
                                                      "num_classes",
                                                      "num_channels",
                                                      "patch_dim",
                                                      "sample_rate",
                                                      "short_seq_prob",
                                                      "query_in_block_prob",
                                                      "iter_per_epoch",
                                                      "head_lr_mult",
                                                      "langrl_inference_server_type"};

// Variables that mean something beside another one alone, which is none or off where they are at
// their defaults.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kOnlyBeside{
    {{"kv_lora_rank", "multi_latent_attention"},
     {"q_lora_rank", "multi_latent_attention"},
     {"qk_head_dim", "multi_latent_attention"},
     {"qk_pos_emb_head_dim", "multi_latent_attention"},
     {"v_head_dim", "multi_latent_attention"},
     {"linear_", "experimental_attention_variant"},
     {"dsa_", "experimental_attention_variant"},
     {"moe_", "num_experts"},
     {"fp8_", "fp8"},
     {"fp4_", "fp4"},
     {"mtp_loss_", "mtp_num_layers"},
     {"tp_comm_bulk_", "tp_comm_overlap"},
     {"tp_comm_overlap_", "tp_comm_overlap"},
     {"tp_comm_split_", "tp_comm_overlap"}}};
// What names a size, and none of the model's or the step's: processes, buffers of libraries and
// logs.
constexpr std::array<std::string_view, 10> kNoSizes{"inprocess_",
                                                    "flight_recorder_",
                                                    "min_offloaded_tensor_size",
                                                    "offset_sampling_",
                                                    "pad_vocab_size",
                                                    "use_gloo_process_groups",
                                                    "enable_gloo_process_groups",
                                                    "suggested_communication_unit_size",
                                                    "image_size",
                                                    "odc_"};
// Degrees by which nothing is divided; 0 of an encoder's: there is none.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kIdleDegrees{
    {{"gtp_weight_remat_size", "1"},
     {"expert_gtp_weight_remat_size", "1"},
     {"encoder_tensor_model_parallel_size", "0"},
     {"encoder_pipeline_model_parallel_size", "0"}}};

// Of programs that a flag turns this one into, so that one that is on is no default: but for these
// two, which a flag turns off.
constexpr std::array<std::string_view, 4> kOfFlags{"biencoder_", "retro_", "ict_", "bert_"};
constexpr std::array<std::string_view, 2> kOnByDefault{"bert_binary_head",
                                                       "retro_verify_neighbor_count"};

bool is_of_others(std::string_view name, std::string_view value) {
  const bool flag = says_true(value) && std::ranges::any_of(kOfFlags, [&](auto begins) {
                      return name.starts_with(begins);
                    });
  if (flag && std::ranges::find(kOnByDefault, name) == kOnByDefault.end()) return false;
  return std::ranges::find(kOthersOwn, name) != kOthersOwn.end() ||
         std::ranges::any_of(kOfOthers, [&](auto begins) { return name.starts_with(begins); });
}

using Values = MegatronNamespace;

// "name ..... value" of a line, with what may stand before it.
std::optional<std::pair<std::string, std::string>> entry_of(std::string_view line) {
  const std::size_t dots = line.find(" ..");
  if (dots == line.npos) return std::nullopt;
  const std::string_view before = trimmed(line.substr(0, dots));
  const std::string_view name = before.substr(before.find_last_of(" :\t]") + 1);
  const std::size_t end = line.find_first_not_of('.', dots + 1);
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
  if (!is_name || end == line.npos || line[end] != ' ') return std::nullopt;
  return std::pair(std::string(name), std::string(trimmed(line.substr(end))));
}

Values values_of(const std::string& text) {
  Values values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("end of arguments") != line.npos) break;
    if (auto entry = entry_of(line)) values.insert(*std::move(entry));
  }
  return values;
}

bool says_nothing(std::string_view value) {
  return value == "None" || says_false(value) || value == "[]" || value.empty();
}

bool means_nothing(const Values& values, std::string_view name, std::string_view value) {
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  if (std::ranges::any_of(kNoSizes, begins)) return true;
  if (std::ranges::find(kIdleDegrees, std::pair(name, value)) != kIdleDegrees.end()) return true;
  const auto is_off = [&](std::string_view variable) {
    const auto found = values.find(variable);
    return found == values.end() || says_nothing(found->second);
  };
  return std::ranges::any_of(kOnlyBeside, [&](const auto& pair) {
    // MindSpeed has a name of its own for it.
    const bool latent = pair.second == "multi_latent_attention";
    return begins(pair.first) && name != pair.second && is_off(pair.second) &&
           (!latent || is_off("multi_head_latent_attention"));
  });
}

// Members of enumerations by their own names: "[<CudaGraphModule.attn: 2>]" is "[attn]".
std::string with_plain_members(const std::string& value) {
  std::string plain;
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t dot = value.find('.', at), colon = value.find(": ", at),
                      end = value.find('>', at);
    if (value[at] == '<' && dot < colon && colon < end && end != value.npos) {
      plain += value.substr(dot + 1, colon - dot - 1);
      at = end + 1;
    } else {
      plain += value[at++];
    }
  }
  return plain;
}

// Those of a list as Python prints it, of lists in it, too.
std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  std::string item;
  char quote = 0;
  for (const char c : list) {
    if (quote != 0 ? c == quote : item.empty() && (c == '\'' || c == '"')) {
      quote = quote == 0 ? c : 0;
    } else if (quote == 0 && (c == ',' || c == '[' || c == ']')) {
      if (!item.empty()) items.push_back(std::exchange(item, ""));
    } else if (quote != 0 || c != ' ' || !item.empty()) {
      item += c;
    }
  }
  return items;
}

// A flag's, a number's or a word's.
std::string argument_of(const std::string& name, std::string value) {
  std::string argument = "--" + name;
  std::ranges::replace(argument, '_', '-');
  if (says_true(value)) return argument;
  value = with_plain_members(value);
  if (value.starts_with("AttnBackend.")) value = value.substr(value.find('.') + 1);
  if (value.ends_with(".0") && name == "zero_stage") value.resize(value.size() - 2);
  if (value.starts_with('[') && value.ends_with(']')) {
    for (const std::string& item : items_of(value)) argument += " " + shell_quoted(item);
    return argument;
  }
  return argument + " " + shell_quoted(value);
}

}  // namespace

std::optional<std::string_view> denying_flag(std::string_view variable) {
  const auto found = std::ranges::find(kDenied, variable, [](const auto& d) { return d.first; });
  return found == kDenied.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> megatron_dump_arguments(const std::string& text) {
  Values values = values_of(text);
  if (values.size() < kFewestLines || !values.contains("hidden_size")) return std::nullopt;
  return megatron_namespace_arguments(std::move(values));
}

std::string megatron_namespace_arguments(MegatronNamespace values) {
  std::string arguments = "pretrain_gpt.py";
  const auto add = [&](const std::string& argument) { arguments += " \\\n" + argument; };
  // By its own name Megatron gives v only as a number of layers.
  if (auto chunks = values.extract("virtual_pipeline_model_parallel_size");
      chunks && !says_nothing(chunks.mapped()))
    add("--num-virtual-stages-per-pipeline-rank " + chunks.mapped());
  if (const auto layout = values.find("pipeline_model_parallel_layout");
      layout != values.end() && !says_nothing(layout->second))
    values.erase("num_virtual_stages_per_pipeline_rank");
  if (auto devices = values.extract("world_size"))
    arguments = "torchrun --nnodes 1 --nproc-per-node " + devices.mapped() + " " + arguments;
  if (const auto whole = values.find("padded_vocab_size"); whole != values.end())
    values.erase("vocab_size");
  // One of those programs says so by a flag of its own.
  const auto on = [&](const char* name) {
    return values.contains(name) && says_true(values[name]);
  };
  const bool other = on("vision_pretraining") || on("perform_rl_step") || on("is_hybrid_model");
  for (const auto& [name, value] : values) {
    if ((!other && is_of_others(name, value)) || means_nothing(values, name, value)) continue;
    if (const auto denied = denying_flag(name)) {
      if (says_false(value)) add("--" + std::string(*denied));
    } else if (!says_nothing(value) && std::ranges::find(kWorkedOut, name) == kWorkedOut.end()) {
      add(argument_of(name, value));
    }
  }
  return arguments;
}

}  // namespace weir
