// How the processes of a run meet where no launcher connects them: process 0 listens and writes
// where into a file, the others read it, come, and are told of each other; then each is connected
// with each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "exec/socket/socket.hpp"
#include "plan/text/ending.hpp"

namespace weir {

struct RendezvousRequest {
  std::filesystem::path file;  // on a file system that all of them see
  int index = 0;               // of this process
  int count = 1;
  std::chrono::nanoseconds patience = std::chrono::seconds(10);  // for the others to come
};

// Thrown where process 0 has ended the meeting, and says why itself.
struct Dismissed {
  Ending ending;
};

// A connection to each other process, by index; this process's own is empty. Throws InputError for
// the file, UsageError where two processes have one index or they do not agree how many they are,
// RunFailed where one does not come in time.
[[nodiscard]] std::vector<Socket> rendezvous(const RendezvousRequest& request);

}  // namespace weir
