// Who sits where, and whether there are cores for all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "exec/processes/processes.hpp"
#include "exec/processes/wire.hpp"

namespace weir {

struct ProcessPlaces {
  std::vector<ProcessPlace> places;  // by process
  bool oversubscribed = false;
};

// All processes call it at once. Cores are those the launcher's binding leaves each process. Throws
// RunFailed where one does not answer in time.
[[nodiscard]] ProcessPlaces find_places(Wire& wire, std::chrono::nanoseconds patience);

}  // namespace weir
