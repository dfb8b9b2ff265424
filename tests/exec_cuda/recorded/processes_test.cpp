// Ranks and replicas as processes on GPUs of their own, messages and sums over NCCL, on a recorded
// machine: the processes are threads. No violation, and the parameters of one process; and what is
// planted is found or ends all.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/memory.hpp"
#include "exec/cuda/driver/stream_handle.hpp"
#include "exec/nccl/nccl_check.hpp"
#include "exec/nccl/nccl_facts.hpp"
#include "exec/nccl/nccl_transport.hpp"
#include "exec/processes/threads/threaded_run.hpp"
#include "plan/job/summary.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/copied_transport.hpp"
#include "tests/exec/spans.hpp"
#include "tests/exec/thread_processes.hpp"
#include "tests/exec_cuda/device.hpp"
#include "tests/exec_cuda/recorded/communicators.hpp"
#include "tests/exec_cuda/recorded/fixture.hpp"

namespace weir::recorded::processes_test {
namespace {

using RecordedProcesses = Recorded;

ThreadsResult over_nccl(const ResolvedPlan& loaded, int steps,
                        GpuSharing sharing = GpuSharing::no) {
  return run_as_threads(
      loaded, steps_on_cuda(steps),
      [](int) -> Backends {
        return {{BackendKind::cuda, cuda_backends()}};
      },
      [sharing](Processes& processes) -> ProcessLinks {
        return StreamTransportFactory([&processes, sharing](const StreamTransportRequest& request) {
          return std::make_unique<NcclTransport>(request, processes, sharing);
        });
      });
}

// The processes on one device, their sums and messages through the host's memory.
ThreadsResult through_host(const ResolvedPlan& loaded, int steps) {
  RunOptions options = steps_on_cuda(steps);
  options.trace = false;  // the tests' transport keeps no times
  return run_as_threads(
      loaded, options,
      [](int) -> Backends {
        return {{BackendKind::cuda, cuda_backends()}};
      },
      copied_links());
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
  EXPECT_FALSE(found.leaders.oversubscribed);
}

// Two processes of one device: refused where it was not asked for and by an NCCL that cannot, and
// otherwise the parameters are the same and the result is marked.
TEST_F(RecordedProcesses, ShareADeviceWhereThatIsAskedFor) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  const ResolvedPlan loaded = model.load(model.plan({2}, 3, "1f1b"));
  const std::string expected = train(loaded, steps_on_cuda(2)).parameters_sha256;
  machine().reset(1);
  EXPECT_EQ(over_nccl(loaded, 2).endings,
            (Endings{{EndKind::usage,
                      "over NCCL each process has a GPU of its own unless they are told to share; "
                      "up to 2 would share one here"}}));
  machine().reset(1);
  EXPECT_THAT(let_ranks_share_gpus,
              ::testing::ThrowsMessage<MissingComponent>(
                  "NCCL 2.28.9 puts no two processes on one GPU; 2.30 or later "
                  "does"));
  machine().faults.nccl = 23007;
  let_ranks_share_gpus();
  const ThreadsResult found = over_nccl(loaded, 2, GpuSharing::yes);
  EXPECT_EQ(found.endings, Endings{});
  EXPECT_EQ(found.leaders.parameters_sha256, expected);
  EXPECT_TRUE(found.leaders.oversubscribed);
  EXPECT_EQ(found.leaders.devices.front().sharing, "2 processes in turn on one GPU");
  EXPECT_EQ(found.leaders.devices.front().multiprocessors, 132);
  EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
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

// Stages and replicas on up to eight devices, with the parameters of the same stages on one.
TEST_F(RecordedProcesses, FourAndEightStages) {
  const struct {
    const char* schedule;
    std::vector<int> boundaries;
  } pipelines[] = {{"zb-h1", {1, 2, 3}}, {"1f1b", {1, 2, 3, 4, 5, 6, 7}}};
  for (const auto& pipeline : pipelines) {
    SCOPED_TRACE(pipeline.schedule);
    const int stages = static_cast<int>(pipeline.boundaries.size()) + 1;
    const TinyModel model(true, 0.1, 32, stages - 3, 4);
    const ResolvedPlan loaded = model.load(model.plan(pipeline.boundaries, 3, pipeline.schedule));
    machine().reset(1);
    const std::string expected = train(loaded, steps_on_cuda(1)).parameters_sha256;
    machine().reset(stages);
    const ThreadsResult found = over_nccl(loaded, 1);
    EXPECT_EQ(found.endings, Endings{});
    EXPECT_EQ(found.leaders.parameters_sha256, expected);
    EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
  }
}

TEST_F(RecordedProcesses, FourReplicasOfTwoStages) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  Plan plan = model.plan({2}, 2, "1f1b");
  plan.dp = 4;
  machine().reset(8);
  const ThreadsResult found = over_nccl(model.load(plan), 2);
  EXPECT_EQ(found.endings, Endings{});
  plan.dp = 1;
  plan.microbatches = 8;
  machine().reset(1);
  const RunResult one = train(model.load(plan), steps_on_cuda(2));
  for (std::size_t step = 0; step < 2; ++step)
    EXPECT_NEAR(found.leaders.steps[step].loss, one.steps[step].loss, 1e-5);
}

// D = 2 over 20 steps, of two stages and of one: the same bits, since each gradient is summed in
// the order of replicas wherever it is; the bits of processes whose sums go through the host; and
// the losses of the CPU, in fp32.
TEST_F(RecordedProcesses, ReplicasSumInTheHostsOrder) {
  constexpr int kSteps = 20;
  const TinyModel model(true, 0.1, 32, 1, 4);
  Plan plan = model.plan({2}, 2, "1f1b");
  plan.dp = 2;
  machine().reset(4);
  const ThreadsResult two = over_nccl(model.load(plan), kSteps);
  EXPECT_EQ(two.endings, Endings{});
  RunOptions cpu;
  cpu.steps = kSteps;
  cpu.warmup_steps = 0;
  const RunResult expected =
      run_in_one_process(model.load(plan), cpu, {{BackendKind::cpu, make_cpu_backend}});
  for (std::size_t step = 0; step < kSteps; ++step) {
    const double loss = expected.steps[step].loss;
    EXPECT_NEAR(two.leaders.steps[step].loss, loss, 1e-3 * loss) << step;
  }
  plan = model.plan({}, 2, "1f1b");
  plan.dp = 2;
  machine().reset(2);
  const ThreadsResult one = over_nccl(model.load(plan), kSteps);
  EXPECT_EQ(one.leaders.parameters_sha256, two.leaders.parameters_sha256);
  machine().reset(1);
  const ThreadsResult host = through_host(model.load(plan), kSteps);
  EXPECT_EQ(host.endings, Endings{});
  EXPECT_EQ(host.leaders.parameters_sha256, two.leaders.parameters_sha256);
}

// The optimizer's state divided among two and three replicas (a third has nothing of a layer of 8):
// the bits of whole states, in fp32 and with masters beside bf16, and less memory. Clipped, the
// squares are of slices: one set of bits for every K.
TEST_F(RecordedProcesses, ReplicasDivideTheOptimizersState) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    for (const int replicas : {2, 3}) {
      SCOPED_TRACE(std::string(to_string(dtype)) + " D " + std::to_string(replicas));
      Plan plan = model.plan({2}, 1, "1f1b");
      plan.dtype = dtype;
      plan.dp = replicas;
      machine().reset(2 * replicas);
      const ThreadsResult whole = over_nccl(model.load(plan), 2);
      plan.zero = 1;
      machine().reset(2 * replicas);
      const ThreadsResult divided = over_nccl(model.load(plan), 2);
      EXPECT_EQ(divided.endings, Endings{});
      EXPECT_EQ(divided.leaders.parameters_sha256, whole.leaders.parameters_sha256);
      EXPECT_LT(divided.leaders.peak_memory.front(), whole.leaders.peak_memory.front());
      plan.optimizer.clip_norm = 0.05;
      machine().reset(2 * replicas);
      const ThreadsResult clipped = over_nccl(model.load(plan), 2);
      EXPECT_EQ(clipped.endings, Endings{});
      EXPECT_NE(clipped.leaders.parameters_sha256, divided.leaders.parameters_sha256);
      Plan one = model.plan({}, 1, "1f1b");
      one.dtype = dtype;
      one.dp = replicas;
      one.zero = 1;
      one.optimizer.clip_norm = 0.05;
      machine().reset(replicas);
      const ThreadsResult alone = over_nccl(model.load(one), 2);
      EXPECT_EQ(alone.leaders.parameters_sha256, clipped.leaders.parameters_sha256);
      for (std::size_t step = 0; step < 2; ++step) {
        EXPECT_EQ(alone.leaders.steps[step].gradient_norm.value(),
                  clipped.leaders.steps[step].gradient_norm.value());
      }
      EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
    }
  }
}

// Slices of gradients summed in each backward, and weights gathered for the passes that read them:
// over NCCL the bits of messages through the host, equal for both stages of ZeRO and every K; and a
// rank alone holds what the forecast says, room of sums included.
TEST_F(RecordedProcesses, ReplicasDivideGradientsAndWeights) {
  const TinyModel model(true, 0.1, 37, 2, 4);
  const auto plan_of = [&](int zero, int replicas, std::vector<int> boundaries) {
    Plan plan = model.plan(std::move(boundaries), 2, "1f1b");
    plan.dp = replicas;
    plan.zero = zero;
    plan.slots = 0;
    plan.optimizer.clip_norm = 0.05;
    return plan;
  };
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    for (const int replicas : {2, 3}) {
      std::string bits;
      for (const int zero : {2, 3}) {
        Plan alone = plan_of(zero, replicas, {});
        alone.dtype = dtype;
        SCOPED_TRACE(summary(alone));
        const ResolvedPlan loaded = model.load(alone);
        machine().reset(1);
        const ThreadsResult host = through_host(loaded, 2);
        EXPECT_EQ(host.endings, Endings{});
        if (bits.empty()) bits = host.leaders.parameters_sha256;
        EXPECT_EQ(host.leaders.parameters_sha256, bits);
        machine().reset(replicas);
        const ThreadsResult one = over_nccl(loaded, 2);
        EXPECT_EQ(one.endings, Endings{});
        EXPECT_EQ(one.leaders.parameters_sha256, bits);
        EXPECT_EQ(one.leaders.steps[1].gradient_norm, host.leaders.steps[1].gradient_norm);
        const std::vector<Span> spans = spans_in_order(loaded.program);
        const auto peaks =
            memory_peaks(loaded, loaded.program, std::span<const Span>(spans), one.leaders.scratch);
        EXPECT_EQ(peaks.front().peak.count(), one.leaders.peak_memory.front().count());
        Plan piped = plan_of(zero, replicas, {2});
        piped.dtype = dtype;
        piped.schedule = "zb-h1";
        piped.recompute = parse_recompute_word("full:2").value();
        machine().reset(2 * replicas);
        const ThreadsResult two = over_nccl(model.load(piped), 2);
        EXPECT_EQ(two.endings, Endings{});
        EXPECT_EQ(two.leaders.parameters_sha256, bits);
        EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
      }
    }
  }
}

// A layer's sum and its gather are one exchange each at either of two replicas. Of L layers M
// micro-batches take L M sums; under ZeRO-2 the weights follow in one exchange behind the stage's
// update, under ZeRO-3 in L for each F and L for each B.
TEST_F(RecordedProcesses, DividedReplicasExchangeOnceALayer) {
  constexpr int kMicrobatches = 2;
  const TinyModel model(false, 0.0, 32, 2, 4);
  std::int64_t layers = 0;
  const auto messages = [&](int zero) {
    Plan plan = model.plan({}, kMicrobatches, "1f1b");
    plan.dp = 2;
    plan.zero = zero;
    const ResolvedPlan loaded = model.load(plan);
    layers = std::ssize(loaded.model.layers);
    std::int64_t of_steps[2] = {};
    for (const int steps : {1, 2}) {
      machine().reset(2);
      EXPECT_EQ(over_nccl(loaded, steps).endings, Endings{});
      of_steps[steps - 1] = machine().ran["a message"];
    }
    return of_steps[1] - of_steps[0];
  };
  const std::int64_t of_two = messages(2), of_three = messages(3);
  EXPECT_EQ(of_two, 2 * (layers * kMicrobatches + 1));
  EXPECT_EQ(of_three, 2 * (layers * kMicrobatches * 3));
}

// Without replicas the norm of processes is that of one.
TEST_F(RecordedProcesses, StagesClipByOneNorm) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  Plan plan = model.plan({1, 2}, 3, "1f1b");
  plan.optimizer.clip_norm = 0.05;
  const RunResult one = train(model.load(plan), steps_on_cuda(2));
  machine().reset(3);
  const ThreadsResult found = over_nccl(model.load(plan), 2);
  EXPECT_EQ(found.endings, Endings{});
  EXPECT_EQ(found.leaders.parameters_sha256, one.parameters_sha256);
  for (std::size_t step = 0; step < 2; ++step) {
    EXPECT_EQ(found.leaders.steps[step].gradient_norm.value(),
              one.steps[step].gradient_norm.value());
  }
}

// Devices that divide layers: over NCCL the bits are those of messages through the host, with rows
// divided and without, of one stage and of two, clipped, with replicas that share the optimizer.
void expect_nccl_divides_as_the_host(const TinyModel& model) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    for (const bool sequence_parallel : {false, true}) {
      const auto plan_of = [&](std::vector<int> boundaries, const char* schedule) {
        Plan plan = model.plan(std::move(boundaries), 2, schedule);
        plan.tp = 2;
        plan.dtype = dtype;
        plan.sequence_parallel = sequence_parallel;
        plan.optimizer.clip_norm = 0.05;
        return plan;
      };
      const ResolvedPlan plan = model.load(plan_of({}, "1f1b"));
      SCOPED_TRACE(summary(plan.plan));
      machine().reset(1);
      const ThreadsResult host = through_host(plan, 2);
      EXPECT_EQ(host.endings, Endings{});
      machine().reset(2);
      const ThreadsResult one = over_nccl(plan, 2);
      EXPECT_EQ(one.endings, Endings{});
      EXPECT_EQ(one.leaders.parameters_sha256, host.leaders.parameters_sha256);
      EXPECT_EQ(one.leaders.steps[1].gradient_norm, host.leaders.steps[1].gradient_norm);
      machine().reset(4);
      const ThreadsResult two = over_nccl(model.load(plan_of({2}, "zb-h1")), 2);
      EXPECT_EQ(two.endings, Endings{});
      EXPECT_EQ(two.leaders.parameters_sha256, one.leaders.parameters_sha256);
      EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
    }
  }
}

TEST_F(RecordedProcesses, DevicesDivideLayers) {
  expect_nccl_divides_as_the_host(TinyModel(true, 0.1, 37, 1, 4));
  expect_nccl_divides_as_the_host(TinyModel(tiny_llama("qwen3", "", 1, 37)));
}

// Nothing but the optimizer waits for the sum of partial gradients where no gradient is reduced;
// with replicas it follows theirs.
TEST_F(RecordedProcesses, DividedLayersGoWithReplicas) {
  const TinyModel model(tiny_llama("qwen3", "", 1, 37));
  for (const int zero : {0, 1, 2, 3}) {
    for (const double clip : {0.0, 0.05}) {
      for (const int replicas : {1, 2}) {
        if (replicas == 1 && zero > 0) continue;
        Plan plan = model.plan({}, 1, "1f1b");
        plan.tp = 2;
        plan.sequence_parallel = true;
        plan.dp = replicas;
        plan.zero = zero;
        plan.optimizer.clip_norm = clip;
        SCOPED_TRACE(summary(plan));
        machine().reset(1);
        const ThreadsResult host = through_host(model.load(plan), 2);
        EXPECT_EQ(host.endings, Endings{});
        machine().reset(2 * replicas);
        const ThreadsResult found = over_nccl(model.load(plan), 2);
        EXPECT_EQ(found.endings, Endings{});
        EXPECT_EQ(found.leaders.parameters_sha256, host.leaders.parameters_sha256);
        EXPECT_THAT(machine().violations(), ::testing::IsEmpty());
      }
    }
  }
}

// Whichever call of whichever process fails: all end, with the same line.
TEST_F(RecordedProcesses, AnErrorAtAnyCallEndsAllWithOneLine) {
  const TinyModel model(true, 0.1, 32, 1, 4);
  const ResolvedPlan loaded = model.load(model.plan({2}, 2, "1f1b"));
  machine().reset(2);
  EXPECT_EQ(over_nccl(loaded, 1).endings, Endings{});
  const std::int64_t calls = machine().calls;
  int failed = 0;
  for (std::int64_t call = 1; call <= calls; call += 1 + calls / 12) {
    SCOPED_TRACE("call " + std::to_string(call));
    machine().reset(2);
    machine().faults.failing_call = call;
    const ThreadsResult found = over_nccl(loaded, 1);
    EXPECT_LE(found.endings.size(), 1U);
    for (const auto& [kind, line] : found.endings) {
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      EXPECT_NE(line, "");
    }
    failed += static_cast<int>(!found.endings.empty());
    machine().forget();  // what a failure leaves behind is not the step's
  }
  EXPECT_GT(failed, 6);
}

class RecordedNccl : public Recorded {
 protected:
  void SetUp() override {
    machine().reset(2);
    ncclUniqueId id;
    NCCL_CHECK(ncclGetUniqueId(&id));
    for (const int device : {0, 1}) {
      CUDA_CHECK(cudaSetDevice(device));
      streams_.push_back(make_stream_handle());
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      NCCL_CHECK(ncclCommInitRankConfig(&members_[device], 2, id, device, &config));
      memory_[device].emplace(16);
      data_[device] = memory_[device]->get();
    }
  }
  void TearDown() override {
    for (ncclComm_t member : members_) NCCL_CHECK(ncclCommAbort(member));
    streams_.clear();
    for (auto& memory : memory_) memory.reset();
    Recorded::TearDown();
  }
  std::vector<std::string> found() {
    for (const int device : {0, 1}) {
      CUDA_CHECK(cudaSetDevice(device));
      CUDA_CHECK(cudaStreamSynchronize(streams_[static_cast<std::size_t>(device)].get()));
    }
    std::vector<std::string> all = machine().violations();
    machine().forget();
    return all;
  }
  void send(std::size_t bytes) {
    CUDA_CHECK(cudaSetDevice(0));
    NCCL_CHECK(ncclSend(data_[0], bytes, ncclInt8, 1, members_[0], streams_[0].get()));
  }
  void receive(std::size_t bytes) {
    CUDA_CHECK(cudaSetDevice(1));
    NCCL_CHECK(ncclRecv(data_[1], bytes, ncclInt8, 0, members_[1], streams_[1].get()));
  }
  std::vector<StreamHandle> streams_;
  ncclComm_t members_[2] = {};
  std::optional<DeviceArray<float>> memory_[2];
  float* data_[2] = {};
};

TEST_F(RecordedNccl, CountsThatDiffer) {
  using ::testing::ElementsAre;
  using ::testing::HasSubstr;
  send(64);
  receive(64);
  EXPECT_THAT(found(), ::testing::IsEmpty());
  send(64);
  receive(32);
  EXPECT_THAT(found(), ElementsAre(HasSubstr("ends of a message have different counts")));
}

TEST_F(RecordedNccl, ACommunicatorOnAnotherDevicesStream) {
  CUDA_CHECK(cudaSetDevice(1));
  EXPECT_NE(ncclSend(data_[1], 64, ncclInt8, 1, members_[0], streams_[1].get()), ncclSuccess);
  EXPECT_THAT(found(),
              ::testing::ElementsAre(::testing::HasSubstr("used on another device's stream")));
}

}  // namespace
}  // namespace weir::recorded::processes_test
