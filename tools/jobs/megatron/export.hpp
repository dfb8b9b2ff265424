// A plan in Megatron-LM's arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/jobs/job/export.hpp"

namespace weir {

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

// Every size of the model. Throws InputError as decoder_for_export() does.
void add_megatron_model(const ResolvedPlan& loaded, MegatronArguments& arguments,
                        std::vector<Remark>& remarks);

// How it is trained: degrees, stages, schedule, sharing, batch, optimizer, re-materialisation.
// Throws InputError as stage_blocks() does.
void add_megatron_run(const ResolvedPlan& loaded, MegatronArguments& arguments,
                      std::vector<Remark>& remarks);

// A script that starts the training with arguments, each " \\\n  --name value".
[[nodiscard]] std::string megatron_script(const Nodes& nodes, const std::string& arguments);

}  // namespace weir
