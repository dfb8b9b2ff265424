// Starts MPI before the tests and leaves it after them; only the leader reports.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "exec/processes/mpi/mpi_transport.hpp"
#include "exec/processes/mpi/process_group.hpp"
#include "tests/exec_processes/started.hpp"

namespace weir {
namespace {

std::unique_ptr<ProcessGroup> opened;

}  // namespace

Processes& processes() { return *opened; }

RunResult run_here(const ResolvedPlan& loaded, const RunOptions& options) {
  return run_as_process(loaded, options, cpu_only(), *opened, [](const TransportRequest& request) {
    return std::make_unique<MpiTransport>(request, *opened);
  });
}

}  // namespace weir

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  weir::ProcessGroup::Options options;
  options.speak = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  options.late = [] { std::_Exit(6); };
  options.stuck = [](const std::optional<weir::Ending>&) { std::_Exit(6); };
  options.code_of = [](weir::EndKind) { return 6; };
  weir::opened = std::make_unique<weir::ProcessGroup>(std::move(options));
  if (weir::opened->index() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int code = RUN_ALL_TESTS();
  weir::opened.reset();
  return code;
}
