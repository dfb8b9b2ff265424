// NeMo's YAML as the Megatron arguments that mean the same: both run Megatron-Core.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/job/config_table.hpp"
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/nemo/adapters.hpp"
#include "tools/jobs/nemo/bridge.hpp"
#include "tools/jobs/nemo/words.hpp"
#include "tools/jobs/python/evaluate.hpp"

namespace weir {
namespace {

// How long a model's samples may be, and where it is tuned how long its data make them
// (nlp/data/language_modeling/megatron/gpt_sft_dataset.py, max_seq_length @000763d0c69e).
constexpr const char* kModelsLength = "model.encoder_seq_length";
constexpr const char* kTunedLength = "model.data.train_ds.max_seq_length";

// "${.encoder_seq_length}", "${multiply:4, ${.hidden_size}}" and "${sum:${.num_layers},-1}": what a
// key refers to is followed where it is a sibling's or a whole path.
std::string resolved(const std::map<std::string, std::string>& all, const std::string& path,
                     std::string text, int depth = 0) {
  if (depth > 8 || !text.starts_with("${") || !text.ends_with("}")) return text;
  const std::string inside = text.substr(2, text.size() - 3);
  const bool multiplies = inside.starts_with("multiply:");
  if (multiplies || inside.starts_with("sum:")) {
    const std::size_t begin = inside.find(':') + 1, comma = inside.find(',');
    if (comma == inside.npos) return text;
    const auto number = [&](std::string part) {
      part.erase(0, part.find_first_not_of(' '));
      const std::string digits = resolved(all, path, part, depth + 1);
      return digits.size() < 10 ? whole_number<std::int64_t>(digits) : std::nullopt;
    };
    const auto first = number(inside.substr(begin, comma - begin));
    const auto second = number(inside.substr(comma + 1));
    if (!first || !second) return text;
    const std::int64_t made = multiplies ? *first * *second : *first + *second;
    return made > 0 ? fmt::to_string(made) : text;
  }
  const std::string target =
      inside.starts_with(".") ? path.substr(0, path.rfind('.')) + inside : inside;
  const auto found = all.find(target);
  return found == all.end() ? text : resolved(all, target, found->second, depth + 1);
}

// The rate's course: CosineAnnealing ends its decay with the training, or earlier by its constant
// steps (nemo/core/optim/lr_scheduler.py, 1.23). Others are said by nemo_remarks().
std::string rate_arguments(ConfigTable& t) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const std::string name = t.text_or("model.optim.sched.name", "");
  // Some recipes have halves of steps, as 132.5: what a rule of their authors gave.
  const auto steps = [&](const char* key) {
    return std::llround(t.number_or(key, 0, 0, static_cast<double>(kMost)));
  };
  const auto warmup = steps("model.optim.sched.warmup_steps");
  const auto constant = steps("model.optim.sched.constant_steps");
  const auto trained = t.integer("trainer.max_steps", -1, kMost);
  const auto total = t.integer_or("model.optim.sched.max_steps", trained.value_or(0), -1, kMost);
  std::string arguments = warmup > 0 ? fmt::format(" --lr-warmup-iters {}", warmup) : std::string();
  if (name != "CosineAnnealing" || total - constant <= warmup)
    return arguments + " --lr-decay-style constant";
  return arguments + fmt::format(" --lr-decay-style cosine --lr-decay-iters {}", total - constant);
}

// Refused by what they train, and not by the keys that a GPT's file has and theirs has not.
void refuse_other_models(ConfigTable& t, const std::string& file) {
  struct OtherModel {
    std::string_view key, name, what;  // a key of its own, and its "name: megatron_..."
  };
  constexpr std::array<OtherModel, 7> kOthers{
      {{"model.bert_binary_head", "bert", "BERT"},
       {"model.encoder", "t5", "an encoder with a decoder"},
       {"model.decoder", "t5", "an encoder with a decoder"},
       {"model.mm_cfg", "neva", "a vision-language model"},
       {"model.vision", "clip", "a model of pictures and text"},
       {"model.patch_dim", "vit", "a vision model"},
       {"model.retro", "retro", "a retriever's model"}}};
  const std::string name = t.text_or("name", "");
  for (const OtherModel& other : kOthers) {
    const bool named = name.starts_with(fmt::format("megatron_{}", other.name)) ||
                       name.starts_with(fmt::format("nemo_{}", other.name));
    if (!t.has(other.key) && !named) continue;
    throw InputError(file, t.has(other.key) ? std::string(other.key) : "name",
                     fmt::format("is a job of {}, which is not read from NeMo's files: "
                                 "megatron_gpt's are",
                                 other.what));
  }
}

// Whether the file says which attention runs.
bool says_kernels(const ConfigTable& t) {
  return t.has("model.transformer_engine") || t.has("model.use_flash_attention");
}

// Of NeMo's own table (core/optim/optimizers.py, AVAILABLE_OPTIMIZERS @8cfedd720346) and
// Megatron-Core's, which is its Adam (core/classes/modelPT.py, setup_megatron_optimization). A
// class by its path takes the name's place there.
std::string optimizer_arguments(ConfigTable& t) {
  constexpr std::array<std::string_view, 6> kAdams{"adam",
                                                   "adamw",
                                                   "fused_adam",
                                                   "megatron_fused_adam",
                                                   "distributed_fused_adam",
                                                   "mcore_distributed_optim"};
  constexpr const char *kClass = "model.optim._target_", *kName = "model.optim.name";
  const std::string path = t.text_or(kClass, ""), name = t.text_or(kName, "fused_adam");
  const bool adam = std::ranges::find(kAdams, name) != kAdams.end();
  if (!path.empty() || (!adam && name != "sgd")) {
    t.fail(path.empty() ? kName : kClass,
           fmt::format(
               "{}: expected {}{} or sgd", (path.empty() ? name : path).substr(0, 60),
               path.empty() ? "" : "model.optim.name in its place: ", fmt::join(kAdams, ", ")));
  }
  // PyTorch's, whose momentum is 0 where nothing is said.
  if (!adam)
    return fmt::format(" --optimizer sgd --sgd-momentum {}",
                       t.number_or("model.optim.momentum", 0, 0, 1));
  const bool shared = name == "distributed_fused_adam" || name == "mcore_distributed_optim";
  std::string arguments = shared ? " --use-distributed-optimizer" : "";
  const auto betas = t.list("model.optim.betas");
  if (betas.size() == 2)
    arguments += fmt::format(" --adam-beta1 '{}' --adam-beta2 '{}'", betas[0], betas[1]);
  return arguments;
}

// Whose names are Megatron's, or have one there.
std::string named_arguments(ConfigTable& t, const std::optional<std::string>& tuned) {
  std::string arguments;
  for (const NemoWord& key : kNemoWords) {
    const bool counts = key.beside.empty() || t.flag_or(key.beside, false);
    const std::vector<std::string> words = t.list(key.nemo);
    std::string value = key.said == Said::by_list ? fmt::format("{}", fmt::join(words, " "))
                                                  : t.text_or(key.nemo, "");
    if (key.nemo == "model.position_embedding_type")  // "ALiBi"
      std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
    if (key.nemo == kModelsLength) value = tuned.value_or(value);
    if (!counts || value.empty() || value == "-1" || value == "null" || value == "None") continue;
    if (key.said == Said::by_flag && !says_true(value)) continue;
    if (value.find_first_of("'\n") != value.npos) t.fail(key.nemo, "has a quote in it");
    arguments += key.said == Said::by_flag ? fmt::format(" --{}", key.megatron)
                                           : fmt::format(" --{} '{}'", key.megatron, value);
  }
  return arguments;
}

// What takes more than one word of the other side.
std::string special_arguments(ConfigTable& t) {
  std::string arguments;
  const std::string activation = t.text_or("model.activation", "gelu");
  if (activation == "swiglu" || activation == "fast-swiglu") arguments += " --swiglu";
  if (activation == "squared-relu") arguments += " --squared-relu";
  for (const std::string_view gated : {"geglu", "reglu"}) {
    if (activation == gated || activation == fmt::format("fast-{}", gated))
      arguments += fmt::format(" --glu-activation {}", gated);
  }
  const std::string norm = t.text_or("model.normalization", "layernorm1p");
  arguments += norm == "rmsnorm" ? " --normalization RMSNorm" : " --normalization LayerNorm";
  if (norm == "layernorm1p") arguments += " --apply-layernorm-1p";
  if (!t.flag_or("model.bias", true)) arguments += " --disable-bias-linear";
  if (!t.flag_or("model.share_embeddings_and_output_weights", true))
    arguments += " --untie-embeddings-and-output-weights";
  if (t.integer("model.num_query_groups", 1, 1 << 20)) arguments += " --group-query-attention";
  const std::string precision = t.text_or("trainer.precision", "32");
  if (precision.starts_with("bf16")) arguments += " --bf16";
  if (precision.starts_with("16")) arguments += " --fp16 --accumulate-allreduce-grads-in-fp32";
  arguments += optimizer_arguments(t);
  if (t.flag_or("model.optim.overlap_grad_sync", false)) arguments += " --overlap-grad-reduce";
  if (t.flag_or("model.optim.overlap_param_sync", false)) arguments += " --overlap-param-gather";
  if (t.flag_or("model.fp8", false)) arguments += " --fp8-format hybrid";
  if (t.flag_or("model.fp8_params", false)) arguments += " --fp8-param-gather";
  if (t.flag_or("model.ub_tp_comm_overlap", false)) arguments += " --tp-comm-overlap";
  // NeMo 1's layers are Megatron's own unless Transformer Engine's are asked for
  // (megatron_gpt_model.py: cfg.get('transformer_engine', False)).
  const bool engine = t.flag_or("model.transformer_engine", false);
  if (!engine && !t.flag_or("model.use_flash_attention", false) && says_kernels(t))
    arguments += " --attention-backend unfused";
  return arguments + rate_arguments(t);
}

constexpr std::string_view kNotUnderstood = "not understood: it may change time or memory";

UnreadArgument unread_nemo_key(std::string_view path) {
  for (const std::string_view prefix : kNemoBesideTheJob) {
    if (path.starts_with(prefix)) return {};
  }
  for (const auto& [prefix, why] : nemo_words::kMeanings) {
    if (path.starts_with(prefix)) return {Fate::not_carried, why};
  }
  // The others' names are Megatron's.
  if (!path.starts_with("model.")) return {Fate::unknown, kNotUnderstood};
  std::string name(path.substr(6));
  std::ranges::replace(name, '_', '-');
  return unread_argument(name);
}

// Keys that say nothing where another switches them off, or that are 0.
void pass_over(ConfigTable& t) {
  const bool fp8 = t.flag_or("model.fp8", false), fsdp = t.flag_or("model.fsdp", false);
  for (const auto& [path, text] : t.texts()) {
    const bool zero = text == "0" || text == "0.0";
    const bool off = (!fp8 && path.starts_with("model.fp8_")) ||
                     (!fsdp && path.starts_with("model.fsdp_")) ||
                     (zero && (path.starts_with("model.activations_checkpoint_layers") ||
                               path.starts_with("model.num_micro_batches_with_partial") ||
                               path == "model.ffn_dropout"));
    if (off) static_cast<void>(t.list(path));
  }
  const std::string block = t.text_or("model.transformer_block_type", "pre_ln");
  if (block != "pre_ln")
    t.fail("model.transformer_block_type", fmt::format("{}: not modelled: expected pre_ln", block));
  const std::string attention = t.text_or("model.attention_type", "multihead");
  if (attention != "multihead")
    t.fail("model.attention_type", fmt::format("{}: not modelled: expected multihead", attention));
}

}  // namespace

namespace {

std::string_view nemos_name(std::string_view megatron) {
  const auto same = std::ranges::find(kNemoWords, megatron, &NemoWord::megatron);
  return same == kNemoWords.end() ? megatron : same->nemo;
}

// Samples of fine-tuning lie in rows packed before (nlp/data/language_modeling/megatron/
// gpt_sft_dataset.py, GPTSFTPackedDataset @000763d0c69e), else each in one of its own, as long as
// the longest of its micro-batch unless all are filled up.
void set_nemo_rows(ConfigTable& t, Job& job) {
  const std::string of = "model.data.train_ds.", packed = of + "packed_sequence",
                    padded = of + "pad_to_max_length";
  const bool whole = t.flag_or(padded, false);  // as GPTSFTDataset has it
  if (t.flag_or(packed, false)) {
    job.rows = {packed, RowsOf::packed};
  } else if (!whole && t.has("model.data.train_ds")) {
    job.remarks.push_back({padded,
                           "false: every sample is taken as long as it may become; --lengths with "
                           "--rows longest says how long they are"});
  }
}

// What the tuning's data say of how long samples are; nothing where that is left open (-1, ???, a
// reference to what is elsewhere), and the model's length is taken.
std::optional<std::string> tuned_length(ConfigTable& t) {
  const std::string value = t.text_or(kTunedLength, "");
  const bool open =
      value.empty() || value == "-1" || value == "???" || value.find('$') != value.npos;
  return open ? std::nullopt : std::optional(value);
}

// What Megatron's reader refuses, by the keys of the file; `length` is that of the sequences'.
Job in_nemos_names(const std::string& arguments, const std::string& file, const JobOptions& options,
                   std::string_view length) {
  try {
    return read_megatron_job(arguments, file, options);
  } catch (const DeviceCountError&) {
    throw;
  } catch (const InputError& error) {
    const std::string line = error.what(), begin = file + ": --";
    if (!line.starts_with(begin)) throw;
    const std::size_t end = line.find(": ", begin.size());
    if (end == line.npos) throw;
    const std::string megatrons = line.substr(begin.size(), end - begin.size());
    std::string_view key = nemos_name(megatrons);  // which may be a view of it
    if (key == kModelsLength) key = length;
    std::string why = line.substr(end + 2);
    if (why == "is below seq-length") why = fmt::format("is below {}", length);
    throw InputError(file, std::string(key), why);
  }
}

// What of the rate's course and of the kernels the plan does not have.
void add_remarks(ConfigTable& t, Job& job) {
  const std::string name = t.text_or("model.optim.sched.name", "");
  if (!name.empty() && job.plan.optimizer.rate.style == DecayStyle::constant) {
    job.remarks.push_back(
        {"model.optim.sched.name",
         name.substr(0, 40) + (name == "CosineAnnealing" ? ": without a number of steps above the "
                                                           "warm-up's: constant in the plan"
                                                         : ": constant in the plan")});
  }
  for (const auto& [key, why] :
       {std::pair("model.overlap_p2p_comm", "hides or moves communication, not modelled"),
        {"model.apply_query_key_layer_scaling",
         "scales scores by the layer's number; what is trained changes, not its time"}}) {
    if (t.flag_or(key, false)) job.remarks.push_back({key, fmt::format("true: {}", why)});
  }
  // Transformer Engine warns so (pytorch/cpu_offload.py, get_cpu_offload_context).
  constexpr const char* kWeights = "model.cpu_offloading_weights";
  if (t.flag_or(kWeights, false) && t.flag_or("model.cpu_offloading", false)) {
    job.remarks.push_back({kWeights,
                           "true: without effect in Transformer Engine of today: weights stay on "
                           "the device"});
  }
}

}  // namespace

Job read_nemo_job(const std::string& text, const std::string& file, const JobOptions& options) {
  if (is_python(text)) {
    if (text.find("nemo.collections") != text.npos || text.find("nemo_run") != text.npos) {
      throw InputError(file, "",
                       "is a NeMo 2 recipe, which is not read: give the Megatron-Bridge recipe of "
                       "the same model, or the Megatron arguments");
    }
    return read_bridge_job(text, file, options);
  }
  ConfigTable t(text, file);
  refuse_other_models(t, file);
  if (!t.has("model.num_layers")) {
    throw InputError(file, "model.num_layers",
                     "is missing: expected a NeMo 1 configuration or a Megatron-Bridge recipe");
  }
  const auto all = t.texts();
  for (const auto& [path, value] : all) {
    const std::string followed = resolved(all, path, value);
    if (followed != value) t.replace(path, followed);
  }
  const std::optional<std::string> tuned = tuned_length(t);
  const std::string arguments = named_arguments(t, tuned) + special_arguments(t);
  pass_over(t);
  JobOptions named = options;
  const bool by_default = !says_kernels(t) && !options.given.attention;
  if (by_default) named.given.attention = AttentionKind::unfused;
  if (const auto whole = t.integer("model.override_vocab_size", 1, 1 << 30))
    named.vocabulary = *whole;
  Job job = in_nemos_names(arguments, file, named, tuned ? kTunedLength : kModelsLength);
  if (by_default) job.defaults.push_back({"attention", "unfused (transformer_engine is false)"});
  std::erase_if(job.defaults, [&](const Remark& taken) {
    return taken.name == "distributed optimizer" && t.has("model.optim.name");
  });
  job.arguments.clear();
  job.lines.clear();
  // What Megatron's reader said is said in NeMo's names.
  for (Remark& remark : job.remarks) remark.name = nemos_name(remark.name);
  std::erase_if(job.remarks,
                [](const Remark& remark) { return remark.name == "model.overlap_p2p_comm"; });
  add_remarks(t, job);
  // Megatron's has none.
  Optimizer& optimizer = job.plan.optimizer;
  if (optimizer.kind == OptimizerKind::sgd && optimizer.momentum > 0)
    optimizer.nesterov = t.flag_or("model.optim.nesterov", false);
  take_nemo_adapters(t, job);
  set_nemo_rows(t, job);
  if (t.has("model.megatron_amp_O2") && !t.flag_or("model.megatron_amp_O2", false) &&
      job.plan.dtype != Dtype::fp32) {
    job.remarks.push_back({"model.megatron_amp_O2",
                           "false: weights stay in fp32 and are cast in each layer; the plan keeps "
                           "them in both formats"});
  }
  t.account_for(unread_nemo_key, job);
  return job;
}

}  // namespace weir
