// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <sstream>

#include "costmodel/table/builtin.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr int kMostNumbers = 100'000;

int parse_number(std::string_view text, const std::string& option) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1 ||
      number > (1 << 20)) {
    throw UsageError(
        fmt::format("{} {}: expected numbers of at least 1, as 4 or 1,2,4 or 1..8", option, text));
  }
  return number;
}

AttentionKind attention_of(const PlanOptions& options) {
  const auto kind = parse_attention_kind(options.attention);
  if (!kind)
    throw UsageError(
        fmt::format("--attention {}: expected unfused or fused (flash)", options.attention));
  return *kind;
}

}  // namespace

std::vector<int> parse_numbers(const std::string& text, const std::string& option) {
  std::vector<int> numbers;
  for (const std::string& part : parse_words(text)) {
    const auto dots = part.find("..");
    const int first = parse_number(part.substr(0, dots), option);
    const int last =
        dots == std::string::npos ? first : parse_number(part.substr(dots + 2), option);
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
  Recompute recompute;
  if (mode == "full" || mode == "always" || mode == "except-last") {
    recompute.mode = RecomputeMode::full;
    recompute.except_last = mode == "except-last";
  } else if (mode == "selective") {
    recompute.mode = RecomputeMode::selective;
  } else if (mode != "none" && mode != "never") {
    throw UsageError(fmt::format(
        "--recompute {}: expected none (never), selective, full (always) or except-last", mode));
  }
  if (microbatches == "except-last") {
    recompute.except_last = true;
  } else if (!microbatches.empty() && microbatches != "all") {
    throw UsageError(
        fmt::format("--recompute-microbatches {}: expected all or except-last", microbatches));
  }
  if (recompute.except_last && recompute.mode == RecomputeMode::selective) {
    throw UsageError("--recompute selective is for all micro-batches: except-last goes with full");
  }
  return recompute;
}

std::string to_text(const Recompute& recompute) {
  return recompute.except_last ? "except-last" : std::string(to_string(recompute.mode));
}

TransferMode parse_transfers(const std::string& text) {
  const auto mode = parse_transfer_mode(text);
  if (!mode)
    throw UsageError(fmt::format("--transfers {}: expected buffered, rendezvous or batched", text));
  return *mode;
}

void add_plan_options(CLI::App& command, PlanOptions& options) {
  command
      .add_option(
          "model", options.model,
          "Hugging Face config.json, layer list, network sizes, layers.csv, or PipeDream graph.txt")
      ->required();
  command.add_option("--seq-length", options.seq_length,
                     "Tokens a sample (default: the model's positions)");
  command.add_option("--dtype", options.dtype, "fp32, tf32, bf16 or fp16")->capture_default_str();
  command
      .add_option("--attention,--attention-backend", options.attention,
                  "unfused (probabilities are kept) or fused (flash: their statistics are)")
      ->capture_default_str();
  command.add_option("--optimizer", options.optimizer, "adamw or sgd")->capture_default_str();
  command.add_option("--learning-rate", options.learning_rate, "Learning rate")
      ->capture_default_str();
  command.add_option(
      "--slots", options.slots,
      "Receive slots an edge (0: unlimited; default 2, or the fewest the schedule needs)");
  command.add_option("--note", options.note, "A free note kept in the plan");
}

Model load_model(const PlanOptions& options) {
  Model model = load_model(options.model);
  set_attention(model, attention_of(options));
  return model;
}

Plan base_plan(const PlanOptions& options, std::uint64_t seed, const Model& model) {
  if (model.ignored_keys > 0) {
    fmt::print(stderr, "weir: {}: {} unknown keys ignored\n", options.model.string(),
               model.ignored_keys);
  }
  Plan plan;
  plan.model_path = options.model.string();
  plan.model_sha256 = sha256_hex(read_text_file(options.model));
  plan.seq_length = options.seq_length.value_or(model.seq_length);
  if (plan.seq_length <= 0 && model.max_positions > 0) {
    throw UsageError(fmt::format("--seq-length is needed: the model accepts up to {} positions",
                                 model.max_positions));
  }
  const auto dtype = parse_dtype(options.dtype);
  if (!dtype)
    throw UsageError(fmt::format("--dtype {}: expected fp32, tf32, bf16 or fp16", options.dtype));
  plan.dtype = *dtype;
  plan.attention = attention_of(options);
  if (options.optimizer != "adamw" && options.optimizer != "sgd") {
    throw UsageError(fmt::format("--optimizer {}: expected adamw or sgd", options.optimizer));
  }
  plan.optimizer.kind = options.optimizer == "sgd" ? OptimizerKind::sgd : OptimizerKind::adamw;
  plan.optimizer.learning_rate = options.learning_rate;
  if (options.slots && *options.slots < 0) throw UsageError("--slots: expected at least 0");
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

Costs costs_or_builtin(const std::optional<std::filesystem::path>& file, const Model& model,
                       const Plan& plan, const Cluster& cluster) {
  return file ? load_costs(*file)
              : builtin_costs(model, plan.seq_length, plan.dtype, cluster, {plan.split()});
}

std::string summary(const Plan& plan) {
  constexpr std::size_t kMostShown = 8;
  std::string boundaries;
  for (std::size_t i = 0; i < plan.boundaries.size(); ++i) {
    const bool skipped =
        plan.boundaries.size() > kMostShown && i >= 2 && i + 1 < plan.boundaries.size();
    if (skipped && i > 2) continue;
    boundaries += fmt::format("{}{}", i == 0 ? "" : ",",
                              skipped ? "..." : std::to_string(plan.boundaries[i]));
  }
  std::string text =
      fmt::format("K{}{}", plan.pp, plan.vpp > 1 ? fmt::format(" v{}", plan.vpp) : "");
  if (plan.tp > 1) text += fmt::format(" tp{}{}", plan.tp, plan.sequence_parallel ? "s" : "");
  if (plan.cp > 1) text += fmt::format(" cp{}", plan.cp);
  if (plan.dp > 1) text += fmt::format(" dp{}", plan.dp);
  if (plan.zero > 0) text += fmt::format(" zero{}", plan.zero);
  text += fmt::format(" M{} b{} {}", plan.microbatches, plan.micro_batch_size, plan.schedule);
  if (plan.attention == AttentionKind::fused) text += " fused";
  if (plan.recompute.mode != RecomputeMode::none) text += " " + to_text(plan.recompute);
  return boundaries.empty() ? text : text + " [" + boundaries + "]";
}

}  // namespace weir
