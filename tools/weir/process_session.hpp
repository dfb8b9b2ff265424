// The processes that a launcher started `weir` in, where it is one of several. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/processes.hpp"
#include "plan/units.hpp"

namespace weir {

enum class TransportKind : std::uint8_t { threads, mpi, nccl };

// `name` as given, "threads", "mpi" or "nccl"; "" chooses mpi where a launcher started several processes. Throws
// UsageError.
[[nodiscard]] TransportKind choose_transport(const std::string& name);

struct ProcessSession {
  std::unique_ptr<Processes> processes;
  ProcessLinks links;
};
// Collective. `patience`: a process without a sign of life for longer is gone, and the run fails. Throws
// MissingComponent where this build has no MPI.
[[nodiscard]] ProcessSession open_session(TransportKind kind, Seconds patience);

}  // namespace weir
