// FlagScale puts each key of its tables on the command line (flagscale/runner/utils.py,
// flatten_dict_to_args); Primus sets each as a variable of Megatron's namespace
// (primus/core/launcher/config.py), as Megatron prints it: dump.hpp reads those.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/yaml_jobs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "plan/text/cells.hpp"
#include "plan/text/quote.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/arguments.hpp"
#include "tools/jobs/job/config_table.hpp"
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/megatron/dump.hpp"
#include "tools/jobs/megatron/post_adapters.hpp"

namespace weir {
namespace {

// Whether it may be YAML at all: a key stands where a script has its first command.
bool begins_with_a_key(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view word = trimmed(line);
    if (word.empty() || word.starts_with('#') || word.starts_with("---")) continue;
    const std::size_t colon = word.find(':');
    return colon != word.npos && colon > 0 && word.find_first_of(" \t=$(") > colon &&
           (colon + 1 == word.size() || word[colon + 1] == ' ');
  }
  return false;
}

// A key of the outermost mapping, which stands at the beginning of its line.
bool has_key(const std::string& text, std::string_view key) {
  const std::string begin = fmt::format("{}:", key);
  return text.starts_with(begin) || text.find("\n" + begin) != text.npos;
}

// ---- FlagScale ----------------------------------------------------------------------------------

// "--key", "--key value..."; nothing where it is off.
std::string flagscale_argument(std::string key, const std::vector<std::string>& values) {
  std::ranges::replace(key, '_', '-');
  if (values.empty() || says_false(values.front())) return "";
  std::string argument = " \\\n--" + key;
  if (says_true(values.front())) return argument;
  for (const std::string& value : values) argument += " " + shell_quoted(value);
  return argument;
}

// `outer`: values of the experiment, which the file may refer to as "${experiment.seed}".
std::string flagscale_train(const std::string& text, const std::string& file,
                            const std::map<std::string, std::string>& outer = {}) {
  ConfigTable t(text, file);
  for (const char* hetero : {"system.hetero.enable_hetero", "model.hetero.enable_hetero"}) {
    if (t.flag_or(hetero, false)) t.fail(hetero, "stages of several kinds of devices are not read");
  }
  for (const auto& [path, shown] : t.texts()) {
    if (!shown.starts_with("${") || !shown.ends_with("}")) continue;
    const auto found = outer.find(shown.substr(2, shown.size() - 3));
    if (found != outer.end()) t.replace(path, found->second);
    // Of the experiment alone, and without effect on a step.
    if (found == outer.end() && path.ends_with(".seed")) t.replace(path, "false");
  }
  std::string arguments = "pretrain_gpt.py";
  for (const auto& [path, shown] : t.texts()) {
    const std::string_view table = std::string_view(path).substr(0, path.find('.'));
    const bool passed = table == "system" || table == "model" || table == "data";
    if (passed && path.find('.') != path.npos && path.find(".hetero.") == path.npos)
      arguments += flagscale_argument(path.substr(path.rfind('.') + 1), t.list(path));
  }
  return arguments;
}

std::string flagscale_experiment(const std::string& text, const std::string& file,
                                 const JobOptions& options) {
  // An experiment's "- train: NAME".
  const auto train = value_in_list(text, file, "defaults", "train");
  if (!train) throw InputError(file, "defaults", "names no train: is no experiment that trains");
  const std::string name = fmt::format("train/{}.yaml", *train);
  const auto sizes = options.files ? options.files(name) : std::nullopt;
  if (!sizes)
    throw InputError(file, "defaults",
                     fmt::format("the sizes are in {}, which is not there", name));
  ConfigTable t(text, file);
  const std::string entry = t.text_or("experiment.task.entrypoint", "train_gpt.py");
  if (entry.find("train_gpt") == entry.npos) {
    t.fail("experiment.task.entrypoint",
           fmt::format("{}: of FlagScale's programs train_gpt.py is read", entry.substr(0, 80)));
  }
  const auto nodes = t.integer("experiment.runner.nnodes", 1, 1'000'000);
  const auto devices = t.integer("experiment.runner.nproc_per_node", 1, 1024);
  std::string arguments = flagscale_train(sizes->text, sizes->name, t.texts());
  if (nodes && devices)
    arguments =
        fmt::format("torchrun --nnodes {} --nproc-per-node {} ", *nodes, *devices) + arguments;
  return arguments;
}

// ---- Primus -------------------------------------------------------------------------------------

// "${NAME:otherwise}" by the environment; `taken`: whose values it had.
std::string filled_in(std::string text, const ShellEnvironment& environment,
                      std::set<std::string>& taken) {
  for (std::size_t at = text.find("${"); at != text.npos; at = text.find("${", at)) {
    const std::size_t end = text.find('}', at);
    if (end == text.npos) break;
    const std::string inside = text.substr(at + 2, end - at - 2);
    const std::size_t colon = std::min(inside.find(':'), inside.size());
    const auto set = environment.find(inside.substr(0, colon));
    const std::string value = set != environment.end() ? set->second
                              : colon < inside.size()  ? inside.substr(colon + 1)
                                                       : "";
    if (set != environment.end()) taken.insert(set->first);
    text.replace(at, end + 1 - at, value);
    at += value.size();
  }
  return text;
}

class PrimusJob {
 public:
  PrimusJob(const std::string& file, const JobOptions& options) : file_(file), options_(options) {}

  TranslatedJob job(const std::string& text) {
    ConfigTable t(filled_in(text, options_.environment, taken_), file_);
    const std::string module =
        t.has("modules.pre_trainer") ? "modules.pre_trainer." : "modules.post_trainer.";
    const std::string framework = t.text_or(module + "framework", "");
    if (framework != "megatron") {
      t.fail(module + "framework",
             fmt::format("{}: of Primus's jobs Megatron's are read", framework.substr(0, 40)));
    }
    for (const auto& [key, folder] : {std::pair("config", "modules"), {"model", "models"}}) {
      const std::string name = t.text_or(module + key, "");
      if (!name.empty()) take_named(name, folder, module + key);
    }
    take(t, module + "overrides.");
    TranslatedJob job{.arguments = megatron_namespace_arguments(values_), .filled_in = true};
    job.lora = primus_adapters(lora_, file_);
    if (auto taken = remark_on_taken({taken_.begin(), taken_.end()}))
      job.of_script.push_back(*std::move(taken));
    return job;
  }

 private:
  static constexpr int kDeepest = 8;  // of files that extend others, and of folders
  static constexpr int kMostFiles = 256;

  // Primus looks in its own configs; a job beside them is a copy.
  void take_named(const std::string& name, std::string_view folder, const std::string& key) {
    if (take_file(name, 0)) return;
    std::string up;
    for (int i = 0; i < kDeepest; ++i, up += "../") {
      if (take_file(fmt::format("{}primus/configs/{}/megatron/{}", up, folder, name), 0)) return;
    }
    throw InputError(file_, key,
                     fmt::format("{} is neither beside the file nor in primus/configs above it",
                                 name.substr(0, 80)));
  }

  bool take_file(const std::string& path, int depth) {
    const auto found = options_.files ? options_.files(path) : std::nullopt;
    if (!found) return false;
    if (depth > kDeepest) throw InputError(found->name, "extends", "files extend each other");
    if (++files_ > kMostFiles)
      throw InputError(found->name, "extends", fmt::format("more than {} files", kMostFiles));
    ConfigTable t(filled_in(found->text, options_.environment, taken_), found->name);
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    for (const std::string& base : t.list("extends")) {
      // What Primus adds to Megatron is all off there, and no argument of Megatron's.
      const std::string_view last = std::string_view(base).substr(base.rfind('/') + 1);
      if (std::ranges::any_of(kPrimusOwn, [&](auto own) { return last.starts_with(own); }))
        continue;
      if (!take_file(folder + base, depth + 1))
        throw InputError(found->name, "extends", fmt::format("{} is not there", base));
    }
    take(t, "");
    return true;
  }

  void take(ConfigTable& t, std::string_view within) {
    for (const auto& [path, shown] : t.texts()) {
      if (!path.starts_with(within) || path == "extends") continue;
      const std::vector<std::string> values = t.list(path);
      // A section of its own, whose names are none of Megatron's.
      if (std::string_view(path).substr(within.size()).starts_with(kLora)) {
        lora_[path.substr(within.size() + kLora.size())] =
            fmt::format("{}", fmt::join(values, " "));
        continue;
      }
      std::string& value = values_[path.substr(path.rfind('.') + 1)];
      if (values.size() > 1) {
        value = fmt::format("[{}]", fmt::join(values, ", "));
      } else if (values.empty() || values[0] == "null") {
        value = "None";
      } else {
        value = says_true(values[0]) ? "True" : says_false(values[0]) ? "False" : values[0];
      }
    }
  }

  static constexpr std::array<std::string_view, 4> kPrimusOwn{"primus_", "module_base",
                                                              "torch_compile", "zero_bubble"};
  const std::string& file_;
  const JobOptions& options_;
  static constexpr std::string_view kLora = "lora.";
  MegatronNamespace values_;
  PostTrainerValues lora_;
  std::set<std::string> taken_;
  int files_ = 0;
};

}  // namespace

std::optional<TranslatedJob> megatron_yaml_job(const std::string& text, const std::string& file,
                                               const JobOptions& options) {
  if (!begins_with_a_key(text)) return std::nullopt;
  if (has_key(text, "modules")) {
    const ConfigTable t(text, file);
    if (t.has("modules.pre_trainer") || t.has("modules.post_trainer"))
      return PrimusJob(file, options).job(text);
  }
  if (has_key(text, "experiment") && has_key(text, "defaults"))
    return TranslatedJob{.arguments = flagscale_experiment(text, file, options),
                         .own_program = false};
  if (has_key(text, "system") && has_key(text, "model"))
    return TranslatedJob{.arguments = flagscale_train(text, file), .own_program = false};
  return std::nullopt;
}

}  // namespace weir
