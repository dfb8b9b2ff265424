// One rank a process gives what one rank a thread gives, to the last bit. Every process runs these
// tests in step; the leader, which has the whole result, also runs the plan by threads and
// compares.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "exec/processes/all_gather.hpp"
#include "exec/processes/threads/threaded_run.hpp"
#include "plan/words/error.hpp"
#include "sim/engine/event_engine.hpp"
#include "tests/exec/replay.hpp"
#include "tests/exec_processes/started.hpp"

namespace weir {
namespace {

// The ways to cut the tiny model's five layers (embedding, 3 blocks, head) for K processes and v
// chunks.
std::vector<int> cut(int stages) {
  if (stages == 1) return {};
  if (stages == 2) return {2};
  if (stages == 3) return {1, 3};
  if (stages == 4) return {1, 2, 4};
  return {1, 2, 3, 4, 5, 6, 7};  // 8 stages of the deeper model
}

struct Case {
  const char* schedule;
  int vpp = 1;
  RecomputeMode recompute = RecomputeMode::none;
  int slots = 2;
};

Plan plan_of(const TinyModel& model, const Case& c, int k) {
  Plan plan = model.plan(cut(k * c.vpp), 6, c.schedule);
  plan.pp = k;
  plan.vpp = c.vpp;
  plan.slots = c.slots;
  plan.recompute.mode = c.recompute;
  return plan;
}

// Process p gives p times 100,000 of its letter, none of them where p is 0, twice over.
TEST(Processes, EveryTextReachesEveryProcess) {
  const auto text = [](int process) {
    return std::string(static_cast<std::size_t>(process) * 100'000,
                       static_cast<char>('a' + process));
  };
  for (int round = 0; round < 2; ++round) {
    const std::vector<std::string> all = all_gather(processes(), text(processes().index()));
    ASSERT_EQ(std::ssize(all), processes().count());
    for (int process = 0; process < processes().count(); ++process)
      EXPECT_EQ(all[static_cast<std::size_t>(process)], text(process));
  }
}

// GPipe, 1F1B, zero bubble and interleaved chunks, tied table, dropout on.
TEST(Processes, ParametersAreBitwiseThoseOfThreads) {
  const int k = processes().count();
  const TinyModel model(true, 0.1, 32, 6);
  RunOptions options;
  options.steps = 2;
  for (const Case& c :
       {Case{"gpipe"}, Case{"gpipe", 1, RecomputeMode::stage}, Case{"1f1b"},
        Case{"1f1b", 1, RecomputeMode::stage, 1}, Case{"zb-h1"},
        Case{"zb-h1", 1, RecomputeMode::full}, Case{"interleaved-1f1b", 2, RecomputeMode::none, 0},
        Case{"zb-v", 2, RecomputeMode::stage, 0}}) {
    if (k == 1 && c.vpp > 1) continue;
    if (k == 3 && c.vpp > 1) continue;  // six stages have no cut here
    SCOPED_TRACE(fmt::format("{} {}", c.schedule, to_string(c.recompute)));
    const ResolvedPlan loaded = model.load(plan_of(model, c, k));
    const RunResult here = run_here(loaded, options);
    if (processes().index() != 0) continue;
    const RunResult threads = run(loaded, options, cpu_only());
    EXPECT_EQ(here.parameters_sha256, threads.parameters_sha256);
    ASSERT_EQ(here.steps.size(), threads.steps.size());
    for (std::size_t s = 0; s < here.steps.size(); ++s)
      EXPECT_EQ(here.steps[s].loss, threads.steps[s].loss);
    EXPECT_EQ(here.peak_memory.size(), static_cast<std::size_t>(k));
    EXPECT_EQ(here.trace.spans.size(), threads.trace.spans.size());
  }
}

// The whole trace on the leader is a possible one: every dependency of the program holds between
// spans that different processes measured, and the engine that replays durations and gaps gives the
// measured end again.
TEST(Processes, TheTraceIsWholeAndCausal) {
  const int k = processes().count();
  const TinyModel model(true, 0.1, 256, 6);
  const ResolvedPlan loaded = model.load(plan_of(model, {"1f1b"}, k));
  const Program& program = loaded.program;
  const RunResult result = run_here(loaded, {});
  if (processes().index() != 0) return;
  EXPECT_EQ(result.trace.info.at("clock"), "one clock");  // all on this host
  ASSERT_EQ(result.trace.spans.size(), 3 * program.size());
  for (std::size_t i = 0; i < result.trace.spans.size(); ++i) {
    const std::size_t step = i / program.size(), id = i % program.size();
    const Span& later = result.trace.spans[i];
    EXPECT_GE(later.start, result.trace.steps[step].start);
    EXPECT_LE(later.end, result.trace.steps[step].end);
    for (const Dependency& before : program.predecessors(OperationId{id})) {
      const Span& earlier = result.trace.spans[step * program.size() + before.before.position()];
      EXPECT_GE(later.lane == LaneKind::receive ? later.end : later.start, earlier.end)
          << to_string(later.action) << " after " << to_string(earlier.action);
    }
  }
  for (std::int32_t step = 0; step < 3; ++step) {
    std::int64_t last = 0;
    for (const Span& span : result.trace.spans) {
      if (span.step == step) last = std::max(last, span.end.count());
    }
    const auto timing =
        simulate(program, replay_costs(program, result.trace, step, ReplayGaps::keep));
    EXPECT_EQ(std::get<Timing>(timing).makespan.count(),
              last - result.trace.steps[static_cast<std::size_t>(step)].start.count());
  }
}

TEST(Processes, TimedWaitsRunInThePlannedOrder) {
  const int k = processes().count();
  const TinyModel model(true, 0.0, 32, 6);
  const ResolvedPlan loaded = model.load(plan_of(model, {"1f1b"}, k));
  const Program& program = loaded.program;
  RunOptions options;
  options.backend = BackendKind::synthetic;
  options.synthetic_duration_ns.assign(program.size(), 100'000);
  const RunResult result = run_here(loaded, options);
  if (processes().index() != 0) return;
  EXPECT_EQ(result.steps.size(), 4U);
  // 6 forwards and 6 backwards of 100 us on each rank, after at least K-1 of the ranks before it.
  EXPECT_GE(result.step_time.count(), (12 + 2 * (k - 1)) * 100e-6);
}

// D replicas of K = count / D ranks: samples and masks are those of one pipeline with D times the
// micro-batches, only sums are taken in another order. fp32 carries 7 digits; the losses of 4 steps
// agree to 5.
TEST(Processes, ReplicasTrainAsOneWouldWithTheirMicrobatches) {
  const int count = processes().count();
  if (count % 2 != 0) GTEST_SKIP() << "an odd number of processes";
  const TinyModel model;
  Plan plan = plan_of(model, {"1f1b"}, count / 2);
  plan.microbatches = 3;
  plan.dp = 2;
  RunOptions options;
  options.steps = 3;
  const RunResult first = run_here(model.load(plan), options);
  const RunResult again = run_here(model.load(plan), options);
  plan.overlap_grad_reduce = true;  // layer by layer within the last backward: the same sums
  const RunResult overlapped = run_here(model.load(plan), options);
  plan.overlap_grad_reduce = false;
  plan.zero = 1;  // each updates its share: the same bits
  const RunResult shared = run_here(model.load(plan), options);
  plan.zero = 0;
  if (processes().index() != 0) return;
  EXPECT_EQ(first.parameters_sha256, again.parameters_sha256);
  EXPECT_EQ(first.parameters_sha256, overlapped.parameters_sha256);
  EXPECT_EQ(first.parameters_sha256, shared.parameters_sha256);
  EXPECT_EQ(first.parameters_sha256,
            run_in_one_process(model.load(plan), options, cpu_only()).parameters_sha256);
  plan.microbatches = 6;
  plan.dp = 1;
  const RunResult one = run(model.load(plan), options, cpu_only());
  for (std::size_t s = 0; s < one.steps.size(); ++s)
    EXPECT_NEAR(first.steps[s].loss, one.steps[s].loss, 1e-5);
  EXPECT_EQ(first.trace.ranks, count / 2);
}

// Replicas that keep their slices of gradients, and of weights, which they gather pass by pass: the
// same bits with both, however the pipeline is cut and rebuilt, by processes and by threads. Those
// of ZeRO-1 where a replica has one micro-batch; with three each, sums are taken in another order.
TEST(Processes, ReplicasDivideGradientsAndWeights) {
  const int count = processes().count();
  if (count % 2 != 0) GTEST_SKIP() << "an odd number of processes";
  const TinyModel model(true, 0.1, 37, 5);
  RunOptions options;
  options.steps = 3;
  for (const int microbatches : {1, 3}) {
    Plan plan = plan_of(model, {"1f1b"}, count / 2);
    plan.dp = 2;
    plan.microbatches = microbatches;
    plan.optimizer.clip_norm = 0.5;
    plan.zero = 1;
    const RunResult one = run_here(model.load(plan), options);
    plan.zero = 2;
    const RunResult two = run_here(model.load(plan), options);
    plan.zero = 3;
    plan.recompute = parse_recompute_word("full:2").value();
    const RunResult three = run_here(model.load(plan), options);
    if (processes().index() != 0) continue;
    EXPECT_EQ(two.parameters_sha256, three.parameters_sha256);
    EXPECT_EQ(three.parameters_sha256,
              run_in_one_process(model.load(plan), options, cpu_only()).parameters_sha256);
    if (microbatches == 1) {
      EXPECT_EQ(one.parameters_sha256, three.parameters_sha256);
    }
    for (std::size_t s = 0; s < one.steps.size(); ++s)
      EXPECT_NEAR(three.steps[s].loss, one.steps[s].loss, 1e-6);
  }
}

// T = 2 devices divide each layer of K = count / 2 ranks, and under sequence parallelism the rows
// between: sums of two parts, so losses agree to 5 digits, and repeat to the last bit.
TEST(Processes, DividedLayersTrainAsWholeOnes) {
  const int count = processes().count();
  if (count % 2 != 0) GTEST_SKIP() << "an odd number of processes";
  const TinyModel model(true, 0.1, 37);
  const Plan whole = plan_of(model, {"1f1b"}, count / 2);
  RunOptions options;
  options.steps = 3;
  for (const bool sequence_parallel : {false, true}) {
    Plan plan = whole;
    plan.tp = 2;
    plan.sequence_parallel = sequence_parallel;
    const RunResult first = run_here(model.load(plan), options);
    const RunResult again = run_here(model.load(plan), options);
    if (processes().index() != 0) continue;
    EXPECT_EQ(first.parameters_sha256, again.parameters_sha256);
    // Threads add in the order of places too.
    EXPECT_EQ(first.parameters_sha256,
              run_in_one_process(model.load(plan), options, cpu_only()).parameters_sha256);
    const RunResult one = run(model.load(whole), options, cpu_only());
    ASSERT_EQ(first.steps.size(), one.steps.size());
    for (std::size_t s = 0; s < one.steps.size(); ++s)
      EXPECT_NEAR(first.steps[s].loss, one.steps[s].loss, 1e-5);
    EXPECT_EQ(first.peak_memory.size(), static_cast<std::size_t>(count / 2));
  }
}

}  // namespace
}  // namespace weir
