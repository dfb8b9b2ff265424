// What is to change is found, and written into the script; the changed arguments are read again,
// and what is not the wanted plan then is said.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/patch/patch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "plan/text/quote.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/megatron/export/export.hpp"
#include "tools/jobs/megatron/import.hpp"
#include "tools/jobs/megatron/patch/other_size.hpp"
#include "tools/jobs/megatron/patch/script_edit.hpp"
#include "tools/jobs/megatron/patch/wanted_changes.hpp"
#include "tools/jobs/megatron/recipe.hpp"
#include "tools/jobs/shell/unified_diff.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir {
namespace {

std::string name_of(const std::string& line) {
  std::string name = line.substr(2, line.find_first_of(" =") - 2);
  std::ranges::replace(name, '_', '-');
  return name;
}

std::vector<std::string> changed_lines(std::vector<std::string> lines,
                                       const std::vector<ArgumentChange>& changes) {
  for (const ArgumentChange& change : changes) {
    std::erase_if(lines, [&](const std::string& line) { return name_of(line) == change.name; });
    if (!change.after) continue;
    lines.push_back(fmt::format("--{}{}", change.name, argument_words(change.name, *change.after)));
  }
  std::ranges::sort(lines);
  return lines;
}

// Whether the script's Megatron is a fork that runs the plan's order: the script says it.
bool has_own_order(const Plan& script, const Plan& wanted) {
  const bool usual = script.schedule == "1f1b" || script.schedule == "interleaved-1f1b";
  return !usual && script.schedule == wanted.schedule && wanted.vpp == script.vpp;
}

Patch patch_of(const Job& job, const ResolvedPlan& wanted, const PatchedScript& script,
               PatchScope scope) {
  Patch patch;
  const ResolvedPlan is = resolved(job, script.file);
  patch.changes = wanted_changes({job, is, wanted, scope, script.allowed}, patch.remarks);
  patch.lines = changed_lines(job.lines, patch.changes);
  patch.devices = wanted.plan.devices();
  const bool supposed = std::ranges::any_of(
      job.remarks, [](const Remark& r) { return r.name == "data parallelism"; });
  if (!supposed) patch.devices_before = job.plan.devices();
  JobOptions changed = script.options;
  changed.gpus = patch.devices;
  changed.dp.reset();
  changed.kept = true;
  const Job again = read_megatron_job(job_text(patch.lines), script.file, changed);
  // An order that the script asks for by its own flags stays with them.
  if (has_own_order(job.plan, wanted.plan))
    std::erase_if(patch.remarks, [](const Remark& r) { return r.name == "schedule"; });
  remark_differences(again.plan, wanted.plan, patch.remarks);
  // Behind that: what the trainer may not run says nothing of whether the job is the plan's.
  add_untried(wanted, megatron_of(script.allowed), patch.remarks);
  return patch;
}

}  // namespace

Patch patch_megatron(const ResolvedPlan& wanted, const PatchedScript& script) {
  JobOptions named = script.options;
  named.model = &wanted.model;  // which a tool that trains ready models only names
  if (is_translated_job(script.text, script.file, named)) {
    throw InputError(script.file, "",
                     "is a job in another tool's words, or a list that Megatron printed: --patch "
                     "edits scripts with Megatron's own arguments");
  }
  const Job job = read_megatron_job(script.text, script.file, script.options);
  Allowed allowed = script.allowed;
  allowed.other_schedule = allowed.other_schedule || has_own_order(job.plan, wanted.plan);
  require_trainer_runs(megatron_of(allowed), wanted, allowed);
  // A plan whose model has no blocks has no arguments, whatever the script's sizes are.
  std::vector<Remark> ignored;
  static_cast<void>(stage_blocks(wanted, ignored));
  if (const auto other = other_size(job.model, wanted.model)) {
    throw InputError(script.file, fmt::format("--{}", other->argument),
                     fmt::format("{} here, {} in the plan's model", other->here, other->wanted));
  }
  Patch patch = patch_of(job, wanted, script, PatchScope::run);
  EditedScript edited =
      edited_script(script, patch.changes, {patch.devices_before, patch.devices}, facts_of(wanted));
  patch.text = std::move(edited.text);
  patch.not_edited = std::move(edited.not_edited);
  patch.difference = unified_diff(script.text, patch.text, script.file);
  return patch;
}

std::optional<Patch> patch_own_megatron_job(const ResolvedPlan& plan, const Allowed& allowed) {
  const std::optional<Job> job = own_job(plan, "megatron", &read_megatron_job);
  if (!job || other_size(job->model, plan.model)) return std::nullopt;
  require_trainer_runs(megatron_of(allowed), plan, allowed);
  return patch_of(*job, plan, {.file = kOwnJob, .allowed = allowed}, PatchScope::training);
}

namespace {

// Whether a line's value is made by a command of the script's, "$(date)": as text it is another
// one.
bool is_made_by_a_command(const std::string& line) {
  return line.find("$(") != line.npos || line.find('`') != line.npos;
}

// Words that the script of the job had from elsewhere: shells fill them in again.
std::string open_again(const std::string& line, std::vector<std::string>& open) {
  const std::size_t name = line.find_first_of(" =");
  const bool quoted =
      name != line.npos && name + 3 <= line.size() && line[name + 1] == '\'' && line.back() == '\'';
  if (!quoted || line.find('$') == line.npos) return line;
  const std::string value = line.substr(name + 2, line.size() - name - 3);
  if (value.find_first_of("'\"`\\") != value.npos || value.find("$(") != value.npos) return line;
  open.push_back(fmt::format("{} {}", line.substr(0, name), value));
  return fmt::format("{}\"{}\"", line.substr(0, name + 1), value);
}

}  // namespace

ExportedJob patched_megatron(const Patch& patch, const ResolvedPlan& plan,
                             const ExportOptions& options) {
  std::string lines;
  std::vector<std::string> open;
  std::vector<std::string> made;
  for (const std::string& line : patch.lines) {
    if (is_made_by_a_command(line)) {
      made.push_back(line);
    } else {
      lines += " \\\n  " + open_again(line, open);
    }
  }
  ExportedJob job{
      .files = {{"megatron.sh",
                 megatron_script(nodes_of(plan.plan, options),
                                 megatron_environment(plan, megatron_of(options.allowed)), lines)}},
      .launch = "sh megatron.sh",
      .not_carried = patch.remarks,
      .whole_job = true};
  if (!made.empty()) {
    job.not_carried.push_back(
        {"job", fmt::format("left out, for commands of the script make their values: {}",
                            fmt::join(made, ", "))});
  }
  if (!open.empty()) {
    job.not_carried.push_back(
        {"job", fmt::format("taken from the script's surroundings, which are to be given here "
                            "too: {}",
                            fmt::join(open, ", "))});
  }
  return job;
}

ExportedJob edited_megatron(const Patch& patch, const std::string& name) {
  // A recipe is put on a command line by Megatron's runner of tests, and starts nothing itself.
  const bool starts = !megatron_recipe_arguments(patch.text);
  ExportedJob job{.files = {{name, patch.text}},
                  .launch = starts ? fmt::format("bash {}", shell_quoted(name)) : "",
                  .not_carried = patch.remarks,
                  .whole_job = true};
  for (const Remark& remark : patch.not_edited) job.not_carried.push_back(remark);
  return job;
}

}  // namespace weir
