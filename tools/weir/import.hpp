// `weir plan --from`: another tool's job as a plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tools/weir/commands.hpp"

namespace weir {

struct ImportOptions {
  std::string from;  // megatron or torchtitan; empty: no import
  std::filesystem::path file, output;
  std::optional<std::filesystem::path> model;
  std::optional<int> gpus, dp;
  std::optional<std::int64_t> vocabulary;
  std::string note;
  std::optional<int> slots;  // none: 2, or as many as the schedule cannot do without
};

// Writes the plan and, unless a model file was named, its model beside it; lists on stderr what was
// not carried.
void import_plan(const ImportOptions& options, const GlobalOptions& global);

}  // namespace weir
