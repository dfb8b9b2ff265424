// A plan in Megatron-LM's arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/jobs/job/export.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir {

// Whose value is words apart, names of modules: between quotes they would be one.
inline constexpr std::string_view kRecomputeModules = "recompute-modules",
                                  kGraphModules = "cuda-graph-modules",
                                  kOffloadModules = "offload-modules";
[[nodiscard]] constexpr bool takes_words(std::string_view argument) {
  return argument == kRecomputeModules || argument == kGraphModules || argument == kOffloadModules;
}

// What stands behind "--name" on a command line: " value", in a shell's quotes; "" of a flag.
[[nodiscard]] std::string argument_words(std::string_view name, const std::string& value);

// Names without dashes, and values before any shell's quotes; "" of a flag.
class MegatronArguments {
 public:
  void add(std::string_view name) { all_.emplace_back(name, ""); }
  template <class Value>
  void add(std::string_view name, const Value& value) {
    all_.emplace_back(name, fmt::format("{}", value));
  }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& all() const { return all_; }

 private:
  std::vector<std::pair<std::string, std::string>> all_;
};

// Every size of the model. Throws InputError as megatron_blocks() does.
void add_megatron_model(const ResolvedPlan& loaded, MegatronArguments& arguments,
                        std::vector<Remark>& remarks);

// How it is trained: degrees, stages, schedule, sharing, batch, optimizer, re-materialisation, and
// what its table says that needs. Throws InputError as stage_blocks() does.
void add_megatron_run(const ResolvedPlan& loaded, const Allowed& allowed,
                      MegatronArguments& arguments, std::vector<Remark>& remarks);

// What the trainer takes, and may not run.
void add_untried(const ResolvedPlan& loaded, Trainer trainer, std::vector<Remark>& remarks);

[[nodiscard]] Trainer megatron_of(const Allowed& allowed);
// Lines of a shell that set or unset the variables of its table.
[[nodiscard]] std::string megatron_environment(const ResolvedPlan& loaded, Trainer trainer);

// A script that starts the training behind the lines of its environment, with arguments, each
// " \\\n  --name value".
[[nodiscard]] std::string megatron_script(const Nodes& nodes, const std::string& environment,
                                          const std::string& arguments);

}  // namespace weir
