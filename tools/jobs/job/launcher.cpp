// torchrun's and Slurm's options, and the counts of mpirun and its like.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/launcher.hpp"

#include <algorithm>
#include <array>

#include "plan/text/cells.hpp"

namespace weir {

bool is_launchers(std::string_view name) {
  constexpr std::array<std::string_view, 20> kLauncher{
      "nproc-per-node", "nnodes",    "node-rank", "master-addr", "master-port",
      "num-gpus",       "num-nodes", "hostfile",  "nodes",       "ntasks-per-node",
      "ntasks",         "nodelist",  "partition", "account",     "gpus-per-node",
      "time",           "job-name",  "output",    "error",       "gres"};
  return name.starts_with("rdzv-") || std::ranges::find(kLauncher, name) != kLauncher.end();
}

namespace {

// What a launcher starts: options behind it are the program's.
bool is_program(std::string_view word) {
  constexpr std::array<std::string_view, 6> kPrograms{"bash",    "sh",       "python",
                                                      "python3", "torchrun", "deepspeed"};
  if (word.starts_with("-")) return false;
  const std::string_view name = word.substr(word.rfind('/') + 1);
  return name.ends_with(".py") || name.ends_with(".sh") ||
         std::ranges::find(kPrograms, name) != kPrograms.end();
}

}  // namespace

std::optional<std::int64_t> launched_processes(const std::vector<std::string>& command) {
  constexpr std::array<std::string_view, 6> kLaunchers{"mpirun", "mpiexec", "mpiexec.hydra",
                                                       "srun",   "aprun",   "jsrun"};
  if (command.empty()) return std::nullopt;
  const std::string_view name = std::string_view(command[0]).substr(command[0].rfind('/') + 1);
  if (std::ranges::find(kLaunchers, name) == kLaunchers.end()) return std::nullopt;
  // Behind one or two dashes, with the number after a blank or '=', or "-n64" where one letter
  // names it.
  const auto number = [&](std::initializer_list<std::string_view> options) {
    std::optional<std::int64_t> found;
    for (std::size_t i = 1; i + 1 < command.size() && !is_program(command[i]); ++i) {
      const std::string& word = command[i];
      const std::size_t equals = std::min(word.find('='), word.size());
      const std::size_t dashes = word.starts_with("--") ? 2 : word.starts_with("-") ? 1 : equals;
      const std::string option = word.substr(dashes, equals - dashes);
      const bool named = std::ranges::find(options, option) != options.end();
      const bool letter = dashes == 1 && option.size() > 1 &&
                          std::ranges::find(options, option.substr(0, 1)) != options.end();
      if (!named && !letter) continue;
      const std::string value = !named                 ? option.substr(1)
                                : equals < word.size() ? word.substr(equals + 1)
                                                       : command[i + 1];
      if (const auto count = whole_number<std::int64_t>(value)) found = count;
    }
    return found && *found > 0 && *found <= (1 << 24) ? found : std::nullopt;
  };
  if (name == "jsrun") {
    const auto sets = number({"n", "nrs"});
    return sets ? std::optional(*sets * number({"g", "gpu_per_rs"}).value_or(1)) : std::nullopt;
  }
  if (name == "srun") {
    if (const auto all = number({"n", "ntasks"})) return all;
    const auto nodes = number({"N", "nodes"}), each = number({"ntasks-per-node"});
    return nodes && each ? std::optional(*nodes * *each) : std::nullopt;
  }
  return number({"np", "n"});
}

}  // namespace weir
