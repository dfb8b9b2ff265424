// Ranks as processes on GPUs of their own, messages over NCCL; the processes are threads here,
// which NCCL takes alike. Where there are fewer GPUs they share them, by an NCCL of 2.30 or later;
// with an older one this is skipped.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cuda/cuda_backend.hpp"
#include "exec/nccl/nccl_facts.hpp"
#include "exec/nccl/nccl_transport.hpp"
#include "plan/job/summary.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/streams/launch_cases.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::several_gpus_test {
namespace {

#define WEIR_NEEDS_DEVICES(count)                                                   \
  WEIR_NEEDS_DEVICE();                                                              \
  if (const std::string why = why_not_on(count); !why.empty()) GTEST_SKIP() << why; \
  static_assert(true)

int gpus() {
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  return devices;
}

// So many processes; empty: nothing stands against it.
std::string why_not_on(int processes) {
  if (gpus() >= processes) return "";
  try {
    let_ranks_share_gpus();
    return "";
  } catch (const MissingComponent& why) {
    return "needs " + std::to_string(processes) + " GPUs, here are " + std::to_string(gpus()) +
           ": " + why.what();
  }
}

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
  const bool shared = gpus() < loaded.plan.pp * loaded.plan.tp * loaded.plan.dp;
  const GpuSharing sharing = shared ? GpuSharing::yes : GpuSharing::no;
  return run_as_threads(
      loaded, steps_on_gpus(steps),
      [](int) -> Backends {
        return {{BackendKind::cuda, cuda_backends()}};
      },
      [sharing](Processes& processes) -> ProcessLinks {
        return StreamTransportFactory([&processes, sharing](const StreamTransportRequest& request) {
          return std::make_unique<NcclTransport>(request, processes, sharing);
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

// Two replicas of K = 2: each gradient is summed in the order of replicas, so the bits are those of
// K = 1, with the optimizer's state divided and without; clipped, they are one for every K.
TEST(CudaSeveralGpus, ReplicasHaveTheSameBitsForEveryK) {
  WEIR_NEEDS_DEVICES(4);
  const TinyModel model;
  for (const double clip : {0.0, 0.05}) {
    std::string expected;
    for (const int zero : {0, 1}) {
      for (const std::vector<int>& boundaries : {std::vector<int>{}, std::vector<int>{3}}) {
        Plan plan = model.plan(boundaries, 3, "1f1b");
        plan.dp = 2;
        plan.zero = zero;
        plan.optimizer.clip_norm = clip;
        const ThreadsResult found = over_nccl(model.load(plan), 3);
        EXPECT_EQ(found.endings, Endings{});
        // The squares of slices add up to those of whole gradients in another order.
        if (boundaries.empty() && (zero == 0 || clip > 0))
          expected = found.leaders.parameters_sha256;
        EXPECT_EQ(found.leaders.parameters_sha256, expected)
            << "clip " << clip << " zero " << zero << " K " << plan.pp;
      }
    }
  }
}

// Slices of gradients, and of weights, of two replicas: one set of bits for both stages of ZeRO and
// every K, re-materialised or not, and the losses of one GPU to five digits.
TEST(CudaSeveralGpus, DividedGradientsAndWeightsHaveOneSetOfBits) {
  WEIR_NEEDS_DEVICES(4);
  const TinyModel model;
  Plan whole = model.plan({}, 6, "1f1b");
  const RunResult one = in_one_process(model.load(whole), 3);
  std::string expected;
  for (const int zero : {2, 3}) {
    for (const char* recompute : {"none", "full:2", "selective"}) {
      for (const std::vector<int>& boundaries : {std::vector<int>{}, std::vector<int>{3}}) {
        Plan plan = model.plan(boundaries, 3, "zb-h1");
        plan.slots = 0;
        plan.dp = 2;
        plan.zero = zero;
        plan.recompute = parse_recompute_word(recompute).value();
        SCOPED_TRACE(summary(plan));
        const ThreadsResult found = over_nccl(model.load(plan), 3);
        EXPECT_EQ(found.endings, Endings{});
        if (expected.empty()) expected = found.leaders.parameters_sha256;
        EXPECT_EQ(found.leaders.parameters_sha256, expected);
        for (std::size_t s = 0; s < 3; ++s)
          EXPECT_NEAR(found.leaders.steps[s].loss, one.steps[s].loss, 1e-5);
      }
    }
  }
}

// Of whole training steps of K = 1, 2 and 4 that are clipped, over NCCL and in one process.
TEST(CudaSeveralGpus, StagesClipByOneNorm) {
  WEIR_NEEDS_DEVICES(4);
  const TinyModel model;
  Plan plan = model.plan({}, 4, "1f1b");
  plan.optimizer.clip_norm = 0.05;
  const RunResult one = in_one_process(model.load(plan), 3);
  for (const std::vector<int>& boundaries : {std::vector<int>{3}, std::vector<int>{1, 2, 4}}) {
    Plan stages = model.plan(boundaries, 4, "1f1b");
    stages.optimizer.clip_norm = 0.05;
    EXPECT_EQ(in_one_process(model.load(stages), 3).parameters_sha256, one.parameters_sha256);
    const ThreadsResult found = over_nccl(model.load(stages), 3);
    EXPECT_EQ(found.endings, Endings{});
    EXPECT_EQ(found.leaders.parameters_sha256, one.parameters_sha256);
    for (std::size_t step = 0; step < 3; ++step)
      EXPECT_EQ(found.leaders.steps[step].gradient_norm, one.steps[step].gradient_norm);
  }
}

// Two devices that divide the layers of K = 1 and 2, with their rows and without: the losses of one
// to five digits, and one set of bits for every K; with replicas that share the optimizer too.
TEST(CudaSeveralGpus, DividedLayersTrainAsWholeOnes) {
  WEIR_NEEDS_DEVICES(4);
  const TinyModel model(tiny_llama("qwen3", "", 3, 37));
  Plan plan = model.plan({}, 2, "1f1b");
  plan.optimizer.clip_norm = 0.05;
  const RunResult whole = in_one_process(model.load(plan), 3);
  const auto expect_whole = [&](const ThreadsResult& found) {
    EXPECT_EQ(found.endings, Endings{});
    for (std::size_t step = 0; step < 3; ++step)
      EXPECT_NEAR(found.leaders.steps[step].loss, whole.steps[step].loss, 1e-5) << step;
  };
  for (const bool sequence_parallel : {false, true}) {
    plan = model.plan({}, 2, "1f1b");
    plan.optimizer.clip_norm = 0.05;
    plan.tp = 2;
    plan.sequence_parallel = sequence_parallel;
    const ThreadsResult one = over_nccl(model.load(plan), 3);
    expect_whole(one);
    Plan stages = model.plan({2}, 2, "1f1b");
    stages.optimizer.clip_norm = 0.05;
    stages.tp = 2;
    stages.sequence_parallel = sequence_parallel;
    EXPECT_EQ(over_nccl(model.load(stages), 3).leaders.parameters_sha256,
              one.leaders.parameters_sha256);
    plan.dp = 2;
    plan.zero = 1;
    plan.microbatches = 1;
    expect_whole(over_nccl(model.load(plan), 3));
  }
}

}  // namespace
}  // namespace weir::several_gpus_test
