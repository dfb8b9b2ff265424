// Their words as a plan's: rank, products, dropout. What scales the adapters (alpha), how they
// begin and where they are saved changes neither time nor memory.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/nemo/adapters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/words/error.hpp"
#include "tools/jobs/job/unmodelled.hpp"

namespace weir {
namespace {

constexpr std::int64_t kHighestRank = 1 << 20;

class Peft {
 public:
  Peft(const PythonObject& object, const std::string& file, Job& job)
      : object_(object), file_(file), job_(job) {}

  Adapters read() {
    const std::string scheme = scheme_name();
    if (scheme != "lora" && scheme != "LoRA" && scheme != "CanonicalLoRA")
      fail("", fmt::format("{}: {}", scheme, kAdaptersNotModelled));
    Adapters adapters{32, all_products(), 0};
    if (scheme == "CanonicalLoRA") {
      adapters.targets = parse_products(
                             "linear_q+linear_k+linear_v+linear_proj+linear_fc1_up+"
                             "linear_fc1_gate+linear_fc2")
                             .value();
    }
    for (const auto& [name, value] : object_.fields) field(name, value, adapters);
    return adapters;
  }

 private:
  // LoRA(...), or default_peft_config("lora").
  [[nodiscard]] std::string scheme_name() const {
    // Fields of what _peft_common() makes.
    if (object_.callee.empty() || object_.callee == "cfg.peft") return "lora";
    if (object_.callee != "default_peft_config") return object_.callee.substr(0, 60);
    if (object_.places.empty() || object_.places.front().text() == nullptr) return object_.callee;
    return *object_.places.front().text();
  }

  void field(const std::string& name, const PythonValue& value, Adapters& adapters) {
    if (name == "dim") {
      const auto rank = value.integer();
      if (!rank || *rank < 1 || *rank > kHighestRank) fail(name, "expected a rank above 0");
      adapters.rank = *rank;
    } else if (name == "dropout") {
      const auto share = value.number();
      if (!share || *share < 0 || *share >= 1) fail(name, "expected a share from 0 to 1");
      adapters.dropout = *share;
    } else if (name == "target_modules") {
      adapters.targets = targets(value);
    } else if (says_something(value)) {
      other(name, value);
    }
  }

  ProductSet targets(const PythonValue& value) {
    ProductSet products;
    if (value.list() == nullptr) fail("target_modules", "expected a list of modules");
    for (const PythonValue& one : value.list()->values) {
      const std::string word = one.text() == nullptr ? to_string(one).substr(0, 60) : *one.text();
      const auto product = parse_products(word);
      if (!product) {
        fail(
            "target_modules",
            fmt::format("{}: adapters beside it, or in some layers alone, are not modelled", word));
      }
      for (const auto& [known, known_name] : kBlockProducts) {
        if (product->has(known)) products.add(known);
      }
    }
    if (products.empty()) fail("target_modules", "expected a list of modules");
    return products;
  }

  static bool says_something(const PythonValue& value) {
    const auto* said = std::get_if<bool>(&value.is);
    const bool empty = value.list() != nullptr && value.list()->values.empty();
    return !value.none() && !empty && (said == nullptr || *said);
  }

  void other(const std::string& name, const PythonValue& value) {
    constexpr std::array<std::string_view, 5> kHarmless{"alpha", "lora_A_init_method",
                                                        "lora_B_init_method",
                                                        "share_expert_adapters", "network_alpha"};
    if (std::ranges::find(kHarmless, name) != kHarmless.end()) return;
    const std::string text = to_string(value).substr(0, 60);
    if (name == "exclude_modules" || name == "normalize_moe_lora" ||
        name == "experts_shared_outer_loras")
      fail(name, fmt::format("{}: adapters of other products or ranks are not modelled", text));
    if (value.text() != nullptr && *value.text() == "pre") return;  // dropout_position
    job_.remarks.push_back(
        {"peft." + name, fmt::format("{}: a detail of the adapters, not modelled", text)});
  }

  [[noreturn]] void fail(const std::string& name, const std::string& message) const {
    throw InputError(file_, name.empty() ? "peft" : "peft." + name, message);
  }

  const PythonObject& object_;
  const std::string& file_;
  Job& job_;
};

// NeMo 1's names; "attention" and "mlp" are two each, "all" is all.
void add_nemo_target(const std::string& name, ProductSet& products) {
  const auto is = [&](std::string_view one, std::string_view group) {
    return name == one || name == group || name == "all";
  };
  if (is("attention_qkv", "attention")) products.add(BlockProduct::linear_qkv);
  if (is("attention_dense", "attention")) products.add(BlockProduct::linear_proj);
  if (is("mlp_fc1", "mlp")) products.add(BlockProduct::linear_fc1);
  if (is("mlp_fc2", "mlp")) products.add(BlockProduct::linear_fc2);
}

}  // namespace

void take_bridge_adapters(const PythonValue& peft, const std::string& file, Job& job) {
  if (peft.object() == nullptr) {
    throw InputError(file, "peft",
                     fmt::format("{}: {}", to_string(peft).substr(0, 60), kAdaptersNotModelled));
  }
  job.plan.lora = Peft(*peft.object(), file, job).read();
  set_treatment(job.model, job.plan);
  if (const auto misfit = cannot_divide(job.model, job.plan))
    throw InputError(file, "peft", misfit->reason);
  job.arguments.push_back({"peft", to_string(peft).substr(0, 80), Fate::carried});
}

void take_nemo_adapters(ConfigTable& t, Job& job) {
  const std::string key = "model.peft.peft_scheme";
  // A file has the sections of all schemes.
  for (const auto& [path, text] : t.texts()) {
    if (path.starts_with("model.peft.")) static_cast<void>(t.list(path));
  }
  const std::string scheme = t.text_or(key, "");
  if (scheme.empty() || scheme == "none") return;
  if (scheme != "lora") t.fail(key, fmt::format("{}: {}", scheme, kAdaptersNotModelled));
  const std::string of = "model.peft.lora_tuning.";
  Adapters adapters{t.integer_or(of + "adapter_dim", 32, 1, kHighestRank),
                    {},
                    t.number_or(of + "adapter_dropout", 0, 0, 1)};
  std::vector<std::string> names = t.list(of + "target_modules");
  if (names.empty()) names = {"attention_qkv"};
  for (const std::string& name : names) {
    add_nemo_target(name, adapters.targets);
    ProductSet of_name;
    add_nemo_target(name, of_name);
    if (of_name.empty())
      t.fail(of + "target_modules", fmt::format("{}: adapters beside it are not modelled", name));
  }
  if (const auto layers = t.list(of + "layer_selection"); !layers.empty())
    t.fail(of + "layer_selection", "adapters in some layers alone are not modelled");
  job.plan.lora = adapters;
  set_treatment(job.model, job.plan);
  if (const auto misfit = cannot_divide(job.model, job.plan)) t.fail(key, misfit->reason);
}

}  // namespace weir
