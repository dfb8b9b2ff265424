// Replicas and devices that divide layers as threads of one process: the bits of processes, and the
// ends of threads that fail.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/threads/threaded_run.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <thread>
#include <tuple>

#include "exec/processes/threads/thread_group.hpp"
#include "plan/job/summary.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/mesh_training.hpp"
#include "tests/exec/peaks.hpp"

namespace weir::threaded_run_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Grid {
  int tp, dp, zero;
  std::vector<int> boundaries;
  const char* schedule;
};

Plan plan_of(const TinyModel& model, const Grid& grid) {
  Plan plan = model.plan(grid.boundaries, 4, grid.schedule);
  plan.tp = grid.tp;
  plan.dp = grid.dp;
  plan.zero = grid.zero;
  plan.optimizer.learning_rate = 1e-3;
  return plan;
}

// `trained` has processes with messages of their own; sums are taken in the order of places and
// replicas by both, so nothing may differ. Two slots an edge: messages are held up and let go.
TEST(ThreadedRun, GivesTheBitsOfProcesses) {
  const TinyModel model(true, 0.1, 37);
  for (const Grid& grid : {Grid{2, 1, 0, {}, "gpipe"}, Grid{2, 1, 0, {1, 3}, "zb-h1"},
                           Grid{1, 3, 0, {2}, "1f1b"}, Grid{2, 2, 1, {2}, "1f1b"}}) {
    SCOPED_TRACE(fmt::format("T{} D{} zero {} {}", grid.tp, grid.dp, grid.zero, grid.schedule));
    const Plan plan = plan_of(model, grid);
    const RunResult processes = trained(model, plan, steps(3));
    const RunResult threads = run_in_one_process(model.load(plan), steps(3), cpu_only());
    EXPECT_EQ(threads.parameters_sha256, processes.parameters_sha256);
    ASSERT_EQ(threads.steps.size(), processes.steps.size());
    for (std::size_t i = 0; i < threads.steps.size(); ++i)
      EXPECT_EQ(threads.steps[i].loss, processes.steps[i].loss);
  }
}

// Each operation of the first pipeline is in the trace, later than what it waits for.
TEST(ThreadedRun, ItsTraceIsOfTheFirstPipeline) {
  const TinyModel model;
  const Plan plan = plan_of(model, {2, 1, 0, {2}, "1f1b"});
  const ResolvedPlan loaded = model.load(plan);
  RunOptions options = steps(2);
  options.trace = true;
  const RunResult result = run_in_one_process(loaded, options, cpu_only());
  const Program& program = loaded.program;
  ASSERT_EQ(result.trace.spans.size(), 2 * program.size());
  for (const OperationId id : program.ids()) {
    for (const Dependency& before : program.predecessors(id)) {
      const Span& earlier = result.trace.spans[before.before.position()];
      const Span& later = result.trace.spans[id.position()];
      EXPECT_GE(later.end, earlier.end) << to_string(later.action);
    }
  }
  EXPECT_THAT(result.trace.info.at("processes"), HasSubstr("threads of one process"));
  EXPECT_EQ(result.peak_memory.size(), 2U);
}

// Devices divide two stages of a tied model, the embedding on one alone: the peaks are the
// forecast's for the same spans. The sum of the tied table's gradients, which is there when nothing
// else is, takes a piece of another rank's at a time; as a whole it would be the peak.
TEST(ThreadedRun, ItsPeaksAreTheForecasts) {
  const TinyModel model(true, 0.1, 4000);
  for (const bool sequence_parallel : {false, true}) {
    for (const int boundary : {1, 2}) {
      Plan plan = plan_of(model, {2, 1, 0, {boundary}, "1f1b"});
      plan.sequence_parallel = sequence_parallel;
      const ResolvedPlan loaded = model.load(plan);
      const RunResult result = run_in_one_process(loaded, traced_steps(2), cpu_only());
      const auto peaks = peaks_of_all_steps(loaded, result);
      ASSERT_EQ(result.peak_memory.size(), peaks.size());
      for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
        const auto measured = static_cast<double>(result.peak_memory[rank].count());
        // One message more or less, for timing.
        const auto message = static_cast<double>(plan.micro_batch_size * plan.seq_length * 16 * 4);
        EXPECT_NEAR(static_cast<double>(peaks[rank].peak.count()), measured,
                    0.01 * measured + message)
            << summary(plan) << " rank " << rank;
      }
    }
  }
}

TEST(ThreadedRun, OnePipelineIsRunAsEver) {
  const TinyModel model;
  const Plan plan = plan_of(model, {1, 1, 0, {2}, "1f1b"});
  EXPECT_EQ(run_in_one_process(model.load(plan), steps(2), cpu_only()).parameters_sha256,
            run(model.load(plan), steps(2), cpu_only()).parameters_sha256);
}

// Files have no T and no D, and whoever writes them waits for nobody that is gone.
TEST(ThreadedRun, ACheckpointGoesOn) {
  const TinyModel model(true, 0.1, 37);
  const Plan plan = plan_of(model, {2, 1, 0, {2}, "1f1b"});
  const RunResult whole = run_in_one_process(model.load(plan), steps(3), cpu_only());
  RunOptions options = steps(2);
  options.output = own_folder() / "out";
  options.checkpoint_every = 2;
  static_cast<void>(run_in_one_process(model.load(plan), options, cpu_only()));
  RunOptions on = steps(1);
  on.resume = own_folder() / "out";
  EXPECT_EQ(run_in_one_process(model.load(plan), on, cpu_only()).parameters_sha256,
            whole.parameters_sha256);
}

// As the cpu backend, whose device of number `seat` fails in its fourth allocation after it was
// prepared: the others are then at a sum, a message or a barrier.
Backends failing_at(int seat) {
  const auto make = [seat](const BackendRequest& request) -> std::unique_ptr<Backend> {
    struct Failing : Backend {
      Failing(const BackendRequest& of, bool failing)
          : real(make_cpu_backend(of)), fails(failing) {}
      void* allocate(std::int64_t bytes) override { return real->allocate(bytes); }
      void release(void* block, std::int64_t bytes) noexcept override {
        real->release(block, bytes);
      }
      void prepare(std::span<const Layer> layers, std::int64_t batch, std::int64_t s) override {
        real->prepare(layers, batch, s);
      }
      std::int64_t scratch_bytes() const override { return real->scratch_bytes(); }
      void use_scratch(const Tensor& scratch) override { real->use_scratch(scratch); }
      void forward(const LayerCall& call) override {
        if (fails && ++passes == 4) throw std::runtime_error("the device fell off the bus");
        real->forward(call);
      }
      void backward_input(const LayerCall& call) override { real->backward_input(call); }
      void backward_weight(const LayerCall& call) override { real->backward_weight(call); }
      void update(std::span<const UpdateCall> calls) override { real->update(calls); }
      void finish() override {}
      bool in_host_memory() const override { return true; }
      void to_device(const Tensor& to, const void* from, std::int64_t bytes) override {
        real->to_device(to, from, bytes);
      }
      void to_host(void* to, const Tensor& from, std::int64_t bytes) override {
        real->to_host(to, from, bytes);
      }
      std::unique_ptr<Backend> real;
      bool fails;
      int passes = 0;
    };
    return std::make_unique<Failing>(request, request.rank == seat);
  };
  return {{BackendKind::cpu, make}};
}

// K T D = 2 * 2 * 2: thread (d T + t) K + k. The first stage has embedding and a block, so the
// fourth pass is in its second forward; the last has two blocks, norm and head, all of its first.
TEST(ThreadedRun, OneThatFailsEndsTheOthersWithinSeconds) {
  const TinyModel model(true, 0.1, 37);
  const ResolvedPlan loaded = model.load(plan_of(model, {2, 2, 0, {2}, "1f1b"}));
  for (const auto& [thread, place] :
       {std::tuple{0, "replica 0, tensor 0, rank 0, step 0, 0F1: the device"},
        std::tuple{7, "replica 1, tensor 1, rank 1, step 0, 1F0: the device"}}) {
    const auto began = std::chrono::steady_clock::now();
    try {
      static_cast<void>(run_in_one_process(loaded, steps(3), failing_at(thread)));
      ADD_FAILURE() << "thread " << thread << " did not fail";
    } catch (const RunFailed& failed) {
      EXPECT_THAT(failed.what(), StartsWith(place));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  }
}

TEST(ThreadedRun, BadInputIsToldAsSuch) {
  const TinyModel model;
  RunOptions options = steps(1);
  options.data = {own_folder() / "nowhere.txt"};
  EXPECT_THROW(static_cast<void>(run_in_one_process(
                   model.load(plan_of(model, {2, 1, 0, {}, "gpipe"})), options, cpu_only())),
               InputError);
}

// Messages of one line come in order, whoever waits for them first; a receive may come before its
// send. With a core each the threads spin, without they sleep: both.
TEST(ThreadGroup, DeliversInOrder) {
  for (const int cores : {1, 2}) {
    ThreadGroup group(2, cores);
    EXPECT_EQ(group.oversubscribed(), cores == 1);
    std::thread sender([&] {
      const auto own = group.member(0);
      for (std::byte value{0}; value < std::byte{100};
           value = std::byte(std::to_integer<int>(value) + 1))
        own->wait(own->start_send(1, 7, std::span(&value, 1)));
      own->barrier();
      group.leave();
    });
    const auto own = group.member(1);
    std::vector<std::byte> got(100);
    std::vector<Processes::Ticket> tickets;
    for (std::byte& each : got) tickets.push_back(own->start_receive(0, 7, std::span(&each, 1)));
    for (std::size_t i = tickets.size(); i-- > 0;) own->wait(tickets[i]);
    own->barrier();
    group.leave();
    sender.join();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], std::byte(i)) << i;
  }
}

}  // namespace
}  // namespace weir::threaded_run_test
