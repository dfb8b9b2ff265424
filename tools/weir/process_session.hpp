// The processes that `weir` is one of, as mpirun or srun started them: they meet by MPI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/processes/processes.hpp"
#include "plan/words/units.hpp"

namespace weir {

enum class TransportKind : std::uint8_t { threads, mpi, nccl };

struct SessionOptions {
  std::string transport;  // "threads", "mpi", "nccl", or "": as the launcher started this process
  Seconds patience{10};   // a process without a sign of life for longer is gone
};

// Throws UsageError for an unknown name, and where a launcher started several processes that
// cannot meet.
[[nodiscard]] TransportKind choose_transport(const SessionOptions& options);

struct ProcessSession {
  std::unique_ptr<Processes> processes;
  ProcessLinks links;
};
// Collective; `kind` as chosen. Throws MissingComponent for what this build has not.
[[nodiscard]] ProcessSession open_session(TransportKind kind, const SessionOptions& options);

}  // namespace weir
