// What the tests on a recorded machine share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/cuda/cuda_backend.hpp"
#include "tests/exec/tiny.hpp"
#include "tests/exec_cuda/recorded/machine.hpp"

namespace weir::recorded {

// A machine as new for each test; what it found wrong fails the test, unless the test asked for it.
class Recorded : public ::testing::Test {
 protected:
  void SetUp() override { machine().reset(1); }
  void TearDown() override {
    for (const std::string& violation : machine().violations()) ADD_FAILURE() << violation;
    machine().reset(1);
  }
};

inline RunOptions steps_on_cuda(int steps, Graphs graphs = Graphs::never) {
  RunOptions options;
  options.backend = BackendKind::cuda;
  options.steps = steps;
  options.warmup_steps = 0;
  options.graphs = graphs;
  return options;
}

inline RunResult train(const ResolvedPlan& loaded, const RunOptions& options) {
  return run(loaded, options,
             {{BackendKind::cpu, make_cpu_backend}, {BackendKind::cuda, cuda_backends()}});
}

}  // namespace weir::recorded
