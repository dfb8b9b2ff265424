// Converters in both of torchtitan's spellings.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torchtitan/converters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::string_view kConverters = "model.converters";
constexpr std::string_view kFloat8 = "quantize.linear.float8", kMx = "quantize.linear.mx",
                           kFloat8Experts = "quantize.grouped_mm.float8",
                           kMxExperts = "quantize.grouped_mm.mx", kLora = "converter.lora";

// Classes of a registry by 0.2's names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kClasses{
    {{"Float8LinearConverter.Config", kFloat8},
     {"MXFP8LinearConverter.Config", kMx},
     {"Float8GroupedExpertsConverter.Config", kFloat8Experts},
     {"MXFP8GroupedExpertsConverter.Config", kMxExperts},
     {"LoRAConverter.Config", kLora}}};

// Linear layers of a block by their names there, first those that its Llamas have. Where queries,
// keys and values are made apart, those of the last two share their settings, wkv, and have an
// adapter each.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kLinears{
    {{"wqkv", "linear_qkv"},
     {"wo", "linear_proj"},
     {"w1", "linear_fc1_gate"},
     {"w3", "linear_fc1_up"},
     {"w2", "linear_fc2"},
     {"wq", "linear_q"},
     {"wk", "linear_k"},
     {"wv", "linear_v"},
     {"wkv", "linear_k+linear_v"}}};

std::string in_quotes(std::string_view text) {
  std::string plain(text.substr(0, 200));
  std::erase_if(plain, [](char c) { return c == '"' || c == '\\' || c == '\n'; });
  return fmt::format("\"{}\"", plain);
}

std::string list_of(const std::vector<std::string>& words) {
  return fmt::format("[{}]", fmt::join(words, ", "));
}

// The texts of a Python list.
std::vector<std::string> texts_in_quotes(const PythonValue& value) {
  std::vector<std::string> all;
  if (value.list() == nullptr) return all;
  for (const PythonValue& one : value.list()->values)
    all.push_back(in_quotes(one.text() == nullptr ? to_string(one) : *one.text()));
  return all;
}

// A class's own defaults, where they are not those of 0.2: rowwise scales, eight ranks beside every
// linear layer.
void add_one(std::string_view name, const PythonObject& object,
             std::map<std::string, std::string>& keys) {
  const auto key = [name](std::string_view field) { return fmt::format("{}.{}", name, field); };
  if (name == kFloat8) keys[key("recipe_name")] = in_quotes("rowwise");
  if (name == kLora) keys[key("rank")] = "8";
  for (const auto& [field, value] : object.fields) {
    if (field == "model_compile_enabled" || field == "alpha") continue;
    // None of a field is what nothing said is, but for the recipe, whose default is another.
    if (value.none()) {
      if (field == "recipe_name") keys.erase(key(field));
      continue;
    }
    if (field == "target_modules") {
      keys[key("products")] = list_of(texts_in_quotes(value));
    } else if (value.list() != nullptr) {
      keys[key(field)] = list_of(texts_in_quotes(value));
    } else if (value.text() != nullptr) {
      keys[key(field)] = in_quotes(*value.text());
    } else if (const auto* said = std::get_if<bool>(&value.is)) {
      keys[key(field)] = *said ? "true" : "false";
    } else if (value.integer()) {
      keys[key(field)] = fmt::to_string(*value.integer());
    } else {
      keys[key(field)] = in_quotes(to_string(value));
    }
  }
}

// A plan has no scales by rows: those of whole tensors are the nearest, one number a row apart.
Fp8Recipe float8_recipe(TomlTable& t, const std::string& table, std::vector<Remark>& remarks) {
  const std::string key = table + ".recipe_name";
  const std::string recipe = t.text_or(key, "tensorwise");
  if (recipe != "tensorwise" && recipe != "rowwise" && recipe != "rowwise_with_gw_hp")
    t.fail(key, "expected tensorwise, rowwise or rowwise_with_gw_hp");
  if (recipe != "tensorwise")
    remarks.push_back({key, recipe + ": scales by rows, in the plan of whole tensors"});
  return Fp8Recipe::tensorwise;
}

// Layers that a file leaves in 16 bits; a plan's products are all but the head's.
void read_filter(TomlTable& t, const std::string& table, std::vector<Remark>& remarks) {
  for (const char* name : {"filter_fqns", "fqns"}) {
    const std::string key = fmt::format("{}.{}", table, name);
    for (const std::string& module : t.list(key)) {
      const bool head = module == "output" || module == "lm_head";
      const bool all = module == "layers" || module == "auto_filter_small_kn";
      if (head || all) continue;
      remarks.push_back({key, fmt::format("{}: in the plan products of blocks are all in 8 bits",
                                          module.substr(0, 40))});
    }
  }
}

void read_adapters(TomlTable& t, Job& job) {
  const std::string rank = std::string(kLora) + ".rank",
                    products = std::string(kLora) + ".products";
  Adapters adapters{t.integer_or(rank, 8, 1, 1 << 20), {}, 0};
  std::vector<std::string> names = t.list(products);
  // Every linear layer of a block, and the head's.
  if (!t.has(products)) {
    names = {"wqkv", "wo", "w1", "w3", "w2"};
    job.remarks.push_back({products, "none is named: the head's adapter is not in the plan"});
  }
  for (const std::string& name : names) {
    const auto known = std::ranges::find(kLinears, std::string_view(name),
                                         &std::pair<std::string_view, std::string_view>::first);
    if (known == kLinears.end())
      t.fail(products, fmt::format("{}: adapters beside it are not modelled", name.substr(0, 40)));
    const ProductSet its = parse_products(known->second).value();
    for (const auto& [product, word] : kBlockProducts) {
      if (its.has(product)) adapters.targets.add(product);
    }
  }
  if (adapters.targets.empty()) t.fail(products, "expected a list of linear layers");
  job.plan.lora = adapters;
}

void read_float8(TomlTable& t, Job& job) {
  Plan& plan = job.plan;
  // Until 0.1 a table of its own.
  const std::string table(t.has("float8.recipe_name") ? "float8" : kFloat8);
  plan.fp8 = float8_recipe(t, table, job.remarks);
  for (const std::string& of : {std::string("float8"), std::string(kFloat8)}) {
    const std::string gathered = of + ".enable_fsdp_float8_all_gather";
    const bool gathers = t.flag_or(gathered, false);
    // Its converter asserts that no recipe is named beside it (components/quantization).
    if (gathers && t.has(table + ".recipe_name"))
      t.fail(gathered, "is refused by torchtitan beside a recipe_name");
    if (gathers && plan.replicas() > 1) plan.fp8_parameters = plan.zero > 0;
    static_cast<void>(t.flag_or(of + ".precompute_float8_dynamic_scale_for_fsdp", false));
    read_filter(t, of, job.remarks);
  }
}

// Which kernels make 8 bits changes no plan; torchao's others have 4 or 6 (prototype/mx_formats).
void read_mx_recipe(TomlTable& t, const std::string& table) {
  const std::string key = table + ".recipe_name", recipe = t.text_or(key, "mxfp8");
  if (!recipe.starts_with("mxfp8"))
    t.fail(key, fmt::format("{}: expected one of mxfp8", recipe.substr(0, 40)));
}

// The file's converters by 0.2's names. Throws InputError for those that torchtitan refuses
// together: formats of two kinds (0.2: components/quantization/__init__.py, _validate), and one
// behind adapters (main: models/utils.py, validate_converter_order).
std::vector<std::string> converters_of(TomlTable& t, std::vector<Remark>& remarks) {
  std::vector<std::string> names;
  std::string quantizer;
  for (std::string name : t.list(kConverters)) {
    if (name == "float8" || name == "mx") name = fmt::format("quantize.linear.{}", name);
    const bool again = std::ranges::find(names, name) != names.end();
    const bool quantizes = name.starts_with("quantize.");
    const auto kind = [](const std::string& of) { return of.substr(of.rfind('.') + 1); };
    if (quantizes && !quantizer.empty() && kind(name) != kind(quantizer)) {
      t.fail(kConverters, fmt::format("{} beside {}: products of two formats are not modelled",
                                      name.substr(0, 60), quantizer.substr(0, 60)));
    }
    if (quantizes && std::ranges::find(names, kLora) != names.end())
      t.fail(kConverters, fmt::format("{} is expected before the adapters", name.substr(0, 60)));
    if (again && name == kLora)
      t.fail(kConverters, "adapters are given twice: a plan has one kind");
    if (again) remarks.push_back({std::string(kConverters), name + ": the last one's settings"});
    if (quantizes) quantizer = name;
    if (!again) names.push_back(std::move(name));
  }
  return names;
}

// A product's own layer there; nullopt where there is none.
std::optional<std::string_view> linear_of(BlockProduct product) {
  for (const auto& [linear, word] : kLinears) {
    if (word == name_of(kBlockProducts, product)) return linear;
  }
  return std::nullopt;
}

}  // namespace

void add_converters(const PythonValue& list, std::map<std::string, std::string>& keys) {
  if (list.none()) return;
  std::vector<std::string> names;
  // What makes the list is not followed: its word is the converter that is not known.
  if (list.list() == nullptr) {
    keys[std::string(kConverters)] = list_of({in_quotes(to_string(list))});
    return;
  }
  for (const PythonValue& one : list.list()->values) {
    const PythonObject* object = one.object();
    const auto known = std::ranges::find_if(kClasses, [&](const auto& its) {
      return object != nullptr && object->callee.ends_with(its.first);
    });
    if (known != kClasses.end()) {
      names.push_back(in_quotes(known->second));
      add_one(known->second, *object, keys);
    } else {
      names.push_back(in_quotes(to_string(one)));
    }
  }
  keys[std::string(kConverters)] = list_of(names);
}

void set_converters(TomlTable& t, Job& job) {
  Plan& plan = job.plan;
  bool experts = false;
  for (const std::string& name : converters_of(t, job.remarks)) {
    if (name == kFloat8) {
      read_float8(t, job);
    } else if (name == kMx) {
      plan.fp8 = Fp8Recipe::mxfp8;
      read_mx_recipe(t, name);
      static_cast<void>(t.text_or(name + ".mxfp8_dim1_cast_kernel_choice", ""));
      read_filter(t, name, job.remarks);
    } else if (name == kFloat8Experts || name == kMxExperts) {
      experts = true;
      if (name == kMxExperts) read_mx_recipe(t, name);
      static_cast<void>(t.list(name + ".fqns"));
      static_cast<void>(t.integer_or(name + ".pad_multiple", 0, 0, 1 << 20));
    } else if (name == kLora) {
      read_adapters(t, job);
    } else {
      const bool four = name.find("FP4") != std::string::npos;
      job.remarks.push_back({std::string(kConverters),
                             fmt::format("{}: not modelled{}", name.substr(0, 60),
                                         four ? ": products in 4 bits are the number format's in "
                                                "the plan"
                                              : "")});
    }
  }
  const bool in_8_bits = plan.fp8 != Fp8Recipe::none;
  if (in_8_bits && bytes_per_element(plan.dtype) != 2) {
    plan.fp8 = Fp8Recipe::none;
    plan.fp8_parameters = false;
    job.remarks.push_back({std::string(kConverters), "8 bits beside fp32 are not in the plan"});
  } else if (has_experts(job.model) && in_8_bits != experts) {
    job.remarks.push_back({std::string(kConverters),
                           experts ? "experts' products alone: in the plan none is in 8 bits"
                                   : "experts stay in 16 bits: in the plan all products of blocks "
                                     "are in 8"});
  }
  set_treatment(job.model, plan);
}

std::string registry_converters(const Plan& plan) {
  std::vector<std::string> all;
  if (plan.fp8 == Fp8Recipe::tensorwise) {
    all.emplace_back(
        "Float8LinearConverter.Config(recipe_name=\"rowwise\", filter_fqns=[\"lm_head\"])");
  } else if (plan.fp8 == Fp8Recipe::mxfp8) {
    all.emplace_back("MXFP8LinearConverter.Config(fqns=[\"layers\"])");
  }
  if (plan.lora.rank > 0) {
    std::vector<std::string> linears;
    for (const auto& [product, word] : kBlockProducts) {
      const auto linear = plan.lora.targets.has(product) ? linear_of(product) : std::nullopt;
      if (linear) linears.push_back(in_quotes(*linear));
    }
    all.push_back(fmt::format("LoRAConverter.Config(rank={}, target_modules={})", plan.lora.rank,
                              list_of(linears)));
  }
  return all.empty() ? "" : list_of(all);
}

TomlConverters toml_converters(const Plan& plan) {
  if (plan.fp8 == Fp8Recipe::none) return {};
  const bool mx = plan.fp8 == Fp8Recipe::mxfp8;
  TomlConverters its{{{"converters", list_of({in_quotes(mx ? kMx : kFloat8)})}},
                     std::string(mx ? kMx : kFloat8),
                     {{"filter_fqns", "[\"output\"]"}}};
  if (plan.fp8_parameters) its.fields.emplace_back("enable_fsdp_float8_all_gather", "true");
  return its;
}

}  // namespace weir
