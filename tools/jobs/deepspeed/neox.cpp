// GPT-NeoX's jobs: its model's keys, and DeepSpeed's beside them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/model/limits.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/deepspeed/import.hpp"
#include "tools/jobs/deepspeed/words.hpp"
#include "tools/jobs/job/config_jobs.hpp"

namespace weir {
namespace {

constexpr std::array<std::string_view, 5> kGated{"swiglu", "geglu", "reglu", "bilinear", "glu"};

// GPT-NeoX merges the files that it is started with.
constexpr const char* kSeveralFiles =
    "is missing: where the job is several files, join them: cat MODEL.yml TRAINING.yml";

std::int64_t required(ConfigTable& t, std::string_view key, std::int64_t most = kLargestSize) {
  const auto value = t.integer(key, 1, most);
  if (!value) t.fail(key, kSeveralFiles);
  return *value;
}

// What would make the forecast one of another job.
void refuse_other_training(ConfigTable& t) {
  const std::string kind = t.text_or("train_impl", "normal");
  if (kind != "normal") {
    t.fail("train_impl", fmt::format("{}: only the training of a language model, \"normal\", is "
                                     "modelled",
                                     kind));
  }
  // All else is frozen (EleutherAI/gpt-neox@ea7aefd8, megatron/training.py, get_model).
  constexpr const char* kPrompt = "soft_prompt_tuning.enabled";
  if (t.flag_or(kPrompt, false))
    t.fail(kPrompt, "true: a soft prompt alone is trained, which is not modelled");
  for (const std::string& word : t.list("attention_config")) {
    if (word == "mamba" || word == "rwkv" || word == "gmlp" || word == "amlp")
      t.fail("attention_config", fmt::format("{} blocks are not modelled", word));
  }
}

// Tokens, padded as NeoX pads them: to a multiple of make_vocab_size_divisible_by times tp.
std::int64_t neox_vocabulary(ConfigTable& t, const JobOptions& options, int tp,
                             std::vector<Remark>& remarks) {
  if (const auto padded = t.integer("padded_vocab_size", 1, kLargestSize)) return *padded;
  const std::string type = t.text_or("tokenizer_type", "GPT2BPETokenizer");
  const std::string file = t.text_or("vocab_file", "");
  std::int64_t tokens = 50257;
  if (options.vocabulary) {
    tokens = *options.vocabulary;
  } else if (file.find("20B_tokenizer") != file.npos) {
    tokens = 50277;
  } else if (type != "GPT2BPETokenizer" && type != "HFGPT2Tokenizer") {
    remarks.push_back(
        {"tokenizer_type", fmt::format("{}: its tokens are not known: {} supposed, GPT-2's; "
                                       "vocab_size says otherwise",
                                       type, tokens)});
  }
  const std::int64_t multiple =
      t.integer_or("make_vocab_size_divisible_by", 128, 1, kLargestSize) * tp;
  return ceil_div(tokens, multiple) * multiple;
}

void set_neox_mlp(ConfigTable& t, TransformerShape& block, std::vector<Remark>& remarks) {
  const std::string activation = t.text_or("activation", "gelu");
  block.gated = std::ranges::find(kGated, activation) != kGated.end();
  const bool tanh_form = t.flag_or("bias_gelu_fusion", false);
  block.activation = activation == "swiglu" || activation == "silu"  ? Activation::silu
                     : activation == "relu" || activation == "reglu" ? Activation::relu
                     : tanh_form                                     ? Activation::gelu_tanh
                                                                     : Activation::gelu;
  const double expansion = t.number_or("expansion_factor", 4, 0.01, 1000);
  std::int64_t ffn = t.integer_or(
      "intermediate_size", static_cast<std::int64_t>(expansion * static_cast<double>(block.hidden)),
      1, kLargestSize);
  const std::int64_t multiple = t.integer_or("mlp_multiple_of", 1, 1, kLargestSize);
  // Gated MLPs have two thirds of it: one matrix for gate and input, so rounded up together.
  if (block.gated) {
    const std::int64_t said = ffn;
    ffn = ceil_div(ffn * 2 / 3, 2 * multiple) * 2 * multiple / 2;
    if (t.has("intermediate_size")) {
      remarks.push_back(
          {"intermediate_size",
           fmt::format("{}: a gated MLP of GPT-NeoX is a third of it wide: {}", said, ffn)});
    }
  } else {
    ffn = ceil_div(ffn, 2 * multiple) * 2 * multiple;
  }
  block.ffn = ffn;
  block.mlp_bias = t.flag_or("use_bias_in_mlp", true);
  if (t.integer_or("moe_num_experts", 1, 1, 1 << 16) > 1)
    t.fail("moe_num_experts", "experts of GPT-NeoX are not modelled");
}

void set_neox_norm(ConfigTable& t, TransformerShape& block) {
  const std::string norm = t.text_or("norm", "layernorm");
  const bool rms = norm == "rmsnorm" || norm == "te_rmsnorm";
  const bool layer = norm == "layernorm" || norm == "te_layernorm";
  if (!rms && !layer) t.fail("norm", fmt::format("{}: expected layernorm or rmsnorm", norm));
  block.norm = rms ? NormKind::rms_norm : NormKind::layer_norm;
  const double of_layer = t.number_or("layernorm_epsilon", 1e-5, 1e-12, 1);
  const double of_rms = t.number_or("rms_norm_epsilon", 1e-8, 1e-12, 1);
  block.norm_epsilon = rms ? of_rms : of_layer;
  static_cast<void>(t.flag_or("use_bias_in_norms", true));  // an RMS norm has none here
}

// attention_config: kinds that alternate, and how many layers of them.
void set_neox_attention(ConfigTable& t, const GivenFields& given, const std::string& file,
                        Job& job) {
  bool flash = false, other = false;
  for (const std::string& word : t.list("attention_config")) {
    const bool digits = word.find_first_not_of("0123456789") == word.npos;
    flash = flash || word == "flash";
    other = other || (!digits && word != "flash" && word != "global" && word != "all");
  }
  const AttentionKind said = flash ? AttentionKind::fused : AttentionKind::unfused;
  job.plan.attention = said;
  if (other)
    job.remarks.push_back({"attention_config", "other attention than global: timed as global"});
  if (t.has("attention_config")) {
    if (given.attention.value_or(said) != said) {
      contradicts("attention", std::string(to_string(*given.attention)), file,
                  fmt::format("attention_config: {}", to_string(said)));
    }
  } else if (given.attention) {
    job.plan.attention = *given.attention;
  } else {
    // megatron/neox_arguments/arguments.py: [[["global"], num_layers]].
    job.defaults.push_back({"attention", "unfused (attention_config is global)"});
  }
}

void fill_neox_recompute(const ConfigTable& t, const GivenFields& given, const std::string& file,
                         Job& job) {
  Recompute& recompute = job.plan.recompute;
  if (!t.has("checkpoint_activations")) {
    recompute = given.recompute.value_or(recompute);
    if (!given.recompute) job.defaults.push_back({"re-materialisation", "none"});
  } else if (given.recompute && *given.recompute != recompute) {
    contradicts("recompute", recompute_word(*given.recompute), file,
                "checkpoint_activations: " + recompute_word(recompute));
  }
}

Model neox_model(ConfigTable& t, const JobOptions& options, Plan& plan,
                 std::vector<Remark>& remarks) {
  TransformerShape block;
  block.hidden = required(t, "hidden_size");
  block.heads = required(t, "num_attention_heads");
  if (block.hidden % block.heads != 0)
    t.fail("num_attention_heads", fmt::format("does not divide hidden_size {}", block.hidden));
  block.head_dim = block.hidden / block.heads;
  block.kv_heads = t.integer_or("num_kv_heads", block.heads, 1, kLargestSize);
  if (block.heads % block.kv_heads != 0)
    t.fail("num_kv_heads", "does not divide num_attention_heads");
  set_neox_mlp(t, block, remarks);
  set_neox_norm(t, block);
  block.qkv_bias = block.output_bias = t.flag_or("use_bias_in_attn_linear", true);
  block.parallel = t.flag_or("gpt_j_residual", false);
  if (t.flag_or("gpt_j_tied", false))
    remarks.push_back({"gpt_j_tied", "one norm for attention and MLP: the model has two"});
  block.qk_norm = t.flag_or("use_qk_layernorm", false);
  block.attention_dropout = t.number_or("attention_dropout", 0, 0, 0.999);
  block.residual_dropout = t.number_or("hidden_dropout", 0, 0, 0.999);
  const std::int64_t blocks = required(t, "num_layers", kMostLayers);
  const std::int64_t seq_length = required(t, "seq_length");
  const std::int64_t positions =
      t.integer_or("max_position_embeddings", seq_length, 1, kLargestSize);
  const std::string kind = t.text_or("pos_emb", "learned");
  block.rotary = kind == "rotary";
  if (block.rotary)
    block.angles.theta = t.number_or("rotary_emb_base", block.angles.theta, 1e-3, 1e12);
  if (block.rotary && t.number_or("rotary_pct", 1, 0, 1) != 1)
    remarks.push_back({"rotary_pct", "turns only a part of each head; not timed"});
  if (kind == "alibi")
    remarks.push_back({"pos_emb", "alibi: its bias on the attention scores is not timed"});
  if (kind != "learned" && kind != "rotary" && kind != "alibi" && kind != "none" &&
      kind != "sinusoidal") {
    t.fail("pos_emb", fmt::format("{}: expected learned, rotary, alibi, sinusoidal or none", kind));
  }
  const EmbeddingShape embedding{.vocabulary = neox_vocabulary(t, options, plan.tp, remarks),
                                 .hidden = block.hidden,
                                 .positions = kind == "learned" ? positions : 0,
                                 .dropout = block.residual_dropout,
                                 .tied = !t.flag_or("no_weight_tying", false)};
  return decoder_model(usual_decoder(embedding, block, blocks), seq_length);
}

// Configured by its own keys, not by DeepSpeed's section (megatron/initialize.py).
void set_neox_checkpoints(ConfigTable& t, Job& job) {
  if (t.flag_or(kCheckpointsAway, false))
    job.remarks.push_back({kCheckpointsAway, kArgumentsSayIt});
  const bool by_deepspeed = t.flag_or("deepspeed_activation_checkpointing", true);
  constexpr const char* kOwn = "checkpoint_in_cpu";
  if (!t.flag_or(kOwn, false) || !by_deepspeed) return;
  keep_checkpoints_with_host(kOwn, t.flag_or("partition_activations", false), job);
}

// FP8 is Transformer Engine's around the whole of a block, for those of its products that are
// Transformer Engine's: attention's, and the MLP's where that is asked for (EleutherAI/
// gpt-neox@ea7aefd8, megatron/model/transformer.py, ParallelTransformerLayer; model/utils.py,
// get_parallel_linear). Its scales are delayed (model/transformer_engine.py, TEDelayedScaling).
void set_neox_fp8(ConfigTable& t, Job& job) {
  constexpr const char *kOn = "te_fp8_mha", *kFormat = "te_fp8_format", *kWeights = "te_fp8_wgrad";
  if (!t.flag_or(kOn, false)) return;
  const bool columns = t.flag_or("te_columnparallel", false);
  const bool rows = t.flag_or("te_rowparallel", false);
  const bool mlp = t.flag_or("te_layernorm_mlp", false) || (columns && rows);
  const std::string format = t.text_or(kFormat, "hybrid");
  if (format != "hybrid" && format != "e4m3") t.fail(kFormat, "expected hybrid or e4m3");
  if (bytes_per_element(job.plan.dtype) != 2) {
    job.remarks.push_back(
        {kOn, "true: products in 8 bits beside fp32 are not in the plan: its format is fp32"});
    return;
  }
  if (!mlp) {
    job.remarks.push_back({kOn,
                           "true: attention's products alone are Transformer Engine's and in 8 "
                           "bits: in the plan none is"});
    return;
  }
  if (!t.flag_or(kWeights, true))
    job.remarks.push_back({kWeights, "false: gradients of weights are in 8 bits in the plan"});
  job.plan.fp8 = Fp8Recipe::delayed;
  set_treatment(job.model, job.plan);
}

UnreadArgument unread_neox_key(std::string_view path) {
  // What else is said of te_fp8_mha, or of it where it is off.
  if (path.starts_with("te_fp8_")) return {};
  if (path.starts_with("fp8")) {
    return {Fate::not_carried,
            "is none of GPT-NeoX's keys, whose FP8 is te_fp8_mha: products are in 16 bits in the "
            "plan"};
  }
  for (const std::string_view prefix : neox_words::kKernels) {
    if (path.starts_with(prefix))
      return {Fate::not_carried, "another kernel, not modelled: the costs in use decide"};
  }
  if (path == "partition_activations")
    return {Fate::not_carried, "shares what re-materialisation keeps among ranks; not modelled"};
  if (path == "synchronize_each_layer")
    return {Fate::not_carried, "waits for the device after each rebuilt layer; not modelled"};
  if (path == "output_layer_parallelism") return {};
  const UnreadArgument known = unread_deepspeed_key(path);
  if (known.fate == Fate::not_carried) return known;
  for (const std::string_view prefix : neox_words::kBeside) {
    if (path.starts_with(prefix)) return {};
  }
  return known;
}

// The learning rate's course, as NeoX's annealing has it: a warm-up by a share of all iterations,
// then the decay, which ends with the training where nothing else is said.
void set_neox_rate(ConfigTable& t, Plan& plan, std::vector<Remark>& remarks) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  Optimizer& o = plan.optimizer;
  const std::int64_t trained = t.integer_or("train_iters", 0, 0, kMost);
  const std::int64_t decay = t.integer_or("lr_decay_iters", trained, 0, kMost);
  const double least = t.number_or("min_lr", 0, 0, 1e6);
  const double share = t.number_or("warmup", 0.01, 0, 1);
  const std::string style = t.text_or("lr_decay_style", "linear");
  if (decay == 0) return;  // no course is said
  const auto known = parse_decay_style(style);
  const auto warmup = std::llround(share * static_cast<double>(decay));
  o.rate.warmup_iters = warmup;
  if (known && *known != DecayStyle::constant && decay > warmup && least <= o.learning_rate) {
    o.rate = {warmup, decay, *known, least};
  } else if (!known || *known != DecayStyle::constant) {
    remarks.push_back({"lr_decay_style", style.substr(0, 40) + ": constant in the plan"});
  }
}

}  // namespace

Job read_neox_job(const std::string& text, const std::string& file, const JobOptions& options) {
  ConfigTable t(text, file);
  if (!t.has("num_layers") && (t.has("trainer") || t.has("model"))) {
    throw InputError(file, "", "is no configuration of GPT-NeoX: it has NeMo's sections");
  }
  refuse_other_training(t);
  fill_deepspeed(t, options.given);
  if (options.given.seq_length)
    t.fill("seq_length", fmt::to_string(*options.given.seq_length), "seq-length");
  const bool batch = t.has("train_micro_batch_size_per_gpu") || t.has("train_batch_size");
  Job job;
  Plan& plan = job.plan;
  plan.tp = static_cast<int>(t.integer_or("model_parallel_size", 1, 1, kMostRanks));
  const auto stages = t.integer_or("pipe_parallel_size", 0, 0, kMostRanks);
  plan.pp = static_cast<int>(std::max<std::int64_t>(stages, 1));  // 0: no pipeline engine
  plan.cp = static_cast<int>(t.integer_or("context_parallel_size", 1, 1, kMostRanks));
  job.model = neox_model(t, options, plan, job.remarks);
  plan.seq_length = job.model.seq_length;
  plan.schedule = "1f1b";
  if (!batch) t.fail("train_micro_batch_size_per_gpu", kSeveralFiles);
  read_deepspeed(t, plan, options, file, job.remarks);
  const std::string precision = t.text_or("precision", "");
  const std::string asked(options.given.dtype ? to_string(*options.given.dtype) : "");
  if (!asked.empty() && !precision.empty() &&
      asked != (precision == "bfloat16" ? "bf16" : precision))
    contradicts("dtype", asked, file, "precision: " + precision);
  if (precision == "bfloat16") plan.dtype = Dtype::bf16;
  if (precision == "fp16") plan.dtype = Dtype::fp16;
  plan.optimizer.clip_norm = t.number_or("gradient_clipping", 1, 0, 1e9);
  plan.optimizer.weight_decay = t.number_or("weight_decay", 0.1, 0, 1e3);
  set_neox_rate(t, plan, job.remarks);
  plan.sequence_parallel = t.flag_or("sequence_parallel", false) && plan.tp > 1;
  set_neox_attention(t, options.given, file, job);
  set_neox_fp8(t, job);
  if (t.flag_or("checkpoint_activations", false)) plan.recompute.mode = RecomputeMode::full;
  const auto group = t.integer_or("checkpoint_num_layers", 1, 1, kMostLayers);
  if (group > 1 && plan.recompute.mode == RecomputeMode::full) {
    job.remarks.push_back({"checkpoint_num_layers",
                           fmt::format("{}: counted from a stage's first layer, and nothing is "
                                       "rebuilt of a chunk with another layer than blocks; the "
                                       "plan counts from the first block",
                                       group)});
    plan.recompute.at_a_time = static_cast<int>(group);
  }
  fill_neox_recompute(t, options.given, file, job);
  set_neox_checkpoints(t, job);
  say_deepspeed_defaults(t, job);
  const std::string method = t.text_or("pipe_partition_method", "type:transformer|mlp");
  if (!method.starts_with("type:"))
    job.remarks.push_back({"pipe_partition_method", method + ": blocks are dealt evenly"});
  const auto blocks = static_cast<std::int64_t>(job.model.layers.size()) - 3;
  plan.boundaries = boundaries_of_blocks(balanced_blocks(t, "pipe_parallel_size", blocks, plan.pp));
  t.account_for(unread_neox_key, job);
  return job;
}

}  // namespace weir
