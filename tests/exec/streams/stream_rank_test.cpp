// Ranks as processes whose steps are launched as a whole: the same parameters as ranks that wait,
// to the last bit. The processes are threads here and the device is the tests' own, so what is
// checked is the order, not NCCL.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/stream_rank.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <thread>

#include "plan/words/error.hpp"
#include "tests/exec/copied_transport.hpp"
#include "tests/exec/streams/async_backend.hpp"
#include "tests/exec/streams/async_transport.hpp"
#include "tests/exec/streams/launch_cases.hpp"
#include "tests/exec/thread_processes.hpp"

namespace weir::stream_rank_test {
namespace {

struct ProcessesResult : ThreadsResult {
  std::vector<std::shared_ptr<AsyncWorld>> devices;  // by process
};
using MakeBackends = std::function<Backends(int process, const std::shared_ptr<AsyncWorld>& world)>;

Backends plain(int, const std::shared_ptr<AsyncWorld>& world) { return asynchronous(world); }

// `left_out_wait`: of the process `faulty`.
ProcessesResult train_as_processes(const ResolvedPlan& loaded, int steps, unsigned seed,
                                   const MakeBackends& make = plain, int faulty = -1,
                                   int left_out_wait = -1) {
  const auto meetings = std::make_shared<AsyncMeetings>();
  ProcessesResult result;
  for (int p = 0; p < loaded.plan.pp * loaded.plan.dp; ++p) {
    result.devices.push_back(std::make_shared<AsyncWorld>(
        AsyncOptions{.seed = seed + static_cast<unsigned>(p),
                     .left_out_wait = p == faulty ? left_out_wait : -1}));
  }
  RunOptions options;
  options.backend = BackendKind::cuda;
  options.steps = steps;
  options.warmup_steps = 0;
  static_cast<ThreadsResult&>(result) = run_as_threads(
      loaded, options, [&](int p) { return make(p, result.devices[static_cast<std::size_t>(p)]); },
      [&](Processes&) -> ProcessLinks {
        return StreamTransportFactory([&](const StreamTransportRequest& request) {
          return std::make_unique<AsyncTransport>(request, meetings);
        });
      });
  return result;
}

TEST(StreamRank, ParametersAreThoseOfRanksThatWait) {
  unsigned seed = 0;
  const int runs = for_each_launch_case(TinyModel(), 2, [&](const LaunchCase& c) {
    seed += 10;
    SCOPED_TRACE(c.name + " seed " + std::to_string(seed));
    const ProcessesResult found = train_as_processes(c.loaded, 2, seed);
    EXPECT_EQ(found.endings, Endings{});
    EXPECT_EQ(found.leaders.parameters_sha256, c.expected.parameters_sha256);
    EXPECT_EQ(losses(found.leaders), losses(c.expected));
    EXPECT_GT(found.leaders.host_per_action.value(), Seconds(0));
  });
  EXPECT_GT(runs, 50);
}

// Every gradient crosses between processes.
TEST(StreamRank, BidirectionalPlansToo) {
  const TinyModel model;
  for (const ResolvedPlan& loaded : bidirectional_plans(model)) {
    EXPECT_EQ(train_as_processes(loaded, 3, 7).leaders.parameters_sha256,
              train_waiting(loaded, 3).parameters_sha256)
        << loaded.plan.schedule;
  }
}

// Two replicas of K = 2, tied table: the losses of one pipeline with twice the micro-batches, but
// for the order of sums (fp32 carries 7 digits; after 3 steps they agree to 5); the same bits again
// in a second run.
TEST(StreamRank, ReplicasTrainAsOneWouldWithTheirMicrobatches) {
  const TinyModel model;
  Plan plan = model.plan({3}, 3);
  plan.dp = 2;
  const ProcessesResult first = train_as_processes(model.load(plan), 3, 1);
  const ProcessesResult again = train_as_processes(model.load(plan), 3, 100);
  EXPECT_EQ(first.endings, Endings{});
  EXPECT_EQ(first.leaders.parameters_sha256, again.leaders.parameters_sha256);
  plan.overlap_grad_reduce = true;  // layer by layer within the last backward: the same sums
  const ProcessesResult overlapped = train_as_processes(model.load(plan), 3, 1);
  EXPECT_EQ(overlapped.leaders.parameters_sha256, first.leaders.parameters_sha256);
  plan.overlap_grad_reduce = false;
  plan.microbatches = 6;
  plan.dp = 1;
  const RunResult one = train_waiting(model.load(plan), 3);
  for (std::size_t s = 0; s < 3; ++s)
    EXPECT_NEAR(first.leaders.steps[s].loss, one.steps[s].loss, 1e-5);
}

// Sums, squares, factor and slices of weights on streams, to the bits of processes that wait, whose
// order of additions is the same; so are the norms that steps report. Layers of 8 numbers leave the
// third replica slices without any.
TEST(StreamRank, ReplicasSumClipAndShareAsThoseThatWait) {
  const TinyModel model;
  unsigned seed = 0;
  for (const int replicas : {2, 3}) {
    for (const int zero : {0, 1, 2, 3}) {
      for (const double clip : {0.0, 0.05}) {
        for (const std::vector<int>& boundaries : {std::vector<int>{}, std::vector<int>{3}}) {
          Plan plan = model.plan(boundaries, 2);
          plan.dp = replicas;
          plan.zero = zero;
          plan.overlap_grad_reduce = zero == 0;
          plan.optimizer.clip_norm = clip;
          const ResolvedPlan loaded = model.load(plan);
          SCOPED_TRACE("D" + std::to_string(replicas) + " zero " + std::to_string(zero) + " clip " +
                       std::to_string(clip) + " K" + std::to_string(plan.pp));
          RunOptions options;
          options.steps = 2;
          options.warmup_steps = 0;
          options.trace = false;
          const RunResult expected =
              run_as_threads(
                  loaded, options, [](int) { return cpu_only(); }, copied_links())
                  .leaders;
          const ProcessesResult found = train_as_processes(loaded, 2, seed += 10);
          EXPECT_EQ(found.endings, Endings{});
          EXPECT_EQ(found.leaders.parameters_sha256, expected.parameters_sha256);
          ASSERT_EQ(found.leaders.steps.size(), 2U);
          for (std::size_t step = 0; step < 2; ++step)
            EXPECT_EQ(found.leaders.steps[step].gradient_norm, expected.steps[step].gradient_norm);
        }
      }
    }
  }
}

// Under ZeRO-3 windows, and under ZeRO-2 on gradients, come and go while steps are launched: with
// every way to re-materialise, which reads weights once more, and split backwards, of which W reads
// none.
TEST(StreamRank, ReplicasThatDivideWeightsRebuildAsThoseThatWait) {
  const TinyModel model(true, 0.1, 32, 4);
  unsigned seed = 7;
  for (const int zero : {2, 3}) {
    for (const char* schedule : {"1f1b", "zb-h1"}) {
      for (const char* recompute : {"full", "full:2", "stage", "selective"}) {
        Plan plan = model.plan({3}, 2, schedule);
        plan.slots = 0;
        plan.dp = 2;
        plan.zero = zero;
        plan.recompute = parse_recompute_word(recompute).value();
        const ResolvedPlan loaded = model.load(plan);
        SCOPED_TRACE(std::string(schedule) + " " + recompute + " zero " + std::to_string(zero));
        RunOptions options;
        options.steps = 2;
        options.warmup_steps = 0;
        options.trace = false;
        const RunResult expected =
            run_as_threads(
                loaded, options, [](int) { return cpu_only(); }, copied_links())
                .leaders;
        const ProcessesResult found = train_as_processes(loaded, 2, seed += 10);
        EXPECT_EQ(found.endings, Endings{});
        EXPECT_EQ(found.leaders.parameters_sha256, expected.parameters_sha256);
      }
    }
  }
}

// The leader's trace holds every operation of all processes, each after all that it waited for.
TEST(StreamRank, TheTraceIsWholeAndCausal) {
  const TinyModel model;
  Plan plan = model.plan({3}, 4, "zb-h1");
  plan.dp = 2;
  const ResolvedPlan loaded = model.load(plan);
  const Program& program = loaded.program;
  const RunResult result = train_as_processes(loaded, 2, 3).leaders;
  ASSERT_EQ(result.trace.spans.size(), 2 * program.size());
  for (const Span& span : result.trace.spans) {
    const auto step = static_cast<std::size_t>(span.step);
    EXPECT_GE(span.start, result.trace.steps[step].start);
    EXPECT_LE(span.end, result.trace.steps[step].end);
    for (const Dependency& before : program.predecessors(span.operation)) {
      const Span& earlier = result.trace.spans[step * program.size() + before.before.position()];
      EXPECT_GE(span.lane == LaneKind::receive ? span.end : span.start, earlier.end)
          << to_string(span.action) << " after " << to_string(earlier.action);
    }
  }
}

void expect_every_wait_to_count(const ResolvedPlan& loaded, int fewest_needed) {
  const std::string expected = train_as_processes(loaded, 2, 1).leaders.parameters_sha256;
  const ProcessesResult whole = train_as_processes(loaded, 1, 1);
  for (int process = 0; process < 2; ++process) {
    const AsyncWorld& world = *whole.devices[static_cast<std::size_t>(process)];
    const int joins = world.streams - 1;
    int needed = 0;
    for (int wait = joins; wait < world.waits - joins; ++wait) {
      const ProcessesResult found = train_as_processes(loaded, 2, 1, plain, process, wait);
      const AsyncWorld& device = *found.devices[static_cast<std::size_t>(process)];
      SCOPED_TRACE("process " + std::to_string(process) + " wait " + std::to_string(wait));
      if (device.fault_was_redundant || !device.fault_had_work_behind) {
        EXPECT_EQ(found.leaders.parameters_sha256, expected);
      } else if (!device.fault_was_beside_the_first) {
        ++needed;
        EXPECT_NE(found.leaders.parameters_sha256, expected);
      }
    }
    EXPECT_GE(needed, fewest_needed);
  }
}

// As in exec/streams/step_launcher's test: a wait that no other implies, left out with the action
// behind it late, spoils the parameters, here of either process. Not so where a receive takes the
// block that a send has left: what arrives was made from what was sent, which only the other
// process knows.
TEST(StreamRank, EveryWaitCounts) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the races that it makes are what it looks for";
#endif
  const TinyModel model;
  Plan pipeline = model.plan({3}, 3, "zb-h1");
  pipeline.slots = 0;  // a slot is an account: the block that it stands for has an event of its own
  Plan replicas = model.plan({}, 1, "zb-h1");
  replicas.dp = 2;
  replicas.overlap_grad_reduce = true;
  Plan shared = model.plan({}, 1);
  shared.dp = 2;
  shared.zero = 1;
  shared.optimizer.clip_norm = 0.05;
  // A border is crossed twice by each micro-batch; each layer with weights is summed behind its
  // backward.
  expect_every_wait_to_count(model.load(pipeline), 2 * 3);
  expect_every_wait_to_count(model.load(replicas), 5);
  // Sums wait for the gradients, updates for the norm, the exchange of weights for updates, and the
  // step's end for it.
  expect_every_wait_to_count(model.load(shared), 3);
}

// Under ZeRO-3 each layer is gathered for F and for B, and its gradients are summed: of three
// results a layer kernels wait for two, and memory is given back behind the third. Without any of
// these waits other parameters come out, or none. (A wait for a step's reductions is left over
// where every micro-batch's were awaited.)
TEST(StreamRank, KernelsWaitForWindowsAndSums) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the races that it makes are what it looks for";
#endif
  const TinyModel model;
  Plan plan = model.plan({}, 1);
  plan.dp = 2;
  plan.zero = 3;
  const ResolvedPlan loaded = model.load(plan);
  const auto layers = static_cast<int>(loaded.model.layers.size());
  const std::string expected = train_as_processes(loaded, 2, 1).leaders.parameters_sha256;
  const ProcessesResult whole = train_as_processes(loaded, 1, 1);
  for (int process = 0; process < 2; ++process) {
    int counted = 0;
    for (int wait = 0; wait < whole.devices[static_cast<std::size_t>(process)]->waits; ++wait) {
      const ProcessesResult found = train_as_processes(loaded, 2, 1, plain, process, wait);
      counted += static_cast<int>(found.leaders.parameters_sha256 != expected);
    }
    EXPECT_GE(counted, 3 * layers) << process;
  }
}

// One process fails while it launches: the other waits for a message that never comes, and both
// end, alike.
TEST(StreamRank, AFailureEndsAll) {
  class Failing : public AsyncBackend {
   public:
    using AsyncBackend::AsyncBackend;
    void backward_weight(const LayerCall&) override {
      throw RunFailed("the device fell off the bus");
    }
  };
  const TinyModel model;
  for (int failing = 0; failing < 2; ++failing) {
    const MakeBackends make = [failing](int process,
                                        const std::shared_ptr<AsyncWorld>& world) -> Backends {
      if (process != failing) return asynchronous(world);
      return {
          {BackendKind::cuda, [world](const BackendRequest& request) -> std::unique_ptr<Backend> {
             return std::make_unique<Failing>(request, world);
           }}};
    };
    EXPECT_EQ(train_as_processes(model.load(model.plan({3}, 4)), 2, 1, make).endings,
              Endings({{EndKind::failed, "the device fell off the bus"}}));
  }
}

// A backend without a stream cannot launch.
TEST(StreamRank, NeedsABackendThatLaunches) {
  const TinyModel model;
  const MakeBackends make = [](int, const std::shared_ptr<AsyncWorld>&) -> Backends {
    return {{BackendKind::cuda, make_cpu_backend}};
  };
  const Endings endings = train_as_processes(model.load(model.plan({3}, 4)), 1, 1, make).endings;
  ASSERT_EQ(endings.size(), 1U);
  EXPECT_EQ(endings.begin()->first, EndKind::usage);
}

}  // namespace
}  // namespace weir::stream_rank_test
