// Slurm's options of a batch script (sbatch(1), Slurm 23.11).
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/slurm.hpp"

#include <fmt/format.h>

#include <sstream>
#include <string_view>
#include <utility>

#include "plan/text/cells.hpp"

namespace weir {
namespace {

// "8", "a100:8", "gpu:8", "gpu:a100:8", and the fewest of "4-8".
std::optional<std::int64_t> count_of(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon != text.npos) text = text.substr(colon + 1);
  text = text.substr(0, text.find_first_of("-("));
  const auto number = whole_number<std::int64_t>(text);
  return number && *number > 0 && *number < (1 << 24) ? number : std::nullopt;
}

void take(SlurmRequest& r, std::string_view name, std::string_view value) {
  const std::pair<std::string_view, std::optional<std::int64_t>*> kNames[] = {
      {"--nodes", &r.nodes},
      {"-N", &r.nodes},
      {"--ntasks", &r.tasks},
      {"-n", &r.tasks},
      {"--ntasks-per-node", &r.tasks_per_node},
      {"--gpus", &r.gpus},
      {"-G", &r.gpus},
      {"--gpus-per-node", &r.gpus_per_node},
      {"--gpus-per-task", &r.gpus_per_task}};
  if (name == "--gres") {
    const std::size_t at = value.find("gpu");
    if (at != value.npos) value = value.substr(at, value.find(',', at) - at);
    if (at != value.npos) r.gpus_per_node = value == "gpu" ? 1 : count_of(value);
  }
  for (const auto& [known, place] : kNames) {
    if (name == known) *place = count_of(value);
  }
}

}  // namespace

std::optional<std::int64_t> SlurmRequest::devices() const {
  if (gpus) return gpus;
  const auto all_tasks =
      tasks ? tasks
            : (nodes && tasks_per_node ? std::optional(*nodes * *tasks_per_node) : std::nullopt);
  if (gpus_per_node && nodes) return *gpus_per_node * *nodes;
  if (gpus_per_task && all_tasks) return *gpus_per_task * *all_tasks;
  if (gpus_per_node && !nodes) return gpus_per_node;  // Slurm gives one node
  return std::nullopt;
}

ShellEnvironment SlurmRequest::variables() const {
  ShellEnvironment all;
  const auto set = [&all](std::initializer_list<const char*> names,
                          const std::optional<std::int64_t>& value) {
    if (!value) return;
    for (const char* name : names) all[name] = fmt::to_string(*value);
  };
  set({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, nodes);
  set({"SLURM_NTASKS_PER_NODE"}, tasks_per_node);
  set({"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}, gpus_per_node);
  set({"SLURM_GPUS_PER_TASK"}, gpus_per_task);
  set({"SLURM_GPUS"}, gpus);
  const auto all_tasks =
      tasks || !nodes || !tasks_per_node ? tasks : std::optional(*nodes * *tasks_per_node);
  set({"SLURM_NTASKS", "SLURM_NPROCS"}, all_tasks);
  return all;
}

SlurmRequest slurm_request(const std::string& script) {
  SlurmRequest request;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#SBATCH")) continue;
    std::istringstream words(line.substr(7, line.find(" #") - 7));
    for (std::string word; words >> word;) {
      if (word.starts_with("#")) break;
      const std::size_t equals = word.find('=');
      std::string value;
      if (equals != std::string::npos) {
        value = word.substr(equals + 1);
      } else if (word.starts_with("--") || word.size() == 2) {
        words >> value;
      } else if (word.starts_with("-") && word.size() > 2) {  // -N8
        value = word.substr(2);
        word.resize(2);
      }
      take(request, word.substr(0, equals), value);
    }
  }
  return request;
}

}  // namespace weir
