// What is asked of `page`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

struct PageRequest {
  PlanSource plan;  // none: stages are alike
  TraceSource measured;
  CostsSource costs;
  std::optional<std::filesystem::path> cluster;  // none: this machine
  StackChoice stack;
  std::optional<int> gpus;
  std::string memory_limit;  // "80 GiB"; empty: the named cluster's
  std::filesystem::path output = "page.html";
};

}  // namespace weir::app
