// Replicas whose gradients go through the host's messages, as between processes over MPI: the
// processes are threads here. They train as one would with their micro-batches, to the same bits
// with the optimizer's state divided (ZeRO-1) and without.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cuda/cuda_backend.hpp"
#include "tests/exec/copied_transport.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec/tiny.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::replicas_test {
namespace {

constexpr int kSteps = 3;

Backends both() {
  return {{BackendKind::cpu, make_cpu_backend}, {BackendKind::cuda, cuda_backends()}};
}

RunOptions steps_on(BackendKind backend) {
  RunOptions options;
  options.backend = backend;
  options.steps = kSteps;
  options.warmup_steps = 0;
  options.trace = false;  // the tests' transport keeps no times
  return options;
}

RunResult by_messages(const ResolvedPlan& loaded, BackendKind backend) {
  const ThreadsResult found = run_as_threads(
      loaded, steps_on(backend), [](int) { return both(); }, copied_links());
  EXPECT_EQ(found.endings, Endings{});
  return found.leaders;
}

// Sums in another order: fp32 carries 7 digits, and a step amplifies what is left by less than ten
// times.
void expect_losses(const RunResult& found, const RunResult& expected, double tolerance) {
  ASSERT_EQ(found.steps.size(), expected.steps.size());
  for (std::size_t step = 0; step < expected.steps.size(); ++step)
    EXPECT_NEAR(found.steps[step].loss, expected.steps[step].loss, tolerance) << step;
}

TEST(CudaReplicas, TrainAsOneWouldWithTheirMicrobatches) {
  WEIR_NEEDS_DEVICE();
  const TinyModel model(true, 0.1, 32, 1, 4);
  Plan plan = model.plan({}, 2);
  plan.optimizer.clip_norm = 0.05;
  plan.dp = 2;
  const RunResult two = by_messages(model.load(plan), BackendKind::cuda);
  plan.zero = 1;
  const RunResult shared = by_messages(model.load(plan), BackendKind::cuda);
  expect_losses(shared, by_messages(model.load(plan), BackendKind::cpu), 2e-3);
  expect_losses(shared, two, 1e-5);  // squares of slices are added otherwise
  plan.optimizer.clip_norm = 0;
  const std::string divided = by_messages(model.load(plan), BackendKind::cuda).parameters_sha256;
  plan.zero = 0;
  EXPECT_EQ(by_messages(model.load(plan), BackendKind::cuda).parameters_sha256, divided);
  plan.optimizer.clip_norm = 0.05;
  plan.dp = 1;
  plan.microbatches = 4;
  expect_losses(two, run(model.load(plan), steps_on(BackendKind::cuda), both()), 1e-5);
}

// Masters in fp32 are divided, the weights that products read are sent round in bf16; a vocabulary
// of 301 is padded to 304.
TEST(CudaReplicas, DivideTheMastersOfBf16) {
  WEIR_NEEDS_BF16();
  const TinyModel model(true, 0.1, 301, 1, 4);
  Plan plan = model.plan({}, 2);
  plan.dtype = Dtype::bf16;
  plan.dp = 2;
  const RunResult whole = by_messages(model.load(plan), BackendKind::cuda);
  plan.zero = 1;
  const RunResult divided = by_messages(model.load(plan), BackendKind::cuda);
  EXPECT_EQ(divided.parameters_sha256, whole.parameters_sha256);
  EXPECT_LT(divided.peak_memory.front(), whole.peak_memory.front());
}

}  // namespace
}  // namespace weir::replicas_test
