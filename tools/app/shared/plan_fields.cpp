// Plans as requests describe them: fields, words, numbers.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/plan_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "plan/model/readers/model_import.hpp"
#include "plan/text/cells.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/nearest.hpp"

namespace weir {
namespace {

constexpr int kMostNumbers = 100'000;
constexpr app::Range kLoraRank{0, 1 << 20};
constexpr app::Range kPredictions{0, kMostPredictions};
constexpr app::Range kWeight{0, 1e6};
constexpr app::Range kNewtonSchulz{1, 100};
constexpr int kMostTokens = 1 << 24;  // of a sequence
constexpr const char* kFp8 = "fp8";   // of --dtype

struct Bounds {
  int low, high;
};

int parse_number(std::string_view text, const std::string& option, Bounds bounds) {
  const auto number = whole_number<int>(text);
  if (!number || *number < bounds.low || *number > bounds.high) {
    throw UsageError(fmt::format("{} {}: expected numbers from {} to {}, as 4 or 1,2,4 or 1..8",
                                 option, text, bounds.low, bounds.high));
  }
  return *number;
}

// The name of an option by its key in the plan file.
std::string option_of(std::string key) {
  std::ranges::replace(key, '_', '-');
  return "--" + key;
}

Optimizer optimizer_of(const PlanOptions& options) {
  const auto kind = parse_optimizer_kind(options.optimizer);
  if (!kind)
    throw UsageError(fmt::format(
        "--optimizer {}: expected adamw, adam, muon, rmsprop or sgd{}", options.optimizer,
        did_you_mean(options.optimizer, {"adamw", "adam", "muon", "rmsprop", "sgd"})));
  const auto style = parse_decay_style(options.lr_decay_style);
  if (!style)
    throw UsageError(fmt::format(
        "--lr-decay-style {}: expected constant, linear or cosine{}", options.lr_decay_style,
        did_you_mean(options.lr_decay_style, {"constant", "linear", "cosine"})));
  Optimizer o;
  o.kind = *kind;
  o.learning_rate = options.learning_rate;
  o.momentum = options.momentum;
  o.nesterov = options.nesterov;
  if (o.kind == OptimizerKind::muon) o.newton_schulz = options.newton_schulz;
  o.weight_decay = options.weight_decay;
  o.clip_norm = options.clip_grad;
  o.rate = {.warmup_iters = options.lr_warmup_iters.value_or(0),
            .decay_iters = options.lr_decay_iters.value_or(0),
            .style = *style,
            .min_lr = options.min_lr};
  // One judge for options and files: the words are the option's.
  if (const auto fault = fault_of(o))
    throw UsageError(fmt::format("{}: {}", option_of(fault->key), fault->expected));
  return o;
}

Fp8Recipe fp8_of(const PlanOptions& options) {
  if (options.fp8_recipe.empty())
    return options.dtype == kFp8 ? Fp8Recipe::delayed : Fp8Recipe::none;
  const auto recipe = parse_fp8_recipe(options.fp8_recipe);
  if (!recipe || *recipe == Fp8Recipe::none) {
    throw UsageError(fmt::format(
        "--fp8-recipe {}: expected delayed, tensorwise, blockwise or mxfp8{}", options.fp8_recipe,
        did_you_mean(options.fp8_recipe, {"delayed", "tensorwise", "blockwise", "mxfp8"})));
  }
  return *recipe;
}

Adapters adapters_of(const PlanOptions& options) {
  if (options.lora_rank == 0) {
    if (!options.lora_targets.empty() || options.lora_dropout > 0)
      throw UsageError("--lora-targets and --lora-dropout need --lora-rank");
    return {};
  }
  Adapters adapters{options.lora_rank, all_products(), options.lora_dropout};
  if (options.lora_targets.empty()) return adapters;
  std::string text = options.lora_targets;
  // Plans join products by +; a command line by commas.
  std::ranges::replace(text, ',', '+');
  const auto targets = parse_products(text);
  if (!targets) {
    throw UsageError(
        fmt::format("--lora-targets {}: expected products of a block, as "
                    "linear_qkv,linear_proj,linear_fc1,linear_fc2",
                    options.lora_targets));
  }
  adapters.targets = *targets;
  return adapters;
}

std::vector<LayerRange> frozen_of(const PlanOptions& options) {
  if (options.frozen.empty()) return {};
  if (options.lora_rank > 0)
    throw UsageError("--frozen goes without --lora-rank, which freezes all of the model's weights");
  const auto layers = parse_layers(options.frozen);
  if (!layers)
    throw UsageError(fmt::format("--frozen {}: expected layers as 0-11,40", options.frozen));
  return *layers;
}

// Attention, what is trained, formats of products.
void treat(const PlanOptions& options, Plan& plan) {
  plan.attention = attention_of(options);
  plan.fp8 = fp8_of(options);
  plan.fp8_parameters = options.fp8_param_gather;
  plan.lora = adapters_of(options);
  plan.frozen = frozen_of(options);
  plan.prediction_layers = options.prediction_layers;
  if (plan.prediction_layers > 0) plan.prediction_weight = options.prediction_weight;
  if (plan.prediction_layers == 0 && options.prediction_weight != kPredictionWeight)
    throw UsageError("--mtp-loss-scaling-factor needs --mtp-num-layers");
  if (plan.fp8 != Fp8Recipe::none && bytes_per_element(dtype_of(options)) != 2)
    throw UsageError("--fp8-recipe needs --dtype fp8, bf16 or fp16");
  if (plan.fp8_parameters && plan.fp8 == Fp8Recipe::none)
    throw UsageError("--fp8-param-gather needs --dtype fp8");
}

}  // namespace

namespace {

// Lines, or numbers with commas between them.
std::vector<int> counted_lengths(const std::string& file) {
  std::string text = read_text_file(file);
  std::ranges::replace(text, ',', '\n');
  std::vector<int> lengths;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    if (line.empty()) continue;
    const auto length = whole_number<int>(line);
    if (!length || *length < 1 || *length > kMostTokens) {
      throw InputError(file, fmt::format("length {}", number),
                       fmt::format("{}: expected tokens of a sequence, from 1 to {}",
                                   line.substr(0, 40), kMostTokens));
    }
    lengths.push_back(*length);
  }
  if (lengths.empty()) throw InputError(file, "", "expected lengths of sequences, one a line");
  return quantiles_of(std::move(lengths));
}

std::vector<int> quantiles_said(const std::string& text) {
  if (const auto colon = text.find(':'); colon != std::string::npos) {
    const auto mean = whole_number<double>(text.substr(0, colon));
    const auto most = whole_number<int>(text.substr(colon + 1));
    if (mean && most && *most >= 1 && *most <= kMostTokens) {
      if (const auto quantiles = quantiles_of(*mean, *most)) return *quantiles;
    }
    throw UsageError(fmt::format(
        "--lengths {}: expected MEAN:MOST, as 900:4096, the mean between 0 and the most", text));
  }
  std::vector<int> quantiles = parse_numbers(text, "--lengths", 1, kMostTokens);
  if (!std::ranges::is_sorted(quantiles) || quantiles.size() > kMostQuantiles)
    throw UsageError(fmt::format("--lengths {}: expected at most {} ascending quantiles",
                                 text.substr(0, 80), kMostQuantiles));
  return quantiles;
}

}  // namespace

SequenceLengths lengths_of(const PlanOptions& options) {
  if (options.lengths.empty()) {
    if (!options.rows.empty()) throw UsageError("--rows needs --lengths");
    return {};
  }
  const auto rows = parse_rows_of(options.rows.empty() ? "packed" : options.rows);
  if (!rows) {
    throw UsageError(fmt::format("--rows {}: expected packed, cut or longest{}", options.rows,
                                 did_you_mean(options.rows, {"packed", "cut", "longest"})));
  }
  // What begins as a number is one; all else is a file.
  const bool numbers = options.lengths.find_first_not_of("0123456789,.:") == std::string::npos &&
                       !std::filesystem::exists(options.lengths);
  return {numbers ? quantiles_said(options.lengths) : counted_lengths(options.lengths), *rows};
}

AttentionKind attention_of(const PlanOptions& options) {
  const auto kind = parse_attention_kind(options.attention);
  if (!kind)
    throw UsageError(fmt::format("--attention {}: expected unfused or fused (flash){}",
                                 options.attention,
                                 did_you_mean(options.attention, {"unfused", "fused", "flash"})));
  return *kind;
}

std::vector<int> parse_numbers(const std::string& text, const std::string& option, int low,
                               int high) {
  const Bounds bounds{low, high};
  std::vector<int> numbers;
  for (const std::string& part : parse_words(text)) {
    const auto dots = part.find("..");
    const int first = parse_number(part.substr(0, dots), option, bounds);
    const int last =
        dots == std::string::npos ? first : parse_number(part.substr(dots + 2), option, bounds);
    // Bounded: a range that was mistyped should not fill the memory.
    if (last < first || last - first > kMostNumbers)
      throw UsageError(fmt::format("{} {}: an empty range", option, part));
    for (int n = first; n <= last; ++n) numbers.push_back(n);
  }
  if (numbers.empty()) throw UsageError(fmt::format("{}: expected at least one number", option));
  return numbers;
}

std::vector<std::string> parse_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}

Recompute parse_recompute(const std::string& mode, const std::string& microbatches) {
  const bool alias = mode == "always" || mode == "except-last";
  // Older words for the same modes.
  const auto known = parse_recompute_word(alias ? "stage" : mode == "never" ? "none" : mode);
  if (!known) {
    throw UsageError(fmt::format(
        "--recompute {}: expected none (never), selective, full, stage "
        "(always), except-last, full:N (so many blocks at a time), layers as 0-11,40, or modules "
        "as selective:layernorm+moe_act{}",
        mode,
        did_you_mean(mode,
                     {"none", "never", "selective", "full", "stage", "always", "except-last"})));
  }
  Recompute recompute = *known;
  recompute.except_last = mode == "except-last";
  if (microbatches == "except-last") {
    recompute.except_last = true;
  } else if (!microbatches.empty() && microbatches != "all") {
    throw UsageError(
        fmt::format("--recompute-microbatches {}: expected all or except-last", microbatches));
  }
  if (recompute.except_last && recompute.mode == RecomputeMode::selective) {
    throw UsageError(
        "--recompute selective is for all micro-batches: except-last goes with full and stage");
  }
  return recompute;
}

TransferMode parse_transfers(const std::string& text) {
  const auto mode = parse_transfer_mode(text);
  if (!mode)
    throw UsageError(fmt::format("--transfers {}: expected buffered, rendezvous or batched", text));
  return *mode;
}

app::Fields fields(PlanOptions& o) {
  return {
      {"model",
       &o.model,
       "Hugging Face config.json, its folder or its name in the hub's cache (Qwen/Qwen3-8B), layer "
       "list, network sizes, layers.csv, or PipeDream graph.txt",
       {.required = true, .model = true}},
      {"--seq-length",
       &o.seq_length,
       "Tokens a sample (default: the model's positions)",
       {.range = app::kTokens}},
      {"--lengths", &o.lengths,
       "Tokens of the sequences in rows of --seq-length: a file of them, MEAN:MOST, or quantiles "
       "as 64,256,4096 (default: a row is one sequence)"},
      {"--rows", &o.rows,
       "With --lengths: packed (whole sequences, the default), cut (a stream, cut where rows end) "
       "or longest (one each, in a micro-batch as long as its longest)"},
      {"--dtype", &o.dtype,
       "fp32, tf32, bf16, fp16, or fp8 (bf16 with products of blocks in 8 bits)"},
      {"--fp8-recipe", &o.fp8_recipe,
       "How scales of products in 8 bits are found: delayed (default), tensorwise, blockwise or "
       "mxfp8"},
      {"--fp8-param-gather", &o.fp8_param_gather,
       "Keep and gather the matrices of blocks in 8 bits alone, with --dtype fp8"},
      {"--lora-rank",
       &o.lora_rank,
       "Train adapters of this rank (LoRA) in place of all weights (0: all weights)",
       {.range = kLoraRank}},
      {"--lora-targets", &o.lora_targets,
       "Products with adapters: linear_qkv (or linear_q, linear_k, linear_v), linear_proj, "
       "linear_fc1 (or linear_fc1_up, linear_fc1_gate), linear_fc2 (default: the four)"},
      {"--lora-dropout", &o.lora_dropout, "Of what adapters read", {.range = app::kShare}},
      {"--frozen", &o.frozen, "Layers whose weights stay as they are, as 0-11,40"},
      {"--mtp-num-layers",
       &o.prediction_layers,
       "Blocks behind the model's norm, each with a loss for a token further ahead (multi-token "
       "prediction)",
       {.range = kPredictions}},
      {"--mtp-loss-scaling-factor",
       &o.prediction_weight,
       "Weight of the mean of their losses",
       {.range = kWeight}},
      {"--attention,--attention-backend", &o.attention,
       "unfused (probabilities are kept) or fused (flash: their statistics are)"},
      {"--optimizer", &o.optimizer, "adamw, adam, muon, rmsprop or sgd"},
      {"--learning-rate,--lr", &o.learning_rate, "Learning rate", {.range = app::kLearningRate}},
      {"--momentum", &o.momentum, "Of sgd, rmsprop and muon", {.range = app::kShare}},
      {"--nesterov", &o.nesterov, "Nesterov's momentum, of sgd and muon"},
      {"--newton-schulz",
       &o.newton_schulz,
       "Of muon: steps of Newton and Schulz",
       {.range = kNewtonSchulz}},
      {"--weight-decay", &o.weight_decay, "Weight decay", {.range = app::kWeightDecay}},
      {"--clip-grad",
       &o.clip_grad,
       "Largest norm of all gradients together (0: they are not clipped)",
       {.range = app::kNorm}},
      {"--lr-warmup-iters",
       &o.lr_warmup_iters,
       "Steps in which the learning rate grows from 0",
       {.range = app::kIterations}},
      {"--lr-decay-style", &o.lr_decay_style, "constant, linear or cosine"},
      {"--lr-decay-iters",
       &o.lr_decay_iters,
       "Step at which a decay has ended, warm-up included",
       {.range = app::kIterations}},
      {"--min-lr", &o.min_lr, "Learning rate that a decay ends at", {.range = app::kLearningRate}},
      {"--slots",
       &o.slots,
       "Receive slots an edge (0: unlimited; default 2, or the fewest the schedule needs)",
       {.range = app::kSlots}},
      {"--note", &o.note, "A free note kept in the plan"}};
}

Model load_model(const PlanOptions& options) {
  Model model = options.model_text ? parse_model(*options.model_text, options.model)
                                   : load_model(options.model);
  Plan plan;
  treat(options, plan);
  if (plan.prediction_layers > 0) {
    if (const auto reason = cannot_predict(model))
      throw InputError(options.model.string(), "--mtp-num-layers", *reason);
  }
  set_treatment(model, plan);
  return model;
}

void take_treatment(const Plan& plan, const app::Session& session, PlanOptions& options) {
  const auto own = [&session](const char* option, auto& value, const auto& its) {
    if (!session.given(option)) value = its;
  };
  own("dtype", options.dtype, std::string(to_string(plan.dtype)));
  own("attention", options.attention, std::string(to_string(plan.attention)));
  if (plan.fp8 != Fp8Recipe::none)
    own("fp8-recipe", options.fp8_recipe, std::string(to_string(plan.fp8)));
  own("fp8-param-gather", options.fp8_param_gather, plan.fp8_parameters);
  own("frozen", options.frozen, layers_word(plan.frozen));
  own("mtp-num-layers", options.prediction_layers, plan.prediction_layers);
  if (options.prediction_layers > 0)
    own("mtp-loss-scaling-factor", options.prediction_weight, plan.prediction_weight);
  if (session.given("lora-rank")) return;
  options.lora_rank = static_cast<int>(plan.lora.rank);
  own("lora-targets", options.lora_targets, to_string(plan.lora.targets));
  own("lora-dropout", options.lora_dropout, plan.lora.dropout);
}

Dtype dtype_of(const PlanOptions& options) {
  if (options.dtype == kFp8) return Dtype::bf16;
  const auto dtype = parse_dtype(options.dtype);
  if (!dtype) {
    throw UsageError(
        fmt::format("--dtype {}: expected fp32, tf32, bf16, fp16 or fp8{}", options.dtype,
                    did_you_mean(options.dtype, {"fp32", "tf32", "bf16", "fp16", "fp8"})));
  }
  return *dtype;
}

Plan base_plan(const PlanOptions& options, std::uint64_t seed, const Model& model,
               const app::Session& session, SampleLength length) {
  for (const std::string& remark : model.remarks)
    session.note(fmt::format("{}: {}", options.model.string(), remark));
  Plan plan;
  plan.model_path = options.model.string();
  plan.model_sha256 =
      sha256_hex(options.model_text ? *options.model_text : read_text_file(options.model));
  // The model's own length where it has one: a limit on positions alone is none.
  plan.seq_length = options.seq_length.value_or(model.seq_length);
  if (plan.seq_length <= 0 && model.max_positions > 0 && length == SampleLength::needed) {
    throw UsageError(fmt::format("--seq-length is needed: the model {} {} positions",
                                 model.longer ? "speaks of" : "accepts up to",
                                 model.max_positions));
  }
  plan.lengths = lengths_of(options);
  plan.dtype = dtype_of(options);
  treat(options, plan);
  plan.optimizer = optimizer_of(options);
  if (plan.optimizer.kind != OptimizerKind::muon)
    session.refuse({"newton-schulz"}, "is of --optimizer muon");
  plan.slots = options.slots.value_or(2);
  plan.seed = seed;
  plan.note = options.note;
  return plan;
}

Bytes parse_memory(const std::string& text, const std::string& option) {
  const auto bytes = parse_bytes(text);
  if (!bytes)
    throw UsageError(
        fmt::format("{} {}: expected an amount with its unit, as \"80 GiB\"", option, text));
  return *bytes;
}

Seconds parse_duration(const std::string& text, const std::string& option) {
  const auto value = parse_duration(std::string_view(text));
  if (!value)
    throw UsageError(fmt::format("{} {}: expected a duration, as 30s, 5min or 3h", option, text));
  return *value;
}

app::Field seed_field(std::uint64_t& seed) {
  return {"--seed", &seed, "Seed of everything random", {.range = app::kSeed}};
}

}  // namespace weir
