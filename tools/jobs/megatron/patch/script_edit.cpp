// Edits are guesses that are checked: for each argument that is not yet as it should be, the places
// that may say it are changed one after the other, the script is followed again, and the first text
// stays in which the argument is right and no other becomes wrong.
//
// Where to start: ScriptEditor::edit().
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/patch/script_edit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan/text/cells.hpp"
#include "plan/text/quote.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/arguments.hpp"
#include "tools/jobs/megatron/export/export.hpp"
#include "tools/jobs/megatron/recipe.hpp"
#include "tools/jobs/shell/edit.hpp"
#include "tools/jobs/shell/places.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

// What the script starts, its launcher's arguments among it; nothing where it cannot be followed.
std::optional<Values> started(const std::string& text, const PatchedScript& script) {
  try {
    const Arguments a(megatron_recipe_arguments(text).value_or(text), script.file,
                      script.options.environment, script.options.files);
    // Arguments on a line of their own are read, but bash would not start them.
    for (const ShellRemark& remark : a.remarks()) {
      if (remark.text.find("begins a line of its own") != remark.text.npos) return std::nullopt;
    }
    Values values;
    for (const std::string& name : a.names()) values[name] = std::string(trimmed(a.values(name)));
    return values;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

class ScriptEditor {
 public:
  ScriptEditor(const PatchedScript& script, const std::vector<ArgumentChange>& changes,
               const DeviceChange& devices)
      : script_(script), text_(script.text), now_(started(text_, script).value_or(Values())) {
    wanted_ = now_;
    for (const ArgumentChange& change : changes) {
      if (change.after) {
        wanted_[change.name] = *change.after;
      } else {
        wanted_.erase(change.name);
      }
    }
    set_devices(devices);
  }

  EditedScript edit() {
    // An edit of a variable may put others wrong that are made of it: they follow in later rounds.
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds && !wrong(now_).empty(); ++round) {
      for (const std::string& name : wrong(now_)) {
        if (is_right(now_, name)) continue;
        for (const ScriptEdit& edit : edits_of(text_, argument(name))) {
          if (take(edit, name)) break;
        }
      }
    }
    EditedScript edited{.text = text_};
    for (const std::string& name : wrong(now_)) {
      edited.not_edited.push_back(
          {name, wanted_.contains(name)
                     ? fmt::format("--{} {} has no place in the script's own text: change it where "
                                   "it is said",
                                   name, wanted_[name])
                     : fmt::format("--{} cannot be taken out of the script's own text", name)});
    }
    return edited;
  }

 private:
  // The launcher's numbers, where one of them makes the devices what they should be: as it says how
  // many it starts, or, where it does not, as the job was read for.
  void set_devices(const DeviceChange& devices) {
    const auto number = [&](std::string_view name) {
      const auto found = now_.find(name);
      return found == now_.end() ? std::nullopt : whole_number<int>(found->second);
    };
    const auto each = number("nproc-per-node");
    const auto nodes = number("nnodes");
    if (!each || *each < 1) return;
    const std::optional<int> before = nodes ? *each * *nodes : devices.before;
    if (!before || *before == devices.after) return;
    if (nodes && devices.after % *each == 0) {
      wanted_["nnodes"] = fmt::to_string(devices.after / *each);
    } else if (!nodes || *nodes == 1) {
      wanted_["nproc-per-node"] = fmt::to_string(devices.after);
    }
  }
  static bool same(const Values& a, const Values& b, const std::string& name) {
    const auto x = a.find(name), y = b.find(name);
    return x == a.end() || y == b.end() ? x == a.end() && y == b.end() : x->second == y->second;
  }
  bool is_right(const Values& values, const std::string& name) const {
    return same(values, wanted_, name);
  }
  std::vector<std::string> wrong(const Values& values) const {
    std::set<std::string> names;
    for (const Values* side : {&values, &wanted_}) {
      for (const auto& [name, value] : *side) {
        if (!is_right(values, name)) names.insert(name);
      }
    }
    return {names.begin(), names.end()};
  }
  EditedArgument argument(const std::string& name) const {
    EditedArgument argument{.name = name, .words = takes_words(name)};
    if (const auto found = now_.find(name); found != now_.end()) argument.before = found->second;
    if (const auto found = wanted_.find(name); found != wanted_.end())
      argument.after = found->second;
    for (const char* sibling : {"pipeline-model-parallel-size", "tensor-model-parallel-size",
                                "use-distributed-optimizer", "micro-batch-size", "num-layers"}) {
      if (now_.contains(sibling)) argument.beside.emplace_back(sibling, now_.at(sibling));
    }
    return argument;
  }
  bool take(const ScriptEdit& edit, const std::string& name) {
    const auto values = started(edit.text, script_);
    if (!values || !is_right(*values, name)) return false;
    // What was right stays so, but for what is made of the same variable.
    const std::size_t before = wrong(now_).size(), after = wrong(*values).size();
    if (after >= before && !(edit.of_variable && after <= before + 1)) return false;
    for (const std::string& one : edited_) {
      if (!is_right(*values, one)) return false;
    }
    edited_.insert(name);
    text_ = edit.text;
    now_ = *values;
    return true;
  }

  const PatchedScript& script_;
  std::string text_;
  Values now_, wanted_;
  std::set<std::string> edited_;
};

// Variables that the plan's process needs. The order of tensor and context parallelism is no matter
// where there is neither.
std::vector<const TrainerRow*> needed_variables(const TrainerFacts& facts) {
  auto rows = rows_that_hold(Trainer::megatron, RowKind::environment, facts);
  const bool ordered = facts.plan.tp > 1 || facts.plan.cp > 1;
  std::erase_if(rows, [&](const TrainerRow* row) { return row->key == "tp" && !ordered; });
  return rows;
}

// A variable of the process is set or unset where the script says it, or before its first command.
std::string with_environment(std::string text, const TrainerFacts& facts) {
  for (const TrainerRow* row : needed_variables(facts)) {
    text = row->value == nullptr ? without_variable(text, row->argument)
                                 : with_variable(text, row->argument, row->value(facts));
  }
  return text;
}

}  // namespace

EditedScript edited_script(const PatchedScript& script, const std::vector<ArgumentChange>& changes,
                           const DeviceChange& devices, const TrainerFacts& facts) {
  EditedScript edited = ScriptEditor(script, changes, devices).edit();
  // A file of arguments alone, or a recipe, starts nothing that has an environment: what the plan's
  // words need of that is said.
  if (!ScriptPlaces(script.text).programs().empty()) {
    edited.text = with_environment(std::move(edited.text), facts);
  } else {
    for (const TrainerRow* row : needed_variables(facts)) {
      if (row->key == "tp" || row->value == nullptr) continue;
      edited.not_edited.push_back(
          {std::string(row->argument),
           fmt::format("{} where the job is started: {}", row->value(facts), row->says)});
    }
  }
  const bool slurm = script.text.find("#SBATCH") != script.text.npos;
  if (slurm && devices.before && *devices.before != devices.after) {
    edited.not_edited.push_back(
        {"devices", fmt::format("the plan is for {}, and #SBATCH lines ask for those of the job, "
                                "{}: they stay",
                                devices.after, *devices.before)});
  }
  return edited;
}

}  // namespace weir
