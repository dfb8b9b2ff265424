// The processes that this one is one of, as mpirun or srun started them: they meet by MPI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "exec/processes/processes.hpp"
#include "plan/text/ending.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

enum class TransportKind : std::uint8_t { threads, mpi, nccl };

struct SessionOptions {
  std::string transport;    // "threads", "mpi", "nccl", or "": as the launcher started this process
  bool share_gpus = false;  // nccl: processes may stand on one GPU
  double patience_s = 10;   // a process without a sign of life for longer is gone
};
[[nodiscard]] Fields fields(SessionOptions& options);

// Throws UsageError for an unknown name, and where a launcher started several processes that
// cannot meet.
[[nodiscard]] TransportKind choose_transport(const SessionOptions& options);

struct ProcessSession {
  std::unique_ptr<Processes> processes;
  ProcessLinks links;
};
// Collective; `kind` as chosen; one process says how a run ended before its end. Throws
// MissingComponent for what this build has not.
[[nodiscard]] ProcessSession open_session(TransportKind kind, const SessionOptions& options,
                                          const Session& session);

// This process was one of several, which agreed on their ending when one of them failed; that one,
// or the leader, has said it.
struct EndedTogether : RunFailed {
  explicit EndedTogether(Ending agreed) : RunFailed(agreed.line), ending(std::move(agreed)) {}
  Ending ending;
};

}  // namespace weir::app
