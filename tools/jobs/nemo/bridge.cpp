// A recipe's fields as Megatron's arguments, whose names they mostly are. Defaults are those of
// megatron/bridge/recipes/common.py, recipes/utils and models/gpt_provider.py
// (NVIDIA-NeMo/Megatron-Bridge@067f987df03b).
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/nemo/bridge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "plan/words/error.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/nemo/adapters.hpp"
#include "tools/jobs/nemo/bridge_words.hpp"
#include "tools/jobs/python/evaluate.hpp"

namespace weir {
namespace {

template <std::size_t N>
std::string_view named_in(const std::array<BridgeName, N>& table, std::string_view path) {
  const auto found = std::ranges::find(table, path, &BridgeName::first);
  return found == table.end() ? std::string_view() : found->second;
}

bool beside(const std::string& path) {
  return std::ranges::any_of(kBridgeBesideTheJob, [&](std::string_view name) {
    return path == name || (path.starts_with(name) && path[name.size()] == '.');
  });
}

std::string hyphened(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

// A value as the shell reads it: torch.float32 is fp32 there.
std::string shell_value(const PythonValue& value) {
  std::string text = value.text() != nullptr ? *value.text() : to_string(value);
  for (const auto& [torch, megatron] : {BridgeName{"torch.float32", "fp32"},
                                        {"torch.bfloat16", "bf16"},
                                        {"torch.float16", "fp16"}}) {
    if (text == torch) text = megatron;
  }
  std::ranges::replace(text, '\'', ' ');
  std::ranges::replace(text, '\n', ' ');
  return fmt::format("'{}'", text);
}

// [["embedding", "decoder"], ["decoder", "loss"]] as Megatron's "Et|tL".
std::string layout_text(const PythonList& stages) {
  std::string text;
  for (const PythonValue& stage : stages.values) {
    if (!text.empty()) text += '|';
    if (stage.list() == nullptr) return "";
    for (const PythonValue& layer : stage.list()->values) {
      const std::string name = layer.text() == nullptr ? "" : *layer.text();
      const std::string_view letter = named_in(
          std::array<BridgeName, 4>{
              {{"embedding", "E"}, {"decoder", "t"}, {"mtp", "m"}, {"loss", "L"}}},
          name);
      if (letter.empty()) return "";
      text += letter;
    }
  }
  return "'" + text + "'";
}

class Recipe {
 public:
  Recipe(const PythonValue& root, const JobOptions& options) : root_(root), options_(options) {}

  std::string arguments() {
    for (const auto& [section, value] : root_.object()->fields) {
      if (section != kBridgeAdapters) leaf(section, value);
    }
    for (const auto& [path, value] : bridge_common(root_.object()->callee)) {
      const std::string argument = argument_of(std::string(path));
      if (root_.at(path) == nullptr && !arguments_.contains(argument))
        add(std::string(path), argument, std::string(value));
    }
    set_precision();
    set_model();
    std::string text;
    for (const auto& [name, value] : arguments_) text += fmt::format(" --{} {}", name, value);
    return text;
  }

  // The field that an argument stands for; the argument itself where it is ours.
  [[nodiscard]] std::string field_of(const std::string& argument) const {
    const auto found = fields_.find(argument);
    return found == fields_.end() ? argument : found->second;
  }
  std::vector<JobArgument> left_out;  // of no effect

 private:
  static std::string argument_of(const std::string& path) {
    const std::string_view renamed = named_in(kBridgeRenamed, path);
    return renamed.empty() ? hyphened(path.substr(path.rfind('.') + 1)) : std::string(renamed);
  }
  void add(const std::string& path, const std::string& argument, std::string value) {
    arguments_[argument] = std::move(value);
    fields_[argument] = path;
  }

  // The fields of one of the two sections that the call gives back.
  void cosine(const std::string& section, const PythonObject& call) {
    for (std::size_t i = 0; i < kBridgeCosine.size(); ++i) {
      const auto& [given, field, otherwise] = kBridgeCosine[i];
      if (!field.starts_with(section + ".")) continue;
      const auto named = call.fields.find(std::string(given));
      const PythonValue* said = named != call.fields.end() ? &named->second
                                : i < call.places.size()   ? &call.places[i]
                                                           : nullptr;
      const std::string path(field);
      if (said != nullptr && !said->none()) {
        add(path, argument_of(path), shell_value(*said));
      } else if (!otherwise.empty()) {
        add(path, argument_of(path), std::string(otherwise));
      }
    }
    if (section == "scheduler") {
      add("scheduler.lr_decay_style", "lr-decay-style", "cosine");
      return;
    }
    add("optimizer.use_distributed_optimizer", "use-distributed-optimizer", "");
    // A tenth of the rate where nothing is said.
    const auto rate = call.fields.find("max_lr");
    const auto most = rate == call.fields.end() ? std::optional(1e-4) : rate->second.number();
    if (!arguments_.contains("min-lr") && most)
      add("optimizer.min_lr", "min-lr", fmt::to_string(0.1 * *most));
  }

  void leaf(const std::string& path, const PythonValue& value) {
    const PythonObject* call = value.object();
    if (call != nullptr && call->callee == kBridgeCosineCall &&
        (path == "optimizer" || path == "scheduler"))
      return cosine(path, *call);
    if (value.object() != nullptr && !beside(path) && path.find('.') == path.npos) {
      for (const auto& [name, field] : value.object()->fields)
        leaf(fmt::format("{}.{}", path, name), field);
      return;
    }
    const auto* said = std::get_if<bool>(&value.is);
    const std::string_view denied = named_in(kBridgeDenied, path);
    const bool off = value.none() || (said != nullptr && !*said) ||
                     (path.starts_with("model.cuda_graph") && !cuda_graphs()) ||
                     (path.starts_with("model.cpu_offloading") && !offloads(path));
    if (!denied.empty() && said != nullptr && !*said) {
      add(path, std::string(denied), "");
    } else if (beside(path) || off || !denied.empty()) {
      left_out.push_back({path, to_string(value).substr(0, 80), Fate::no_effect});
    } else if (path == "mixed_precision") {
      left_out.push_back({path, to_string(value).substr(0, 80), Fate::carried});
    } else {
      add(path, argument_of(path), argument_value(path, value));
    }
  }

  // "none" switches them off, whatever else is said of them.
  [[nodiscard]] bool cuda_graphs() const {
    const PythonValue* kind = root_.at("model.cuda_graph_impl");
    return kind != nullptr && kind->text() != nullptr && *kind->text() != "none";
  }

  // Recipes switch it on by its flag alone, as Megatron's arguments do not; weights, which are
  // refused, whatever else is said, and layers where activations go.
  [[nodiscard]] bool offloads(const std::string& path) const {
    const auto flag = [this](const char* field, bool otherwise) {
      const PythonValue* value = root_.at(field);
      const auto* said = value == nullptr ? nullptr : std::get_if<bool>(&value->is);
      return said == nullptr ? otherwise : *said;
    };
    if (!flag("model.cpu_offloading", false)) return false;
    return path == "model.cpu_offloading_weights" || flag("model.cpu_offloading_activations", true);
  }

  static std::string argument_value(const std::string& path, const PythonValue& value) {
    if (std::holds_alternative<bool>(value.is)) return "";
    if (value.list() == nullptr) return shell_value(value);
    if (path == "model.pipeline_model_parallel_layout") {
      const std::string layout = layout_text(*value.list());
      return layout.empty() ? shell_value(value) : layout;
    }
    std::vector<std::string> all;
    for (const PythonValue& part : value.list()->values) all.push_back(shell_value(part));
    return fmt::format("{}", fmt::join(all, " "));
  }

  // "bf16_with_fp8_current_scaling_mixed" (training/mixed_precision.py).
  static std::string fp8_recipe_of(std::string_view name) {
    const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
    if (has("mxfp8")) return "mxfp8";
    if (has("subchannel") || has("nanov2")) return "blockwise";
    return has("current") ? "tensorwise" : "delayed";
  }

  // "bf16_mixed", bf16_mixed() or get_mixed_precision_config("bf16_mixed"): bf16 where nothing is
  // said.
  void set_precision() {
    const PythonValue* value = root_.field("mixed_precision");
    std::string name = "bf16_mixed";
    if (value != nullptr && !value->none()) {
      const PythonObject* object = value->object();
      name = object == nullptr        ? to_string(*value)
             : object->places.empty() ? object->callee
                                      : to_string(object->places.front());
    }
    add("mixed_precision", name.find("fp16_") != name.npos ? "fp16" : "bf16", "");
    if (name.find("fp4") != name.npos) add("mixed_precision", "fp4-format", "'e2m1'");
    if (name.find("fp8") == name.npos) return;
    add("mixed_precision", "fp8-format", "'hybrid'");
    const auto said = [&](const char* field) {
      return value->object() != nullptr && value->field(field) != nullptr;
    };
    const std::string recipe = fp8_recipe_of(name);
    if (!said("fp8_recipe")) add("mixed_precision", "fp8-recipe", recipe);
    // What mixed_precision.py sets beside each of them.
    if (!said("fp8_param_gather") && !said("fp8_param") && recipe != "blockwise")
      add("mixed_precision", "fp8-param-gather", "");
  }

  // What a provider leaves to its defaults, and what Megatron's arguments say in several words.
  void set_model() {
    const PythonValue* model = root_.field("model");
    const auto given = [&](std::string_view name) {
      const PythonValue* field = model == nullptr ? nullptr : model->field(name);
      return field != nullptr && !field->none();
    };
    if (given("num_query_groups")) add("model.num_query_groups", "group-query-attention", "");
    const PythonValue* length = root_.at("dataset.seq_length");
    if (!given("seq_length") && length != nullptr && length->integer())
      add("dataset.seq_length", "seq-length", shell_value(*length));
    if (!given("max_position_embeddings") && arguments_.contains("seq-length"))
      arguments_["max-position-embeddings"] = arguments_["seq-length"];
    if (given("attention_backend")) {  // AttnBackend.flash
      std::string backend = to_string(*model->field("attention_backend"));
      if (const auto* text = model->field("attention_backend")->text()) backend = *text;
      add("model.attention_backend", "attention-backend", backend.substr(backend.rfind('.') + 1));
    }
    const PythonValue* activation = root_.at("model.activation_func");
    if (activation != nullptr && to_string(*activation).find("squared_relu") != std::string::npos)
      add("model.activation_func", "squared-relu", "");
    const PythonValue* tokens = root_.at("tokenizer.vocab_size");
    if (!given("vocab_size") && !options_.vocabulary && tokens != nullptr && !tokens->none()) {
      const bool null_tokenizer = to_string(*tokens) == "DEFAULT_NULL_TOKENIZER_VOCAB_SIZE";
      if (null_tokenizer || tokens->integer())
        add("tokenizer.vocab_size", "vocab-size", null_tokenizer ? "32000" : shell_value(*tokens));
    }
    if (options_.model != nullptr) set_given_model();
  }

  // Sizes of the model that is given in place of the recipe's. Blocks may differ, by a window or
  // by experts: the arguments have the last one's, and the job the model itself.
  void set_given_model() {
    const std::vector<Layer>& layers = options_.model->layers;
    constexpr std::size_t kOthers = 3;  // embedding, norm and head
    const auto& block = std::get<TransformerShape>(layers[layers.size() - kOthers].shape);
    const auto size = [&](const char* argument, std::int64_t value) {
      add("model", argument, fmt::to_string(value));
    };
    size("num-layers", static_cast<std::int64_t>(layers.size() - kOthers));
    size("hidden-size", block.hidden);
    size("ffn-hidden-size", block.ffn);
    size("num-attention-heads", block.heads);
    size("kv-channels", block.head_dim);
    const auto& embedding = std::get<EmbeddingShape>(layers.front().shape);
    size("vocab-size", embedding.vocabulary);
    add("model", "position-embedding-type", embedding.positions > 0 ? "learned_absolute" : "rope");
    if (block.experts > 1) {
      size("num-experts", block.experts);
      size("moe-router-topk", block.experts_per_token);
    }
    for (const char* of_model : {"num-query-groups", "group-query-attention"})
      arguments_.erase(of_model);
  }

  const PythonValue& root_;
  const JobOptions& options_;
  std::map<std::string, std::string> arguments_, fields_;
};

std::string recipe_name(const PythonFile& python, const std::string& name) {
  if (!name.empty()) return name;
  const auto all = python_functions(python, {"ConfigContainer"});
  if (all.size() == 1) return all.front();
  throw InputError(python.name, "config",
                   all.empty()
                       ? "has no function that returns a ConfigContainer"
                       : fmt::format("has {}, say which: {}", all.size(), fmt::join(all, ", ")));
}

// A recipe that begins with another file's has what that sets.
void refuse_other_base(const PythonValue& value, const PythonFile& python,
                       const std::string& function) {
  const PythonObject* root = value.object();
  if (root == nullptr || root->callee == "ConfigContainer" || !bridge_common(root->callee).empty())
    return;
  std::string from = python_import_of(python, root->callee);
  if (!from.empty()) from = " of " + from;
  throw InputError(python.name, function,
                   fmt::format("begins with {}(){}, which is not beside this file: ZeRO, the "
                               "sequence's length and re-materialisation may be set there",
                               root->callee.substr(0, 60), from));
}

// Those that the recipe says, or the function that it begins with.
void take_adapters(const PythonValue& recipe, const std::string& file, Job& job) {
  const PythonValue* peft = recipe.field(kBridgeAdapters);
  if (peft != nullptr && !peft->none()) return take_bridge_adapters(*peft, file, job);
  if (peft != nullptr || recipe.object()->callee != kBridgePeftCall) return;
  job.plan.lora = {32, all_products(), 0};
  set_treatment(job.model, job.plan);
}

// What AutoBridge makes the model of; empty where it does not, or that is not known.
std::string hub_name(const PythonValue* model) {
  const PythonObject* made = model == nullptr ? nullptr : model->object();
  return made == nullptr ? std::string() : made->made_from;
}

std::string shown_model(const PythonValue* model) {
  if (model == nullptr) return "None";
  if (const std::string name = hub_name(model); !name.empty()) return name.substr(0, 80);
  return (model->object() == nullptr ? to_string(*model) : model->object()->callee).substr(0, 60);
}

}  // namespace

Job read_bridge_job(const std::string& text, const std::string& file, const JobOptions& options) {
  const PythonFile python = read_python(text, file);
  const std::string function = recipe_name(python, options.config);
  const PythonFiles files = [&](const std::string& path) -> std::optional<std::string> {
    auto found = options.files ? options.files(path) : std::nullopt;
    return found ? std::optional(std::move(found->text)) : std::nullopt;
  };
  const PythonResult result = call_python(python, function, files);
  refuse_other_base(result.value, python, function);
  if (result.value.object() == nullptr || result.value.object()->fields.empty())
    throw InputError(file, function, "returns no ConfigContainer that is known without running it");
  const PythonValue* model = result.value.field("model");
  if (options.model == nullptr && (model == nullptr || model->field("num_layers") == nullptr)) {
    throw ModelNeeded(
        file, "model",
        fmt::format("{}: its sizes are not in this file: give its config.json", shown_model(model)),
        hub_name(model));
  }
  // Another provider has other defaults: biases, norms, gates and what else makes its family.
  const PythonObject* provider = model == nullptr ? nullptr : model->object();
  if (options.model == nullptr && provider != nullptr && provider->callee != "GPTModelProvider") {
    throw ModelNeeded(file, "model",
                      fmt::format("{}: its defaults are not in this file: give its config.json",
                                  shown_model(model)),
                      hub_name(model));
  }
  if (options.model != nullptr) require_language_model(*options.model, file);
  Recipe recipe(result.value, options);
  Job job = read_megatron_job(recipe.arguments(), file, options);
  job.lines.clear();
  if (options.model != nullptr) {
    job.model = *options.model;
    job.model_given = true;
  }
  if (job.plan.prediction_layers > 0) {
    if (const auto reason = cannot_predict(job.model))
      throw InputError(file, recipe.field_of("mtp-num-layers"), *reason);
    set_treatment(job.model, job.plan);
  }
  take_adapters(result.value, file, job);
  // Recipes of before and after 2026-06 name them differently (data/builders/gpt_sft.py).
  for (const char* specs : {"dataset.packed_sequence_specs", "dataset.offline_packing_specs"}) {
    const PythonValue* packed = result.value.at(specs);
    if (packed != nullptr && !packed->none()) job.rows = {specs, RowsOf::packed};
  }
  for (Remark& remark : job.remarks) remark.name = recipe.field_of(remark.name);
  for (JobArgument& argument : job.arguments) argument.name = recipe.field_of(argument.name);
  job.arguments.insert(job.arguments.end(), recipe.left_out.begin(), recipe.left_out.end());
  // A field may be several arguments, or of no effect as it stands and said by another one.
  std::ranges::stable_sort(job.arguments, {}, &JobArgument::name);
  const auto same = [](const JobArgument& a, const JobArgument& b) { return a.name == b.name; };
  job.arguments.erase(std::unique(job.arguments.begin(), job.arguments.end(), same),
                      job.arguments.end());
  for (const std::string& line : result.not_followed) job.remarks.push_back({function, line});
  return job;
}

}  // namespace weir
