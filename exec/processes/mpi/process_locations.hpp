// Who sits where, and whether there are cores for all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "exec/processes/mpi/byte_transport.hpp"
#include "exec/processes/processes.hpp"

namespace weir {

struct ProcessLocations {
  std::vector<ProcessLocation> locations;  // by process
  bool oversubscribed = false;
};

// All processes call it at once. Cores are those the launcher's binding leaves each process. Throws
// RunFailed where one does not answer in time.
[[nodiscard]] ProcessLocations find_locations(ByteTransport& bytes,
                                              std::chrono::nanoseconds patience);

}  // namespace weir
