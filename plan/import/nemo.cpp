// NeMo's YAML as the Megatron arguments that mean the same: both run Megatron-Core.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/import/config_jobs.hpp"
#include "plan/import/config_table.hpp"
#include "plan/import/megatron.hpp"
#include "plan/import/megatron_bridge.hpp"
#include "plan/import/python/evaluate.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

struct Translation {
  std::string_view nemo;
  std::string_view megatron;
  bool flag = false;  // given where NeMo's is true
};
constexpr std::array<Translation, 41> kTranslations{
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
     {"model.num_moe_experts", "num-experts"},
     {"model.moe_router_topk", "moe-router-topk"},
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
     {"model.optim.weight_decay", "weight-decay"},
     {"trainer.gradient_clip_val", "clip-grad"},
     {"model.num_query_groups", "num-query-groups"},
     {"trainer.devices", "nproc-per-node"},
     {"trainer.num_nodes", "nnodes"},
     {"model.tokenizer.type", "tokenizer-name-or-path"},
     {"model.overlap_p2p_comm", "overlap-p2p-communication", true},
     {"model.fp8", "fp8-format", true}}};

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

bool is_true(const std::string& text) { return text == "true" || text == "True"; }

// What takes more than one word of the other side.
std::string special_arguments(ConfigTable& t) {
  std::string arguments;
  const std::string activation = t.text_or("model.activation", "gelu");
  if (activation == "swiglu" || activation == "fast-swiglu") arguments += " --swiglu";
  if (activation == "squared-relu") arguments += " --squared-relu";
  const std::string norm = t.text_or("model.normalization", "layernorm1p");
  arguments += norm == "rmsnorm" ? " --normalization RMSNorm" : " --normalization LayerNorm";
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
  const auto betas = t.list("model.optim.betas");
  if (betas.size() == 2)
    arguments += fmt::format(" --adam-beta1 '{}' --adam-beta2 '{}'", betas[0], betas[1]);
  return arguments;
}

UnreadArgument unread_nemo_key(std::string_view path) {
  constexpr std::array<std::string_view, 17> kBeside{"name",
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
  return {Fate::unknown, "not understood: it may change time or memory"};
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
  if (!t.has("model.num_layers")) {
    throw InputError(file, "model.num_layers",
                     "is missing: expected a NeMo 1 configuration or a Megatron-Bridge recipe");
  }
  const auto all = t.texts();
  for (const auto& [path, value] : all) {
    const std::string followed = resolved(all, path, value);
    if (followed != value) t.replace(path, followed);
  }
  std::string arguments;
  for (const Translation& key : kTranslations) {
    const std::string value = t.text_or(key.nemo, "");
    if (value.empty() || value == "-1") continue;
    if (key.flag && !is_true(value)) continue;
    if (value.find_first_of("'\n") != value.npos) t.fail(key.nemo, "has a quote in it");
    arguments += key.flag ? fmt::format(" --{}", key.megatron)
                          : fmt::format(" --{} '{}'", key.megatron, value);
  }
  arguments += special_arguments(t);
  Job job = read_megatron_job(arguments, file, options);
  job.arguments.clear();
  // What Megatron's reader said is said in NeMo's names.
  for (Remark& remark : job.remarks) {
    const auto same = std::ranges::find(kTranslations, remark.name, &Translation::megatron);
    if (same != kTranslations.end()) remark.name = same->nemo;
  }
  t.account_for(unread_nemo_key, job);
  return job;
}

}  // namespace weir
