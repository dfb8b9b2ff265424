// NeMo's YAML as the Megatron arguments that mean the same: both run Megatron-Core.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>

#include "plan/words/error.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/job/config_table.hpp"
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/nemo/adapters.hpp"
#include "tools/jobs/nemo/bridge.hpp"
#include "tools/jobs/python/evaluate.hpp"

namespace weir {
namespace {

struct Translation {
  std::string_view nemo;
  std::string_view megatron;
  bool flag = false;  // given where NeMo's is true
};
constexpr std::array<Translation, 48> kTranslations{
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
     {"model.moe_grouped_gemm", "moe-grouped-gemm", true},
     {"model.moe_router_pre_softmax", "moe-router-pre-softmax", true},
     {"model.moe_expert_capacity_factor", "moe-expert-capacity-factor"},
     {"model.moe_pad_expert_input_to_capacity", "moe-pad-expert-input-to-capacity", true},
     {"model.qkv_bias", "add-qkv-bias", true},
     {"model.sequence_parallel", "sequence-parallel", true},
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
     {"model.use_flash_attention", "use-flash-attn", true},
     {"model.qk_layernorm", "qk-layernorm", true},
     {"model.optim.lr", "lr"},
     {"model.optim.sched.min_lr", "min-lr"},
     {"model.optim.weight_decay", "weight-decay"},
     {"trainer.gradient_clip_val", "clip-grad"},
     {"model.num_query_groups", "num-query-groups"},
     {"trainer.devices", "nproc-per-node"},
     {"trainer.num_nodes", "nnodes"},
     {"model.tokenizer.type", "tokenizer-type"},
     {"model.overlap_p2p_comm", "overlap-p2p-communication", true}}};

// How long a model's samples may be, and where it is tuned how long its data make them
// (nlp/data/language_modeling/megatron/gpt_sft_dataset.py, max_seq_length @000763d0c69e).
constexpr const char* kModelsLength = "model.encoder_seq_length";
constexpr const char* kTunedLength = "model.data.train_ds.max_seq_length";

// "${.encoder_seq_length}" and "${multiply:4, ${.hidden_size}}": what a key refers to is followed
// where it is a sibling's or a whole path.
std::string resolved(const std::map<std::string, std::string>& all, const std::string& path,
                     std::string text, int depth = 0) {
  if (depth > 8 || !text.starts_with("${") || !text.ends_with("}")) return text;
  const std::string inside = text.substr(2, text.size() - 3);
  if (inside.starts_with("multiply:")) {
    const std::size_t comma = inside.find(',');
    if (comma == inside.npos) return text;
    const auto factor = [&](std::string part) {
      part.erase(0, part.find_first_not_of(' '));
      const std::string number = resolved(all, path, part, depth + 1);
      const bool digits = !number.empty() && number.size() < 10 &&
                          number.find_first_not_of("0123456789") == number.npos;
      return digits ? std::stoll(number) : 0;
    };
    const auto product = factor(inside.substr(9, comma - 9)) * factor(inside.substr(comma + 1));
    return product > 0 ? fmt::to_string(product) : text;
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
  const std::string optimizer = t.text_or("model.optim.name", "fused_adam");
  if (optimizer == "distributed_fused_adam" || optimizer == "mcore_distributed_optim")
    arguments += " --use-distributed-optimizer";
  if (t.flag_or("model.optim.overlap_grad_sync", false)) arguments += " --overlap-grad-reduce";
  if (t.flag_or("model.optim.overlap_param_sync", false)) arguments += " --overlap-param-gather";
  if (t.flag_or("model.fp8", false)) arguments += " --fp8-format hybrid";
  if (t.flag_or("model.fp8_params", false)) arguments += " --fp8-param-gather";
  if (t.flag_or("model.ub_tp_comm_overlap", false)) arguments += " --tp-comm-overlap";
  const auto betas = t.list("model.optim.betas");
  if (betas.size() == 2)
    arguments += fmt::format(" --adam-beta1 '{}' --adam-beta2 '{}'", betas[0], betas[1]);
  // NeMo 1's layers are Megatron's own unless Transformer Engine's are asked for
  // (megatron_gpt_model.py: cfg.get('transformer_engine', False)).
  const bool engine = t.flag_or("model.transformer_engine", false);
  if (!engine && !t.flag_or("model.use_flash_attention", false) && says_kernels(t))
    arguments += " --attention-backend unfused";
  return arguments + rate_arguments(t);
}

constexpr std::string_view kNotUnderstood = "not understood: it may change time or memory";

UnreadArgument unread_nemo_key(std::string_view path) {
  constexpr std::array<std::string_view, 29> kBeside{"name",
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
  for (const std::string_view prefix : kBeside) {
    if (path.starts_with(prefix)) return {};
  }
  constexpr std::string_view kKernel = "another kernel, not modelled: the costs in use decide";
  constexpr std::string_view kSums = "how gradients are summed over replicas, not modelled";
  constexpr std::string_view kHides = "hides or moves communication, not modelled";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kMeanings{
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
  for (const auto& [prefix, why] : kMeanings) {
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
  const auto same = std::ranges::find(kTranslations, megatron, &Translation::megatron);
  return same == kTranslations.end() ? megatron : same->nemo;
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
  std::string arguments;
  for (const Translation& key : kTranslations) {
    std::string value = t.text_or(key.nemo, "");
    if (key.nemo == "model.position_embedding_type")  // "ALiBi"
      std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
    if (key.nemo == kModelsLength) value = tuned.value_or(value);
    if (value.empty() || value == "-1") continue;
    if (key.flag && !says_true(value)) continue;
    if (value.find_first_of("'\n") != value.npos) t.fail(key.nemo, "has a quote in it");
    arguments += key.flag ? fmt::format(" --{}", key.megatron)
                          : fmt::format(" --{} '{}'", key.megatron, value);
  }
  arguments += special_arguments(t);
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
