// torchtitan's registry as its TOML. Fields and defaults are those of torchtitan/config/configs.py,
// torchtitan/trainer.py, torchtitan/components/optimizer and
// torchtitan/distributed/activation_checkpoint.py.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torchtitan/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "plan/words/error.hpp"
#include "tools/jobs/python/evaluate.hpp"
#include "tools/jobs/torchtitan/converters.hpp"

namespace weir {
namespace {

constexpr std::size_t kLongestValue = 200;

// A TOML string of one line.
std::string toml_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return quoted + '"';
}

// What TOML has no word for is a text.
std::string toml_value(const PythonValue& value) {
  if (value.text() != nullptr) return toml_text(*value.text());
  if (value.list() != nullptr) {
    std::vector<std::string> all;
    for (const PythonValue& part : value.list()->values) all.push_back(toml_value(part));
    return fmt::format("[{}]", fmt::join(all, ", "));
  }
  if (const auto* said = std::get_if<bool>(&value.is)) return *said ? "true" : "false";
  if (value.integer()) return fmt::to_string(*value.integer());
  if (value.number()) {
    std::string real = fmt::format("{}", *value.number());
    return real.find_first_of(".en") == real.npos ? real + ".0" : real;
  }
  return toml_text(to_string(value).substr(0, kLongestValue));
}

class Registry {
 public:
  Registry(const PythonValue& root, std::string file, std::vector<Remark>& defaults)
      : root_(root), file_(std::move(file)), defaults_(defaults) {}

  std::string toml(const std::string& model) {
    set_model(model);
    set_rows();
    set_training();
    set_optimizer();
    set_checkpointing();
    for (const auto& [name, value] : root_.object()->fields) {
      if (name == "model_spec" || name == "optimizer" || name == "activation_checkpoint") continue;
      const bool section = value.object() != nullptr &&
                           std::ranges::find(kSections, std::string_view(name)) != kSections.end();
      if (section) {
        fields_of(name, *value.object());
      } else {
        set(name, value);
      }
    }
    std::string text;
    for (const auto& [key, value] : keys_) text += fmt::format("{} = {}\n", key, value);
    return text;
  }

 private:
  static constexpr std::array<std::string_view, 5> kSections{"training", "parallelism",
                                                             "lr_scheduler", "compile", "debug"};

  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw InputError(file_, key, message);
  }
  // None is what is not said.
  void set(const std::string& key, const PythonValue& value) {
    if (!value.none()) keys_.try_emplace(key, toml_value(value));
  }
  void fields_of(const std::string& section, const PythonObject& object) {
    for (const auto& [name, value] : object.fields) set(fmt::format("{}.{}", section, name), value);
  }

  // model_registry("8B", attn_backend="flex"): the flavour, and what else it was given.
  void set_model(const std::string& model) {
    keys_["model.name"] = toml_text(model);
    const PythonValue* spec = root_.field("model_spec");
    const std::string& maker = root_.object()->callee;
    if (spec == nullptr && !maker.ends_with("Config"))
      fail("model_spec", fmt::format("{}(...) makes it and is not followed", maker));
    if (spec == nullptr || spec->none())
      fail("model_spec", "is missing: expected model_registry(...)");
    const PythonObject* call = spec->object();
    if (call == nullptr) return set("model.flavor", *spec);
    if (!call->places.empty()) set("model.flavor", call->places.front());
    for (const auto& [name, value] : call->fields) {
      if (name == "converters") {
        add_converters(value, keys_);
      } else if (name == "moe_comm_backend") {
        set("parallelism.expert_parallel_comm_backend", value);  // its place in 0.2
      } else {
        set("model." + name, value);
      }
    }
    keys_.try_emplace("model.flavor", toml_text(call->callee));
  }

  // How documents lie in rows, where attention is told (models/common/decoder.py,
  // get_attention_masks @b5bcd76c66d0): sdpa is not, flex and varlen are.
  void set_rows() {
    const PythonValue* packing = root_.at("dataloader.dataset");
    const PythonObject* its = packing == nullptr ? nullptr : packing->object();
    const auto backend = keys_.find("model.attn_backend");
    if (its == nullptr || (backend != keys_.end() && backend->second == "\"sdpa\"")) return;
    if (its->callee.ends_with("FirstFitPackingConfig")) keys_["rows"] = "\"packed\"";
    if (its->callee.ends_with("ConcatThenSplitPackingConfig")) keys_["rows"] = "\"cut\"";
  }

  std::optional<std::int64_t> whole(const std::string& key) const {
    const PythonValue* value = root_.at(key);
    if (value == nullptr || value->none()) return std::nullopt;
    const auto number = value->integer();
    if (!number)
      fail(key, fmt::format("expected an integer, found {}", to_string(*value).substr(0, 60)));
    return number;
  }

  // Since 20 August 2026 batches are counted in tokens: of a micro-batch and of a step.
  void set_training() {
    const std::string tokens_key = "training.num_tokens_per_microbatch_per_dp_rank",
                      context_key = "training.max_context_length",
                      step_key = "training.num_tokens_per_train_step",
                      count_key = "parallelism.num_pp_microbatches";
    const bool in_tokens = whole(tokens_key) || whole(context_key) || whole(count_key);
    if (!in_tokens) return;
    set_graphs();
    const std::int64_t context = whole(context_key).value_or(2048),
                       tokens = whole(tokens_key).value_or(16384),
                       count = whole("parallelism.pipeline_parallel_degree").value_or(1) > 1
                                   ? whole(count_key).value_or(1)
                                   : 1;
    if (context < 1 || tokens < 1 || tokens % context != 0)
      fail(tokens_key, fmt::format("{} are no multiple of max_context_length {}: micro-batches of "
                                   "whole sequences are modelled",
                                   tokens, context));
    if (count < 1 || count > (1 << 20) || tokens / context > (1 << 20))
      fail(count_key, "expected from 1 to 1048576 micro-batches, of as many sequences");
    keys_["training.seq_len"] = fmt::to_string(context);
    keys_["training.local_batch_size"] = fmt::to_string(tokens / context * count);
    keys_["parallelism.pipeline_parallel_microbatch_size"] = fmt::to_string(tokens / context);
    const auto step = whole(step_key).value_or(-1);
    if (step > 0 && step % context != 0)
      fail(step_key, fmt::format("{} are no multiple of max_context_length {}", step, context));
    if (step > 0) keys_["training.global_batch_size"] = fmt::to_string(step / context);
    for (const std::string& key : {tokens_key, context_key, step_key, count_key}) taken(key);
  }

  // On where nothing is said, but for a pipeline or experts' own ranks, whose job says that they
  // are off or does not start (torchtitan/trainer.py, Trainer.Config.__post_init__ @b5bcd76c66d0).
  void set_graphs() {
    const std::string key = "training.disable_cuda_graphs";
    if (root_.at(key) != nullptr) return;
    const bool alone = whole("parallelism.pipeline_parallel_degree").value_or(1) == 1 &&
                       whole("parallelism.expert_parallel_degree").value_or(1) == 1;
    keys_[key] = alone ? "false" : "true";
    defaults_.push_back({"CUDA graphs", alone ? "of whole steps" : "none"});
  }

  // The copy that is written has it in other words.
  void taken(const std::string& key) {
    const std::size_t dot = key.find('.');
    if (root_.at(key) == nullptr) return;
    std::get<std::shared_ptr<PythonObject>>(root_.field(key.substr(0, dot))->is)
        ->fields.erase(key.substr(dot + 1));
  }

  // OptimizersContainer.Config(lr=...), default_adamw(lr=...), or groups of parameters, of which
  // the last, that of all others, is the plan's.
  void set_optimizer() {
    const PythonValue* value = root_.field("optimizer");
    if (value == nullptr || value->none()) return;
    const PythonObject* optimizer = value->object();
    if (optimizer == nullptr)
      fail("optimizer", fmt::format("{}: not known here", to_string(*value).substr(0, 60)));
    if (optimizer->callee.find("InBackward") != std::string::npos)
      set("optimizer.early_step_in_backward", {true});
    if (!optimizer->places.empty()) set("optimizer.lr", optimizer->places.front());
    for (const auto& [name, field] : optimizer->fields) {
      if (name == "param_groups" && field.list() != nullptr && !field.list()->values.empty()) {
        set_groups(*field.list());
      } else {
        one_setting(name, field);
      }
    }
  }

  void set_groups(const PythonList& groups) {
    const PythonValue& last = groups.values.back();
    for (const PythonValue& group : groups.values) {
      const PythonValue* name = group.field("optimizer_name");
      if (name == nullptr || name->text() == nullptr || *name->text() != "DistMuon") continue;
      keys_["optimizer.muon"] = "true";
      const PythonValue* given = group.field("optimizer_kwargs");
      if (given == nullptr || given->dict() == nullptr) continue;
      for (const auto& [field, value] : given->dict()->values) {
        if (field == "momentum" || field == "nesterov" || field == "ns_steps")
          set("optimizer.muon_" + field, value);
      }
    }
    if (const PythonValue* name = last.field("optimizer_name")) set("optimizer.name", *name);
    if (const PythonValue* given = last.field("optimizer_kwargs");
        given != nullptr && given->dict()) {
      for (const auto& [name, field] : given->dict()->values) one_setting(name, field);
    }
    if (groups.values.size() > 1)
      set("optimizer.param_groups",
          {fmt::format("{} groups, the last one's settings for all", groups.values.size())});
  }

  void one_setting(const std::string& name, const PythonValue& value) {
    const PythonList* betas = name == "betas" ? value.list() : nullptr;
    if (betas == nullptr || betas->values.size() != 2) return set("optimizer." + name, value);
    set("optimizer.beta1", betas->values[0]);
    set("optimizer.beta2", betas->values[1]);
  }

  // Until June 2026 a mode, since then a policy's class.
  void set_checkpointing() {
    const std::string section = "activation_checkpoint", mode = section + ".mode";
    const PythonValue* value = root_.field(section);
    keys_[section + ".selective_ac_option"] = toml_text("op");
    if (value == nullptr) return;
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPolicies{
        {{"FullAC", "full"}, {"SelectiveAC", "selective"}, {"MemoryBudgetAC", "memory_budget"}}};
    const PythonObject* policy = value->object();
    if (value->none()) {
      keys_[mode] = toml_text("none");
    } else if (policy == nullptr) {
      set(mode, *value);
    } else {
      for (const auto& [name, means] : kPolicies) {
        if (policy->callee.find(name) != std::string::npos) keys_[mode] = toml_text(means);
      }
      keys_.erase(policy->fields.contains("selective_ac_option") ? section + ".selective_ac_option"
                                                                 : "");
      fields_of(section, *policy);
    }
  }

  const PythonValue& root_;
  std::string file_;
  std::vector<Remark>& defaults_;
  std::map<std::string, std::string> keys_;  // TOML's values
};

// torchtitan/models/MODEL/config_registry.py imports model_registry from its own folder, a file
// elsewhere says from which; else the function's name has the model's in it, or the others of the
// file begin with it. A model that nothing names is none that is known here.
std::string model_name(const PythonFile& python, const std::string& function) {
  const std::string from = python_import_of(python, "model_registry");
  if (const std::size_t models = from.find("models."); models != from.npos) {
    const std::string name = from.substr(models + 7);
    return name.substr(0, name.find('.'));
  }
  constexpr std::array<std::string_view, 7> kModels{"llama3",      "llama4",  "qwen3_5", "qwen3",
                                                    "deepseek_v3", "gpt_oss", "flux"};
  for (const std::string_view model : kModels) {
    const bool folder = python.name.find(fmt::format("models/{}/", model)) != std::string::npos;
    if (folder || function.find(model) != function.npos) return std::string(model);
  }
  std::vector<std::string_view> named;
  for (const std::string& other : python_functions(python, {"Trainer.Config", "JobConfig"})) {
    for (const std::string_view model : kModels) {
      if (!other.starts_with(model)) continue;
      if (std::ranges::find(named, model) == named.end()) named.push_back(model);
      break;
    }
  }
  return named.size() == 1 ? std::string(named.front()) : function;
}

// The function asked for, or the only one that gives a configuration.
std::string configuration(const PythonFile& python, const std::string& name) {
  if (!name.empty()) return name;
  const auto all = python_functions(python, {"Trainer.Config", "JobConfig", "Config"});
  if (all.size() == 1) return all.front();
  throw InputError(python.name, "config",
                   all.empty()
                       ? "has no function that returns a Trainer.Config"
                       : fmt::format("has {}, say which: {}", all.size(), fmt::join(all, ", ")));
}

}  // namespace

std::string torchtitan_registry_as_toml(const std::string& text, const std::string& file,
                                        const std::string& name, Job& job) {
  const PythonFile python = read_python(text, file);
  const std::string function = configuration(python, name);
  const PythonResult result = call_python(python, function);
  const PythonObject* root = result.value.object();
  if (root == nullptr || root->fields.empty())
    throw InputError(file, function, "returns no Trainer.Config that is known without running it");
  if (!root->callee.ends_with("Config")) {
    job.remarks.push_back(
        {function, fmt::format("begins with {}() of another file: what that sets is "
                               "not carried",
                               root->callee)});
  }
  for (const std::string& line : result.not_followed) job.remarks.push_back({function, line});
  return Registry(result.value, file, job.defaults).toml(model_name(python, function));
}

}  // namespace weir
