// What is known of a script once it was followed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weir {

struct ShellRemark {
  int line = 0;  // 0: of the whole script
  std::string text;
};

// Another file that the script names; nullopt where there is none.
struct ShellFile {
  std::string name, text;
};
using ShellFiles = std::function<std::optional<ShellFile>(const std::string& path)>;

// Where a command stands: from its first word's line to its last word's.
struct ShellPlace {
  std::string file;  // another that the script follows; empty: its own
  int first = 0, last = 0;
};

struct ShellScript {
  std::vector<std::vector<std::string>> commands;
  std::vector<ShellPlace> places;  // of the commands, one each
  // Words of variables that hold arguments and that no command uses.
  std::vector<std::vector<std::string>> unused;
  std::vector<ShellRemark> remarks;
  // What here-documents put into files, by the file's name as far as it is filled in.
  std::map<std::string, std::string, std::less<>> written;
  std::vector<std::string> not_followed;  // scripts that it starts and whose text is not known
  std::vector<std::string> taken;         // variables that the environment gave, sorted
  // Variables that choose a library's kernels, as the script sets them, NVTE_FUSED_ATTN and its
  // like, and those that say how many devices there are, NPROC_PER_NODE and NNODES.
  std::map<std::string, std::string, std::less<>> set;
  std::optional<std::int64_t> nodes, gpus;  // #SBATCH: nodes, and devices of all
};

}  // namespace weir
