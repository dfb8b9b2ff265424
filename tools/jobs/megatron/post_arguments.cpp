// Flags that are on by default are denied by another.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/post_arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/megatron/dump.hpp"
#include "tools/jobs/megatron/export/export.hpp"

namespace weir {

void require_model(const JobOptions& options, const std::string& file, std::string_view tool,
                   const std::string& name) {
  if (options.model != nullptr) return require_language_model(*options.model, file);
  throw ModelNeeded(file, "model",
                    fmt::format("{}: a job of {} has its sizes in the checkpoint: give its "
                                "configuration, --model CONFIG.json",
                                name.empty() ? "not named" : name.substr(0, 80), tool),
                    name);
}

std::string command_line(const PostTrainerValues& arguments, const std::string& launcher) {
  std::string line = launcher + "pretrain_gpt.py";
  for (const auto& [name, value] : arguments) {
    std::string variable = name;
    std::ranges::replace(variable, '-', '_');
    if (const auto denied = denying_flag(variable)) {
      if (says_false(value)) line += fmt::format(" \\\n--{}", *denied);
    } else if (!says_false(value)) {
      line += fmt::format(" \\\n--{}{}", name, says_true(value) ? "" : argument_words(name, value));
    }
  }
  return line;
}

std::optional<Remark> remark_on_off(const PostTrainerValues& arguments) {
  std::vector<std::string_view> off;
  for (const auto& [name, value] : arguments) {
    std::string variable = name;
    std::ranges::replace(variable, '-', '_');
    if (says_false(value) && !denying_flag(variable)) off.push_back(name);
  }
  if (off.empty()) return std::nullopt;
  return Remark{"off", fmt::format("said to be, and taken as where nothing is said: {}",
                                   fmt::join(off, " "))};
}

}  // namespace weir
