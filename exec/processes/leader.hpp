// The process that a run answers through: who it is, and what others bring to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "exec/processes/processes.hpp"

namespace weir {

[[nodiscard]] inline bool leads(const Processes& processes) { return processes.index() == 0; }

// From a process to the leader; called by both, and neither is the other.
inline void collect(Processes& processes, int from, int tag, std::span<std::byte> bytes) {
  processes.wait(leads(processes) ? processes.start_receive(from, tag, bytes)
                                  : processes.start_send(0, tag, bytes));
}

}  // namespace weir
