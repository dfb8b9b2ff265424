// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/process_session.hpp"

#include <fmt/core.h>

#include <cstdlib>

#include "exec/launched.hpp"
#include "plan/error.hpp"
#ifdef WEIR_HAS_MPI
#include "exec/mpi/mpi_transport.hpp"
#endif

namespace weir {

TransportKind choose_transport(const std::string& name) {
  if (name == "threads") return TransportKind::threads;
  if (name == "mpi") return TransportKind::mpi;
  if (!name.empty()) throw UsageError(fmt::format("--transport: {} is none of threads, mpi", name));
  return launched(std::getenv) ? TransportKind::mpi : TransportKind::threads;
}

ProcessSession open_session(TransportKind, Seconds patience) {
#ifdef WEIR_HAS_MPI
  MpiProcesses::Options options;
  options.patience = std::chrono::duration_cast<std::chrono::nanoseconds>(patience);
  options.speak = [](const std::string& line) { fmt::print(stderr, "weir: {}\n", line); };
  auto processes = std::make_unique<MpiProcesses>(std::move(options));
  MpiProcesses& mpi = *processes;
  return {std::move(processes),
          [&mpi](const TransportRequest& request) { return std::make_unique<MpiTransport>(request, mpi); }};
#else
  static_cast<void>(patience);
  throw MissingComponent("this build has no MPI, which ranks as processes need; --transport threads runs in one");
#endif
}

}  // namespace weir
