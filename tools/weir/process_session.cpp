// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/process_session.hpp"

#include <fmt/core.h>

#include <cstdlib>

#include "exec/launched.hpp"
#include "plan/error.hpp"
#ifdef WEIR_HAS_MPI
#include "exec/mpi/mpi_transport.hpp"
#endif
#ifdef WEIR_HAS_NCCL
#include "exec/nccl/nccl_transport.hpp"
#endif

namespace weir {

TransportKind choose_transport(const std::string& name) {
  if (name == "threads") return TransportKind::threads;
  if (name == "mpi") return TransportKind::mpi;
  if (name == "nccl") return TransportKind::nccl;
  if (!name.empty()) throw UsageError(fmt::format("--transport: {} is none of threads, mpi, nccl", name));
  return launched(std::getenv) ? TransportKind::mpi : TransportKind::threads;
}

ProcessSession open_session(TransportKind kind, Seconds patience) {
#ifdef WEIR_HAS_MPI
#ifndef WEIR_HAS_NCCL
  if (kind == TransportKind::nccl)
    throw MissingComponent("this build has no NCCL; --transport mpi moves messages, too");
#endif
  MpiProcesses::Options options;
  options.patience = std::chrono::duration_cast<std::chrono::nanoseconds>(patience);
  options.speak = [](const std::string& line) { fmt::print(stderr, "weir: {}\n", line); };
  auto processes = std::make_unique<MpiProcesses>(std::move(options));
  MpiProcesses& mpi = *processes;
#ifdef WEIR_HAS_NCCL
  if (kind == TransportKind::nccl) {
    // Messages wait on queues of their own. With fewer ways into the device than queues, one that waits would hold up
    // kernels behind it (the default is 8; read when the device is first used).
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    return {std::move(processes), LaunchedTransportFactory([&mpi](const LaunchedTransportRequest& request) {
              return std::make_unique<NcclTransport>(request, mpi);
            })};
  }
#endif
  return {std::move(processes), TransportFactory([&mpi](const TransportRequest& request) {
            return std::make_unique<MpiTransport>(request, mpi);
          })};
#else
  static_cast<void>(kind);
  static_cast<void>(patience);
  throw MissingComponent("this build has no MPI, which ranks as processes need; --transport threads runs in one");
#endif
}

}  // namespace weir
