// Opens the wire before the tests and leaves it after them; only the leader reports. With FILE
// INDEX COUNT as arguments the processes meet by the file, without by MPI.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "exec/processes/process_group.hpp"
#include "exec/processes/wire_transport.hpp"
#include "exec/socket/rendezvous.hpp"
#include "exec/socket/socket_wire.hpp"
#include "tests/exec_processes/launched.hpp"
#ifdef WEIR_HAS_MPI
#include "exec/processes/mpi/mpi_wire.hpp"
#endif

namespace weir {
namespace {

std::unique_ptr<ProcessGroup> opened;

std::unique_ptr<Wire> open_wire(int argc, char** argv) {
  if (argc == 4) {
    const int index = std::atoi(argv[2]), count = std::atoi(argv[3]);
    SocketWire::Options options;
    options.index = index;
    return std::make_unique<SocketWire>(rendezvous({argv[1], index, count}), options);
  }
#ifdef WEIR_HAS_MPI
  return std::make_unique<MpiWire>();
#else
  return nullptr;
#endif
}

}  // namespace

Processes& processes() { return *opened; }

RunResult run_here(const LoadedPlan& loaded, const RunOptions& options) {
  return run_as_process(loaded, options, cpu_only(), *opened, [](const TransportRequest& request) {
    return std::make_unique<WireTransport>(request, *opened);
  });
}

}  // namespace weir

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::unique_ptr<weir::Wire> wire = weir::open_wire(argc, argv);
  if (!wire) {
    std::fprintf(stderr, "this build has no MPI; start it by start.py\n");
    return 2;
  }
  weir::ProcessGroup::Options options;
  options.speak = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  weir::opened = std::make_unique<weir::ProcessGroup>(std::move(wire), std::move(options));
  if (weir::opened->index() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int code = RUN_ALL_TESTS();
  weir::opened.reset();
  return code;
}
