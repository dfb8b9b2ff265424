// How the processes that a launcher started meet: by MPI, with messages over MPI or NCCL.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/process_session.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <optional>
#include <thread>

#include "exec/processes/started_by.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/exit_code.hpp"
#ifdef WEIR_HAS_MPI
#include "exec/processes/mpi/mpi_transport.hpp"
#endif
#ifdef WEIR_HAS_NCCL
#include "exec/nccl/nccl_facts.hpp"
#include "exec/nccl/nccl_library.hpp"
#include "exec/nccl/nccl_transport.hpp"
#endif

namespace weir::app {

Fields fields(SessionOptions& o) {
  return {{"--transport", &o.transport,
           "threads of one process; mpi: one process a rank, as mpirun or srun started them "
           "(default where they started several); nccl: the same, and messages go from GPU to "
           "GPU"},
          {"--share-gpus", &o.share_gpus,
           "nccl: processes may share a GPU (NCCL 2.30 or later); the result is oversubscribed"},
          {"--patience",
           &o.patience_s,
           "Seconds without a sign of life after which a process counts as gone",
           {.range = kPatience}}};
}

TransportKind choose_transport(const SessionOptions& options) {
  if (options.share_gpus && options.transport != "nccl")
    throw UsageError("--share-gpus is for --transport nccl");
  const std::string& name = options.transport;
  if (name == "threads") return TransportKind::threads;
  // Each of the launcher's processes would run alone and write the same files.
  if (const auto by = started_without_mpi(std::getenv)) {
    throw UsageError(
        fmt::format("{} has started {} processes without MPI, by which they meet: start them by "
                    "mpirun -n {} or srun --mpi=pmix (--transport threads runs each alone)",
                    by->by, by->processes, by->processes));
  }
  if (name == "mpi") return TransportKind::mpi;
  if (name == "nccl") return TransportKind::nccl;
  if (!name.empty())
    throw UsageError(fmt::format("--transport: {} is none of threads, mpi, nccl", name));
  // Started by a launcher that has MPI: then its processes are meant to meet.
  return started_by(std::getenv) ? TransportKind::mpi : TransportKind::threads;
}

#ifdef WEIR_HAS_MPI

ProcessSession open_session(TransportKind kind, const SessionOptions& options,
                            const Session& session) {
#ifdef WEIR_HAS_NCCL
  // Messages wait on streams of their own. With fewer ways into the device than streams, one that
  // waits would hold up kernels behind it (the default is 8; read when the device is first used).
  if (kind == TransportKind::nccl) {
    require_nccl();
    if (options.share_gpus) let_ranks_share_gpus();
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  }
#else
  if (kind == TransportKind::nccl)
    throw MissingComponent("this build has no NCCL; --transport mpi moves messages, too");
#endif
  ProcessGroup::Options group_options;
  const Seconds patience(options.patience_s);
  group_options.patience = to_nanoseconds(patience);
  group_options.speak = session.fault();
  group_options.code_of = exit_code;
  // A thread of the constructor's says this while the main thread hangs in MPI: only _Exit ends
  // both, so it goes to stderr and not to a session that tells later. The leader's end makes the
  // launcher end the others, which speak only where it is the one that has not come.
  group_options.late = [patience] {
    if (const int rank = started_rank(std::getenv); rank > 0)
      std::this_thread::sleep_for(patience + rank * Seconds(0.2));
    fmt::print(stderr,
               "weir: the processes did not all come within {:.1f} s (--patience): one has not "
               "started, or stands still before MPI_Init\n",
               patience.count());
    std::_Exit(exit_code(EndKind::failed));
  };
  group_options.stuck = [patience](const std::optional<Ending>& said) {
    if (said) std::_Exit(exit_code(said->kind));
    fmt::print(stderr,
               "weir: the processes did not all come to their end within {:.1f} s (--patience)\n",
               patience.count());
    std::_Exit(exit_code(EndKind::failed));
  };
  auto processes = std::make_unique<ProcessGroup>(std::move(group_options));
  ProcessGroup& group = *processes;
#ifdef WEIR_HAS_NCCL
  if (kind == TransportKind::nccl) {
    const GpuSharing sharing = options.share_gpus ? GpuSharing::yes : GpuSharing::no;
    return {std::move(processes),
            StreamTransportFactory([&group, sharing](const StreamTransportRequest& request) {
              return std::make_unique<NcclTransport>(request, group, sharing);
            })};
  }
#endif
  return {std::move(processes), TransportFactory([&group](const TransportRequest& request) {
            return std::make_unique<MpiTransport>(request, group);
          })};
}

#else

ProcessSession open_session(TransportKind, const SessionOptions&, const Session&) {
  throw MissingComponent(
      "this build has no MPI, by which processes meet (weir doctor says what to install); "
      "--transport threads runs in one process");
}

#endif

}  // namespace weir::app
