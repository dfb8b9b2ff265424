// Opens MPI before the tests and leaves it after them; only the leader reports. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "tests/exec_mpi/launched.hpp"

namespace weir {
namespace {
std::unique_ptr<MpiProcesses> opened;
}

Processes& processes() { return *opened; }

RunResult run_here(const LoadedPlan& loaded, const RunOptions& options) {
  return run_as_process(loaded, options, cpu_only(), *opened, [](const TransportRequest& request) {
    return std::make_unique<MpiTransport>(request, *opened);
  });
}

}  // namespace weir

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  weir::MpiProcesses::Options options;
  options.speak = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  weir::opened = std::make_unique<weir::MpiProcesses>(std::move(options));
  if (weir::opened->index() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int code = RUN_ALL_TESTS();
  weir::opened.reset();
  return code;
}
