// A user's script, and what is to change of the arguments that it starts with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "tools/jobs/job/export.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir {

struct ArgumentChange {
  std::string name;                   // without dashes
  std::optional<std::string> before;  // as the script has it, "" for a flag; nullopt: it has none
  std::optional<std::string> after;   // nullopt: to be removed
};

// Devices that a script starts on, where it says, and those that it should.
struct DeviceChange {
  std::optional<int> before;
  int after = 0;
};

// A user's script, and what it leaves open.
struct PatchedScript {
  std::string text;
  std::string file;
  JobOptions options = {};
  Allowed allowed = {};
};

}  // namespace weir
