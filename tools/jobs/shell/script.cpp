// A script as a whole: its text, its environment, and what Slurm gives it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/jobs/shell/script_run.hpp"
#include "tools/jobs/shell/slurm.hpp"

namespace weir {
namespace {

bool holds_arguments(const std::string& text) {
  return text.starts_with("--") || text.find(" --") != text.npos || text.find("\n--") != text.npos;
}

}  // namespace

ShellScript read_script(const std::string& text, const std::string& file,
                        const ShellEnvironment& environment, const ShellFiles& files) {
  ShellScript script;
  const SlurmRequest slurm = slurm_request(text);
  script.nodes = slurm.nodes;
  script.gpus = slurm.devices();
  // What the user's shell has counts over what Slurm would set.
  ShellEnvironment known = slurm.variables();
  const ShellEnvironment by_slurm = known;
  for (const auto& [name, value] : environment) known[name] = value;
  ShellVariables variables(known, file);
  if (text.find("#SBATCH") != text.npos) {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST",
                             "SLURM_NODELIST", "SLURM_SUBMIT_DIR"})
      variables.set_text(name, {fmt::format("${{{}}}", name), false}, false);
  }
  ScriptState state{variables, files, file, script};
  ScriptRun(text, file, state).whole();
  for (const auto& [name, variable] : variables.all()) {
    const bool told = name.starts_with("NVTE_") || name == "NPROC_PER_NODE" || name == "NNODES";
    const bool chooses = told && variable.known && variable.words.size() == 1;
    if (chooses) script.set[name] = variable.words[0];
    if (variable.used) continue;
    if (std::ranges::any_of(variable.words, holds_arguments))
      script.unused.push_back(variable.words);
  }
  if (!variables.supposed_empty().empty()) {
    script.remarks.push_back(
        {0, fmt::format("set neither here nor in the environment, taken as empty: {}",
                        fmt::join(variables.supposed_empty(), " "))});
  }
  for (const std::string& name : variables.taken()) {
    const auto same = by_slurm.find(name);
    if (same == by_slurm.end() || environment.contains(name)) script.taken.push_back(name);
  }
  return script;
}

}  // namespace weir
