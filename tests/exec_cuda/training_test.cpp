// Training on a GPU keeps the executor's promises: the same parameters to the last bit for every pipeline, and the
// CPU's losses. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cuda/cuda_backend.hpp"
#include "plan/error.hpp"
#include "tests/exec/tiny.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir {
namespace {

RunResult train(const TinyModel& model, const Plan& plan, BackendKind backend, int steps) {
  RunOptions options;
  options.backend = backend;
  options.steps = steps;
  options.warmup_steps = 0;
  return run(model.load(plan), options, {{BackendKind::cpu, make_cpu_backend}, {BackendKind::cuda, cuda_backends()}});
}

TEST(CudaTraining, ParametersAreBitwiseEqualForEveryPipeline) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model;
  const std::string expected = train(model, model.plan({}, 4, "gpipe"), BackendKind::cuda, 3).parameters_sha256;
  for (const std::vector<int>& boundaries : std::vector<std::vector<int>>{{}, {1}, {3}, {1, 3}, {1, 2, 4}}) {
    for (const char* schedule : {"gpipe", "1f1b"}) {
      for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::full}) {
        Plan plan = model.plan(boundaries, 4, schedule);
        plan.recompute.mode = mode;
        EXPECT_EQ(train(model, plan, BackendKind::cuda, 3).parameters_sha256, expected)
            << "K" << plan.pp << " " << schedule << " " << (mode == RecomputeMode::full);
      }
    }
  }
}

// The same masks and batches; the sums differ in order. Each step adds about 1e-6 of difference to parameters that are
// updated by 1e-3, and AdamW amplifies where a second moment is small: 1e-3 of the loss after 20 steps is asked.
TEST(CudaTraining, LossesAreTheCpus) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model;
  const Plan plan = model.plan({3}, 4);
  const RunResult cpu = train(model, plan, BackendKind::cpu, 20), cuda = train(model, plan, BackendKind::cuda, 20);
  for (std::size_t step = 0; step < 20; ++step) {
    EXPECT_NEAR(cuda.steps[step].loss, cpu.steps[step].loss, 1e-3 * cpu.steps[step].loss) << "step " << step;
  }
  EXPECT_EQ(cuda.peak_memory.size(), 2U);
}

// What is not taken in the first steps is not taken later, and the driver's own mark agrees that the pools were used.
TEST(CudaTraining, SteadyStateTakesNoMemory) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model;
  const RunResult result = train(model, model.plan({3}, 4, "1f1b"), BackendKind::cuda, 6);
  for (std::size_t step = 2; step < 6; ++step) EXPECT_EQ(result.steps[step].allocations, 0) << "step " << step;
  ASSERT_EQ(result.devices.size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_GT(result.devices[rank].pool_peak, Bytes(0)) << result.devices[rank].sharing;
    EXPECT_GT(result.devices[rank].multiprocessors, 0);
  }
}

// Where there is no device, the backend says so in one line; a format it does not compute in is a contradiction.
TEST(BackendOfCuda, SaysWhyNot) {
  EXPECT_THROW(static_cast<void>(make_cuda_backend({.dtype = Dtype::bf16})), UsageError);
  const CudaFacts facts = cuda_facts();
  if (facts.device) GTEST_SKIP() << "there is a device: " << facts.why;
  try {
    static_cast<void>(make_cuda_backend({}));
    FAIL() << "a backend without a device";
  } catch (const MissingComponent& missing) {
    EXPECT_EQ(std::string(missing.what()), "backend cuda: " + facts.why);
  }
}

}  // namespace
}  // namespace weir
