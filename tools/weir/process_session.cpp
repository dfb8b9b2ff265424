// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/process_session.hpp"

#include <fmt/core.h>

#include <cstdlib>

#include "exec/processes/launched.hpp"
#include "exec/processes/wire_transport.hpp"
#include "exec/socket/rendezvous.hpp"
#include "exec/socket/socket_wire.hpp"
#include "plan/words/error.hpp"
#ifdef WEIR_HAS_MPI
#include "exec/processes/mpi/mpi_wire.hpp"
#endif
#ifdef WEIR_HAS_NCCL
#include "exec/nccl/nccl_transport.hpp"
#endif

namespace weir {
namespace {

TransportKind kind_of(const SessionOptions& options) {
  const std::string& name = options.transport;
  if (name == "threads") return TransportKind::threads;
  if (name == "mpi") return TransportKind::mpi;
  if (name == "sockets") return TransportKind::sockets;
  if (name == "nccl") return TransportKind::nccl;
  if (!name.empty())
    throw UsageError(fmt::format("--transport: {} is none of threads, mpi, sockets, nccl", name));
  if (options.rendezvous) return TransportKind::sockets;
  return launched(std::getenv) ? TransportKind::mpi : TransportKind::threads;
}

// The numbers are checked, the launcher's, too.
ProcessNumber own_number(const SessionOptions& options) {
  if (options.process.has_value() != options.processes.has_value()) {
    throw UsageError("--process and --processes go together: process I of N, I from 0 to N - 1");
  }
  std::optional<ProcessNumber> number;
  if (options.process) {
    number = {*options.process, *options.processes};
  } else {
    number = process_number(std::getenv);
  }
  if (!number) {
    throw UsageError(
        "--rendezvous needs --process I and --processes N where no launcher says them (RANK and "
        "WORLD_SIZE, or "
        "SLURM_PROCID and SLURM_NTASKS)");
  }
  if (number->index < 0 || number->index >= number->count) {
    throw UsageError(fmt::format("process {} of {}: the number must be from 0 to N - 1",
                                 number->index, number->count));
  }
  return *number;
}

std::unique_ptr<Wire> open_wire(const SessionOptions& options) {
  if (options.rendezvous) {
    const ProcessNumber own = own_number(options);
    const auto patience = std::chrono::duration_cast<std::chrono::nanoseconds>(options.patience);
    return std::make_unique<SocketWire>(
        rendezvous({*options.rendezvous, own.index, own.count, patience}),
        SocketWire::Options{own.index, patience});
  }
#ifdef WEIR_HAS_MPI
  return std::make_unique<MpiWire>();
#else
  throw MissingComponent(
      "this build has no MPI; processes can meet by a file (--rendezvous), and --transport threads "
      "runs in one");
#endif
}

}  // namespace

TransportKind choose_transport(const SessionOptions& options) {
  const TransportKind kind = kind_of(options);
  if (!options.rendezvous) {
    if (options.process || options.processes)
      throw UsageError("--process and --processes are for --rendezvous FILE");
    if (kind == TransportKind::sockets) {
      throw UsageError("--transport sockets needs --rendezvous FILE, by which the processes meet");
    }
    return kind;
  }
  if (kind == TransportKind::threads || kind == TransportKind::mpi) {
    throw UsageError(fmt::format(
        "--rendezvous connects processes by sockets; --transport {} does not go with it",
        options.transport));
  }
  if (const auto by = launched(std::getenv); by && by->speaks_mpi) {
    throw UsageError(fmt::format(
        "{} has started {} processes that meet over MPI; leave out --rendezvous, or start them "
        "without it",
        by->by, by->processes));
  }
  static_cast<void>(own_number(options));
  return kind;
}

ProcessSession open_session(TransportKind kind, const SessionOptions& options) {
#ifdef WEIR_HAS_NCCL
  // Messages wait on queues of their own. With fewer ways into the device than queues, one that
  // waits would hold up kernels behind it (the default is 8; read when the device is first used).
  if (kind == TransportKind::nccl) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
#else
  if (kind == TransportKind::nccl) {
    throw MissingComponent(
        "this build has no NCCL; --transport mpi and sockets move messages, too");
  }
#endif
  ProcessGroup::Options group_options;
  group_options.patience = std::chrono::duration_cast<std::chrono::nanoseconds>(options.patience);
  group_options.speak = [](const std::string& line) { fmt::print(stderr, "weir: {}\n", line); };
  auto processes = std::make_unique<ProcessGroup>(open_wire(options), std::move(group_options));
  ProcessGroup& group = *processes;
#ifdef WEIR_HAS_NCCL
  if (kind == TransportKind::nccl) {
    return {std::move(processes),
            LaunchedTransportFactory([&group](const LaunchedTransportRequest& request) {
              return std::make_unique<NcclTransport>(request, group);
            })};
  }
#endif
  return {std::move(processes), TransportFactory([&group](const TransportRequest& request) {
            return std::make_unique<WireTransport>(request, group);
          })};
}

}  // namespace weir
