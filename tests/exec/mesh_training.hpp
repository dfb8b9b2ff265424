// A tiny model trained on the processes of a plan, which are threads here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/exec/copied_transport.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec/tiny.hpp"

namespace weir {

inline RunOptions steps(int count) {
  RunOptions options;
  options.steps = count;
  options.warmup_steps = 0;
  options.trace = false;  // the tests' transport keeps no times
  return options;
}

// What the leader returns; how a process ended that should not have is a failure of the test.
inline RunResult trained(const TinyModel& model, const Plan& plan, const RunOptions& options) {
  if (plan.tp * plan.dp == 1) return run(model.load(plan), options, cpu_only());
  const ThreadsResult result = run_as_threads(
      model.load(plan), options, [](int) { return cpu_only(); }, copied_links());
  for (const auto& [kind, line] : result.endings) ADD_FAILURE() << line;
  return result.leaders;
}

inline std::filesystem::path own_folder() {
  return std::filesystem::temp_directory_path() / ("weir-exec-test-" + std::to_string(::getpid()));
}

}  // namespace weir
