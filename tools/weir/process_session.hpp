// The processes that `weir` is one of: as a launcher started them over MPI, or as they meet by a
// file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "exec/processes/processes.hpp"
#include "plan/words/units.hpp"

namespace weir {

enum class TransportKind : std::uint8_t { threads, mpi, sockets, nccl };

struct SessionOptions {
  std::string transport;  // "threads", "mpi", "sockets", "nccl", or "": what fits the rest
  std::optional<std::filesystem::path>
      rendezvous;  // the file by which processes meet; else MPI connects them
  std::optional<int> process, processes;  // with it; else as the launcher says
  Seconds patience{10};                   // a process without a sign of life for longer is gone
};

// Throws UsageError where options contradict each other or the launcher.
[[nodiscard]] TransportKind choose_transport(const SessionOptions& options);

struct ProcessSession {
  std::unique_ptr<Processes> processes;
  ProcessLinks links;
};
// Collective; `kind` as chosen. Throws MissingComponent for what this build has not, what
// `rendezvous` throws, and Dismissed where another process says why there is no run.
[[nodiscard]] ProcessSession open_session(TransportKind kind, const SessionOptions& options);

}  // namespace weir
