// Line by line: by value, by name, or not at all.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/kept_lines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "tools/jobs/job/secret_names.hpp"

namespace weir {

ShellEnvironment names_for_values(const ShellEnvironment& environment) {
  ShellEnvironment names;
  for (const auto& [name, value] : environment) names[name] = fmt::format("${{{}}}", name);
  return names;
}

namespace {

// A tokenizer is read for its vocabulary alone.
bool is_in_the_plan(const JobArgument& argument) {
  return (argument.fate == Fate::carried || argument.fate == Fate::changed) &&
         !argument.name.starts_with("tokenizer-");
}

}  // namespace

void keep_no_lines(Job& job) {
  job.lines.clear();
  for (JobArgument& argument : job.arguments) {
    if (!is_in_the_plan(argument)) argument.value.clear();
  }
}

void keep_lines(const Arguments& arguments, const Arguments& named, Job& job) {
  std::vector<std::string> left_out;
  job.lines.clear();
  for (JobArgument& argument : job.arguments) {
    const std::string& name = argument.name;
    const bool said = is_in_the_plan(argument);
    const Arguments& source = said || arguments.was_filled(name) ? arguments : named;
    const bool secret = !said && !argument.value.empty() && is_secret(name, source.values(name));
    argument.value = secret ? "" : source.values(name);
    const std::string line = source.line(name);
    if (secret || source.is_open(name) || line.empty()) {
      if (!argument.launcher) left_out.push_back("--" + name);
    } else if (!argument.launcher) {
      job.lines.push_back(line);
    }
  }
  if (left_out.empty()) return;
  job.remarks.push_back(
      {"job",
       fmt::format("not kept beside the plan, a secret or a value that is not known here: {}",
                   fmt::join(left_out, " "))});
}

}  // namespace weir
