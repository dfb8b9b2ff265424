// Names and defaults are those of modelscope/ms-swift@3602360a5 (swift/megatron/arguments/
// megatron_args.py, MegatronTunerMixin; utils/utils.py, get_target_modules) and volcengine/
// verl@b178a3cd5 (verl/trainer/config/ppo_megatron_trainer.yaml, lora), whose adapters by Megatron
// are Megatron-Bridge's.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/post_adapters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "plan/text/cells.hpp"
#include "plan/text/words_of.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/job/unmodelled.hpp"

namespace weir {
namespace {

constexpr std::int64_t kHighestRank = 1 << 20;
constexpr double kSwiftDropout = 0.05;

// Of one job: where its words stand.
struct Place {
  const std::string& file;
  std::string key;
  [[noreturn]] void fail(const std::string& message) const { throw InputError(file, key, message); }
};

std::int64_t rank_of(const std::string& text, const Place& place) {
  const auto rank = whole_number<std::int64_t>(text);
  if (!rank || *rank < 1 || *rank > kHighestRank)
    place.fail(fmt::format("{}: expected a rank above 0", text.substr(0, 40)));
  return *rank;
}

double dropout_of(const std::string& text, const Place& place) {
  const auto share = whole_number<double>(text);
  // NaN is below nothing and above nothing.
  if (!share || !(*share >= 0 && *share < 1))
    place.fail(fmt::format("{}: expected a share from 0 to 1", text.substr(0, 40)));
  return *share;
}

// "linear_qkv linear_proj", "['linear_qkv','linear_proj']"; all-linear is every product of a block.
ProductSet products_of(std::string text, const Place& place) {
  std::ranges::replace_if(
      text, [](char c) { return c == ',' || c == '[' || c == ']' || c == '"' || c == '\''; }, ' ');
  ProductSet products;
  for (const std::string& word : words_of(text)) {
    const auto known = word == "all-linear" ? std::optional(all_products()) : parse_products(word);
    if (!known) {
      place.fail(fmt::format("{}: adapters beside it, or in some layers alone, are not modelled",
                             word.substr(0, 60)));
    }
    for (const auto& [product, name] : kBlockProducts) {
      if (known->has(product)) products.add(product);
    }
  }
  if (products.empty()) place.fail("expected products of a block");
  return products;
}

}  // namespace

std::optional<Adapters> take_swift_adapters(PostTrainerValues& values, const std::string& file) {
  const auto take = [&values](const char* name, const std::string& otherwise) {
    auto given = values.extract(name);
    return given ? given.mapped() : otherwise;
  };
  // The first is the newer name.
  const std::string type = take("tuner-type", ""), older = take("train-type", "");
  if (!type.empty() && !older.empty() && type != older) {
    throw InputError(
        file, "--train-type",
        fmt::format("{} contradicts --tuner-type {}", older.substr(0, 40), type.substr(0, 40)));
  }
  const std::string said = type.empty() && !older.empty() ? "train-type" : "tuner-type";
  const std::string kind = !type.empty() ? type : !older.empty() ? older : "full";
  if (kind != "full" && kind != "lora") {
    throw InputError(file, fmt::format("--{}", said),
                     fmt::format("{}: {}", kind.substr(0, 40), kAdaptersNotModelled));
  }
  const std::string rank = take("lora-rank", "8"), products = take("target-modules", "all-linear");
  const std::string dropout = take("lora-dropout", fmt::format("{}", kSwiftDropout));
  // Scales, formats and files of adapters: neither time nor memory of a step.
  for (const char* name : {"lora-alpha", "lora-dtype", "use-rslora", "merge-lora", "adapters"})
    static_cast<void>(take(name, ""));
  const std::string biases = take("lora-bias", "none"), regex = take("target-regex", "");
  if (kind == "full") return std::nullopt;
  if (biases != "none") {
    throw InputError(file, "--lora-bias",
                     fmt::format("{}: biases that are trained beside the adapters are not "
                                 "modelled: expected none",
                                 biases.substr(0, 40)));
  }
  if (!regex.empty()) {
    throw InputError(file, "--target-regex",
                     "regular expressions are not followed: expected --target_modules");
  }
  return Adapters{rank_of(rank, {file, "--lora-rank"}),
                  products_of(products, {file, "--target-modules"}),
                  dropout_of(dropout, {file, "--lora-dropout"})};
}

std::optional<Adapters> verl_adapters(const PathText& text, const std::string& file) {
  const std::string of = "actor_rollout_ref.model.";
  // The first is its other engines' name, which Megatron's takes nothing from.
  const std::string other = text(of + "lora_rank", "0"), rank = text(of + "lora.rank", "0");
  if (other != "0" && rank == "0") {
    throw InputError(
        file, of + "lora_rank",
        fmt::format("{}: Megatron's adapters are {}lora.rank", other.substr(0, 40), of));
  }
  if (rank == "0") return std::nullopt;
  const std::string kind = text(of + "lora.type", "lora");
  if (kind != "lora" && kind != "canonical_lora") {
    throw InputError(file, of + "lora.type",
                     fmt::format("{}: {}", kind.substr(0, 40), kAdaptersNotModelled));
  }
  for (const char* name : {"lora.alpha", "lora.merge", "lora.lora_A_init_method",
                           "lora.lora_B_init_method", "lora.dropout_position", "lora_alpha"})
    static_cast<void>(text(of + name, ""));
  const std::string usual = kind == "lora" ? "all-linear"
                                           : "linear_q linear_k linear_v linear_proj linear_fc1_up "
                                             "linear_fc1_gate linear_fc2";
  return Adapters{
      rank_of(rank, {file, of + "lora.rank"}),
      products_of(text(of + "lora.target_modules", usual), {file, of + "lora.target_modules"}),
      dropout_of(text(of + "lora.dropout", "0"), {file, of + "lora.dropout"})};
}

std::optional<Adapters> primus_adapters(const PostTrainerValues& section, const std::string& file) {
  const auto said = [&section](const char* name, const char* otherwise) {
    const auto found = section.find(name);
    return found == section.end() || found->second.empty() ? std::string(otherwise) : found->second;
  };
  if (!says_true(said("enabled", "false"))) return std::nullopt;
  return Adapters{rank_of(said("dim", "32"), {file, "lora.dim"}),
                  products_of(said("target_modules", "all-linear"), {file, "lora.target_modules"}),
                  dropout_of(said("dropout", "0"), {file, "lora.dropout"})};
}

}  // namespace weir
