// Ranks and replicas as processes on GPUs of their own, messages and sums over NCCL, on a recorded
// machine: the processes are threads. No violation, and the parameters of one process.
// SPDX-License-Identifier: Apache-2.0
#include "exec/nccl/nccl_transport.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec_cuda/recorded/communicators.hpp"
#include "tests/exec_cuda/recorded/fixture.hpp"

namespace weir::recorded {
namespace {

using RecordedProcesses = Recorded;

ThreadsResult over_nccl(const ResolvedPlan& loaded, int steps) {
  return run_as_threads(
      loaded, steps_on_cuda(steps),
      [](int) -> Backends {
        return {{BackendKind::cuda, cuda_backends()}};
      },
      [](Processes& processes) -> ProcessLinks {
        return StreamTransportFactory([&processes](const StreamTransportRequest& request) {
          return std::make_unique<NcclTransport>(request, processes);
        });
      });
}

TEST_F(RecordedProcesses, TwoStages) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  const ResolvedPlan loaded = model.load(model.plan({2}, 3, "1f1b"));
  const std::string expected = train(loaded, steps_on_cuda(2)).parameters_sha256;
  machine().reset(2);
  const std::int64_t aborted = aborted_communicators();
  const ThreadsResult found = over_nccl(loaded, 2);
  EXPECT_EQ(found.endings, Endings{});
  EXPECT_EQ(aborted_communicators(), aborted) << "a normal end cuts nothing short";
  EXPECT_EQ(found.leaders.parameters_sha256, expected);
}

// Each process ends, and all with the same line.
TEST_F(RecordedProcesses, WithoutNcclOneLineSaysSo) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  machine().reset(2);
  machine().faults.absent_libraries = true;
  const ThreadsResult found = over_nccl(model.load(model.plan({2}, 3, "1f1b")), 2);
  EXPECT_EQ(found.endings,
            (Endings{{EndKind::missing, "messages over NCCL: no libnccl.so.2 on this machine"}}));
}

TEST_F(RecordedProcesses, Replicas) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  Plan plan = model.plan({}, 2, "gpipe");
  plan.dp = 2;
  machine().reset(2);
  const ThreadsResult found = over_nccl(model.load(plan), 2);
  EXPECT_EQ(found.endings, Endings{});
  plan.dp = 1;
  plan.microbatches = 4;
  machine().reset(1);
  const RunResult one = train(model.load(plan), steps_on_cuda(2));
  // The order of sums differs: fp32 carries 7 digits.
  for (std::size_t step = 0; step < 2; ++step)
    EXPECT_NEAR(found.leaders.steps[step].loss, one.steps[step].loss, 1e-5);
}

}  // namespace
}  // namespace weir::recorded
