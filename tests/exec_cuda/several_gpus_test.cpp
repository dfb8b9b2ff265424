// Ranks as processes on GPUs of their own, messages and sums over NCCL; the processes are threads
// here, which NCCL takes alike. Where there is one GPU this is skipped.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cuda/cuda_backend.hpp"
#include "exec/nccl/nccl_transport.hpp"
#include "tests/exec/streams/launch_cases.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir {
namespace {

#define WEIR_NEEDS_DEVICES(count)                                                              \
  WEIR_NEEDS_DEVICE();                                                                         \
  int devices = 0;                                                                             \
  CUDA_CHECK(cudaGetDeviceCount(&devices));                                                    \
  if (devices < (count)) GTEST_SKIP() << "needs " << (count) << " GPUs, here are " << devices; \
  static_assert(true)

RunOptions steps_on_gpus(int steps) {
  RunOptions options;
  options.backend = BackendKind::cuda;
  options.steps = steps;
  options.warmup_steps = 0;
  return options;
}

RunResult in_one_process(const ResolvedPlan& loaded, int steps) {
  return run(loaded, steps_on_gpus(steps), {{BackendKind::cuda, cuda_backends()}});
}

ThreadsResult over_nccl(const ResolvedPlan& loaded, int steps) {
  return run_as_threads(
      loaded, steps_on_gpus(steps),
      [](int) -> Backends {
        return {{BackendKind::cuda, cuda_backends()}};
      },
      [](Processes& processes) -> ProcessLinks {
        return StreamTransportFactory([&processes](const StreamTransportRequest& request) {
          return std::make_unique<NcclTransport>(request, processes);
        });
      });
}

// K = 2, tied table, every schedule and mode: what one GPU computes alone, two compute with peer
// copies and over NCCL.
TEST(CudaSeveralGpus, ParametersAreBitwiseThoseOfOne) {
  WEIR_NEEDS_DEVICES(2);
  const TinyModel model;
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    for (const int slots : {1, 2}) {
      Plan plan = model.plan({}, 4, "gpipe");
      const std::string expected = in_one_process(model.load(plan), 3).parameters_sha256;
      plan = model.plan({3}, 4, schedule);
      plan.slots = slots;
      SCOPED_TRACE(std::string(schedule) + " slots " + std::to_string(slots));
      EXPECT_EQ(in_one_process(model.load(plan), 3).parameters_sha256,
                expected);  // a GPU a rank: peer copies
      const ThreadsResult found = over_nccl(model.load(plan), 3);
      EXPECT_EQ(found.endings, Endings{});
      EXPECT_EQ(found.leaders.parameters_sha256, expected);
      EXPECT_EQ(found.leaders.devices.size(), 2U);
    }
  }
}

// Every gradient crosses between the two.
TEST(CudaSeveralGpus, BidirectionalPlansToo) {
  WEIR_NEEDS_DEVICES(2);
  for (const ResolvedPlan& loaded : bidirectional_plans(TinyModel())) {
    EXPECT_EQ(over_nccl(loaded, 3).leaders.parameters_sha256,
              in_one_process(loaded, 3).parameters_sha256)
        << loaded.plan.schedule;
  }
}

// Two replicas of K = 1: the losses of one with twice the micro-batches, but for the order of sums
// (fp32 carries 7 digits; after 3 steps they agree to 5); the same bits when sums begin within the
// last backward, and again.
TEST(CudaSeveralGpus, ReplicasTrainAsOneWouldWithTheirMicrobatches) {
  WEIR_NEEDS_DEVICES(2);
  const TinyModel model;
  Plan plan = model.plan({}, 3, "gpipe");
  plan.dp = 2;
  const ThreadsResult first = over_nccl(model.load(plan), 3);
  EXPECT_EQ(first.endings, Endings{});
  plan.overlap_grad_reduce = true;
  EXPECT_EQ(over_nccl(model.load(plan), 3).leaders.parameters_sha256,
            first.leaders.parameters_sha256);
  plan.overlap_grad_reduce = false;
  plan.microbatches = 6;
  plan.dp = 1;
  const RunResult one = in_one_process(model.load(plan), 3);
  for (std::size_t s = 0; s < 3; ++s)
    EXPECT_NEAR(first.leaders.steps[s].loss, one.steps[s].loss, 1e-5);
}

}  // namespace
}  // namespace weir
