// A run that records kernels, on a device of the tests: every piece of work is found again, within
// the action that launched it, though the recorder's clock is another.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>

#include "exec/device/kernel_watch.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/streams/async_backend.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::kernels_run_test {
namespace {

// Notes the passes that the streams run, by a clock that is a day ahead.
class PassWatch : public KernelWatch {
 public:
  void begin_step(std::int32_t step) override {
    recording_ = true;
    step_ = step;
  }
  void begin_action(std::string_view name) override { action_ = name; }
  void end_action() override { action_.clear(); }
  KernelRecords stop() override {
    recording_ = false;
    const std::scoped_lock lock(mutex_);
    return std::exchange(recorded_, {});
  }

  AsyncWorld::Ran launched() {
    if (!recording_) return nullptr;
    return [this, step = step_, action = action_](auto start, auto end) {
      const auto at = [](auto time) {
        return Nanoseconds(time.time_since_epoch()) + std::chrono::hours(24);
      };
      const std::scoped_lock lock(mutex_);
      if (action.empty()) {
        ++recorded_.outside;
      } else {
        recorded_.records.push_back(
            {"pass of " + action, DeviceWork::kernel, step, action, at(start), at(end)});
      }
    };
  }

 private:
  bool recording_ = false;  // the launching thread's, like the two below
  std::int32_t step_ = 0;
  std::string action_;
  std::mutex mutex_;
  KernelRecords recorded_;
};

RunResult record(const ResolvedPlan& loaded, int ranks_a_device) {
  AsyncOptions options;
  options.ranks_a_device = ranks_a_device;
  const auto world = std::make_shared<AsyncWorld>(options);
  PassWatch watch;
  world->watch = &watch;
  world->launched_work = [&watch] { return watch.launched(); };
  RunOptions run_options;
  run_options.backend = BackendKind::cuda;
  run_options.steps = 2;
  run_options.warmup_steps = 1;
  run_options.kernels = true;
  return run(loaded, run_options, asynchronous(world));
}

// A kernel per pass of a layer. Events and passes are timed by one clock, one after the other on
// one thread, so on one device a pass lies within its events exactly and the two clocks cannot
// contradict each other. The clocks of two devices agree as well as the host was left alone while
// it read them, and the trace cuts off by how much they do not: there a pass lies within its action
// but for the overhang that is stated.
TEST(RunWithKernels, EveryPassIsFoundWithinItsAction) {
  const TinyModel model;
  const ResolvedPlan loaded = model.load(model.plan({3}, 4, "1f1b"));
  for (const int ranks_a_device : {2, 1}) {
    const RunResult result = record(loaded, ranks_a_device);
    ASSERT_TRUE(result.kernels.has_value());
    const Nanoseconds beyond = result.kernels->overhang;
    if (ranks_a_device == 2) {
      EXPECT_EQ(beyond, Nanoseconds(0));
    }
    std::map<std::size_t, int> passes;  // by action
    for (const KernelSpan& kernel : result.kernels->spans) {
      const Span& action = result.trace.spans[kernel.action];
      ++passes[kernel.action];
      EXPECT_EQ(kernel.name, "pass of " + to_string(action.action));
      EXPECT_GE(kernel.start, action.start - beyond - Nanoseconds(1));  // halves are rounded
      EXPECT_LE(kernel.end, action.end + beyond + Nanoseconds(1));
    }
    int copies = 0;
    for (std::size_t i = 0; i < result.trace.spans.size(); ++i) {
      const Span& span = result.trace.spans[i];
      if (span.lane == LaneKind::compute) {
        EXPECT_GT(passes[i], 0) << to_string(span.action) << " step " << span.step;
      } else if (span.lane == LaneKind::send) {
        copies += passes[i];
      } else {
        EXPECT_EQ(passes[i], 0) << to_string(span.action);
      }
    }
    EXPECT_EQ(copies, ranks_a_device == 1 ? 2 * 2 * 4 : 0);  // steps, directions, micro-batches
    EXPECT_EQ(result.kernels->outside, 2 * 2);  // the step's number, sent to each rank in each step
  }
}

std::string usage_error(const RunOptions& options, const Backends& backends) {
  const TinyModel model;
  try {
    static_cast<void>(run(model.load(model.plan({}, 4)), options, backends));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

// Refused before a device is asked for.
TEST(RunWithKernels, WhereTheyCannotBeRecordedTheRunIsRefused) {
  RunOptions options;
  options.kernels = true;
  EXPECT_EQ(usage_error(options, cpu_only()),
            "kernels: what a GPU runs is recorded; the cpu backend has no GPU");
  options.backend = BackendKind::cuda;
  options.graphs = Graphs::always;
  EXPECT_EQ(usage_error(options, {}),
            "kernels and graphs exclude each other: a graph is launched as one, so none of its "
            "kernels is known by "
            "the action it belongs to");
  options.graphs = Graphs::never;
  options.trace = false;
  EXPECT_EQ(usage_error(options, {}),
            "kernels are recorded for the actions of a trace: it cannot be left out");
}

TEST(RunWithKernels, WithoutBeingAskedThereAreNone) {
  const TinyModel model;
  RunOptions options;
  options.steps = 1;
  EXPECT_FALSE(run(model.load(model.plan({}, 4)), options, cpu_only()).kernels.has_value());
}

}  // namespace
}  // namespace weir::kernels_run_test
