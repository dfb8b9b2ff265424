// One thread launches for all ranks, and events alone make order: the same parameters as when every
// rank waits, to the last bit, however the streams dawdle.
// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/step_launcher.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "plan/words/error.hpp"
#include "tests/exec/streams/async_backend.hpp"
#include "tests/exec/streams/launch_cases.hpp"

namespace weir::step_launcher_test {
namespace {

struct Case {
  const char* schedule;
  int vpp;
  std::vector<int> boundaries;
};

Plan plan_of(const TinyModel& model, const Case& c, int microbatches) {
  Plan plan = model.plan(c.boundaries, microbatches, c.schedule);
  plan.pp = static_cast<int>(c.boundaries.size() + 1) / c.vpp;
  plan.vpp = c.vpp;
  return plan;
}

RunResult train(const ResolvedPlan& loaded, const Backends& backends, int steps,
                bool graphs = false) {
  RunOptions options;
  options.backend = backends.begin()->first;
  options.steps = steps;
  options.warmup_steps = 0;
  options.graphs = graphs ? Graphs::always : Graphs::never;
  return run(loaded, options, backends);
}

// On one device, where messages are handed over, and with a device a rank, where they are copied.
TEST(StepLauncher, ParametersAreThoseOfRanksThatWait) {
  unsigned seed = 0;
  int copies = 0;
  const int runs = for_each_launch_case(TinyModel(), 2, [&](const LaunchCase& c) {
    for (const int ranks_a_device : {4, 1}) {
      SCOPED_TRACE(c.name + " seed " + std::to_string(++seed));
      const auto world = std::make_shared<AsyncWorld>(
          AsyncOptions{.seed = seed, .ranks_a_device = ranks_a_device});
      const RunResult found = train(c.loaded, asynchronous(world), 2);
      EXPECT_EQ(found.parameters_sha256, c.expected.parameters_sha256);
      EXPECT_EQ(losses(found), losses(c.expected));
      copies += world->copies;
    }
  });
  EXPECT_GT(copies, 0);
  EXPECT_GT(runs, 50);
}

// Partial sums, but the same bits as ranks that wait.
TEST(StepLauncher, BidirectionalPlansToo) {
  const TinyModel model;
  for (const ResolvedPlan& loaded : bidirectional_plans(model)) {
    for (const int ranks_a_device : {2, 1}) {
      const auto world =
          std::make_shared<AsyncWorld>(AsyncOptions{.seed = 7, .ranks_a_device = ranks_a_device});
      EXPECT_EQ(train(loaded, asynchronous(world), 3).parameters_sha256,
                train_waiting(loaded, 3).parameters_sha256)
          << loaded.plan.schedule;
    }
  }
}

// Squares on each rank's stream, the factor on all: the bits and the norms of ranks that wait, on
// one device and with a device a rank; recorded and repeated too.
TEST(StepLauncher, GradientsAreClippedAsByRanksThatWait) {
  const TinyModel model;
  unsigned seed = 0;
  for (const Case& c :
       {Case{"gpipe", 1, {}}, Case{"1f1b", 1, {1, 3}}, Case{"v-half", 2, {1, 3, 4}}}) {
    Plan plan = plan_of(model, c, 4);
    plan.slots = 0;
    plan.optimizer.clip_norm = 0.05;  // below the tiny model's norm, of about 1
    const ResolvedPlan loaded = model.load(plan);
    const RunResult expected = train_waiting(loaded, 4);
    for (const bool graphs : {false, true}) {
      for (const int ranks_a_device : {4, 1}) {
        if (graphs && ranks_a_device == 1) continue;  // a graph is one device's
        SCOPED_TRACE(std::string(c.schedule) + " seed " + std::to_string(++seed));
        const auto world = std::make_shared<AsyncWorld>(
            AsyncOptions{.seed = seed, .ranks_a_device = ranks_a_device});
        const RunResult found = train(loaded, asynchronous(world), 4, graphs);
        EXPECT_EQ(found.parameters_sha256, expected.parameters_sha256);
        for (std::size_t step = 0; step < 4; ++step)
          EXPECT_EQ(found.steps[step].gradient_norm, expected.steps[step].gradient_norm);
      }
    }
  }
}

// The parameters' hash; or, where what was read too early is no number, how the run ended.
std::string hash_or_fault(const ResolvedPlan& loaded, const std::shared_ptr<AsyncWorld>& world) {
  try {
    return train(loaded, asynchronous(world), 2).parameters_sha256;
  } catch (const std::exception& fault) {
    return fault.what();
  }
}

// Every wait that no other wait implies is one that the parameters need: left out, with the action
// behind it late, they come out wrong; after two steps, since the copy of a tied weight that is
// wrong shows a step later. The first waits of a step (streams begin together) and the last (it
// ends for all) order nothing here, because the host waits for every step.
TEST(StepLauncher, EveryWaitCounts) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the races that it makes are what it looks for";
#endif
  const TinyModel model;
  const struct {
    const char* schedule;
    std::vector<int> boundaries;
    int microbatches, ranks_a_device;
  } cases[] = {{"zb-h1", {2, 4}, 2, 3}, {"zb-h1", {2, 4}, 2, 1}, {"gpipe", {3}, 4, 1}};
  for (const auto& c : cases) {
    Plan plan = model.plan(c.boundaries, c.microbatches, c.schedule);
    plan.slots = 0;  // a slot is an account: the block that it stands for has an event of its own
    const ResolvedPlan loaded = model.load(plan);
    const std::string expected = train(loaded, cpu_only(), 2).parameters_sha256;
    const auto world =
        std::make_shared<AsyncWorld>(AsyncOptions{.ranks_a_device = c.ranks_a_device});
    static_cast<void>(train(loaded, asynchronous(world), 1));
    const int joins = world->streams - 1;
    int needed = 0;
    for (int wait = joins; wait < world->waits - joins; ++wait) {
      const auto faulty = std::make_shared<AsyncWorld>(
          AsyncOptions{.ranks_a_device = c.ranks_a_device, .left_out_wait = wait});
      const std::string found = hash_or_fault(loaded, faulty);
      if (faulty->fault_was_redundant) {
        EXPECT_EQ(found, expected) << c.schedule << " wait " << wait;
      } else {
        ++needed;
        EXPECT_NE(found, expected) << c.schedule << " wait " << wait;
      }
    }
    EXPECT_GE(needed, 2 * c.microbatches *
                          static_cast<int>(c.boundaries.size()));  // a border is crossed twice
  }
}

// A step recorded once and repeated: five steps have the bits of five launched ones, dropout and
// Adam included.
TEST(StepLauncher, ARecordedStepRepeats) {
  const TinyModel model;
  for (const Case& c :
       {Case{"1f1b", 1, {}}, Case{"1f1b", 1, {1, 3}}, Case{"interleaved-1f1b", 2, {1, 3, 4}}}) {
    const ResolvedPlan loaded = model.load(plan_of(model, c, 4));
    const RunResult expected = train(loaded, cpu_only(), 5);
    for (const int ranks_a_device : {4, 1}) {
      const auto world =
          std::make_shared<AsyncWorld>(AsyncOptions{.seed = 5, .ranks_a_device = ranks_a_device});
      const RunResult found = train(loaded, asynchronous(world), 5, true);
      EXPECT_EQ(found.parameters_sha256, expected.parameters_sha256) << c.schedule;
      EXPECT_EQ(losses(found), losses(expected)) << c.schedule;
      EXPECT_EQ(world->replays, 4);
      for (std::size_t step = 1; step < 5; ++step)
        EXPECT_EQ(found.steps[step].allocations, 0) << c.schedule;
    }
  }
}

// Measured times are the streams': actions of a rank one after the other, each after all that it
// waited for, within the step; recorded steps have times of their own. The host's share is given.
TEST(StepLauncher, TheTraceIsTheStreams) {
  const TinyModel model;
  Plan plan = model.plan({1, 3}, 4, "zb-h1");
  const ResolvedPlan loaded = model.load(plan);
  const Program& program = loaded.program;
  for (const int ranks_a_device : {3, 1}) {
    const auto world = std::make_shared<AsyncWorld>(AsyncOptions{.ranks_a_device = ranks_a_device});
    const RunResult result = train(loaded, asynchronous(world), 3, true);
    ASSERT_EQ(result.trace.spans.size(), 3 * program.size());
    EXPECT_GT(result.host_per_action.value(), Seconds(0));
    for (const Span& span : result.trace.spans) {
      const auto step = static_cast<std::size_t>(span.step);
      const auto of = [&](OperationId id) -> const Span& {
        return result.trace.spans[step * program.size() + id.position()];
      };
      EXPECT_GE(span.start, result.trace.steps[step].start);
      EXPECT_LE(span.end, result.trace.steps[step].end);
      EXPECT_LE(span.start, span.end);
      if (span.lane == LaneKind::compute &&
          ranks_a_device == 3) {  // one clock: nothing had to be mended
        EXPECT_LT(span.start, span.end) << to_string(span.action);
      }
      if (span.operation > program.lane_of(span.operation).first &&
          span.lane != LaneKind::receive) {
        EXPECT_GE(span.start, of(span.operation - 1).end) << to_string(span.action);
      }
      for (const Dependency& before : program.predecessors(span.operation)) {
        EXPECT_GE(span.lane == LaneKind::receive ? span.end : span.start, of(before.before).end)
            << to_string(span.action);
      }
    }
    // Both borders, both ways, four micro-batches; launched once and recorded once.
    EXPECT_EQ(world->copies, ranks_a_device == 1 ? 2 * 2 * 2 * 4 : 0);
  }
}

TEST(StepLauncher, AFailedLaunchComesOut) {
  class Failing : public AsyncBackend {
   public:
    using AsyncBackend::AsyncBackend;
    void backward_weight(const LayerCall&) override {
      throw RunFailed("the device fell off the bus");
    }
  };
  const TinyModel model;
  const auto world = std::make_shared<AsyncWorld>(AsyncOptions{});
  const Backends backends{
      {BackendKind::cuda, [&](const BackendRequest& request) -> std::unique_ptr<Backend> {
         if (request.rank == 0) return std::make_unique<AsyncBackend>(request, world);
         return std::make_unique<Failing>(request, world);
       }}};
  EXPECT_THROW(static_cast<void>(train(model.load(model.plan({3}, 4)), backends, 2)), RunFailed);
}

TEST(StepLauncher, OnlyLaunchesCanBeRepeated) {
  const TinyModel model;
  EXPECT_THROW(static_cast<void>(train(model.load(model.plan({}, 1)), cpu_only(), 2, true)),
               UsageError);
}

}  // namespace
}  // namespace weir::step_launcher_test
