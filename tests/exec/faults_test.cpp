// Runs that go wrong: where and why they ended, in one line.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "exec/device/free_memory.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::faults_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// As the cpu backend, but the given forward of the given rank throws.
class Throwing : public Backend {
 public:
  Throwing(const BackendRequest& request, int rank, int passes)
      : real_(make_cpu_backend(request)), left_(request.rank == rank ? passes : -1) {}
  void* allocate(std::int64_t bytes) override { return real_->allocate(bytes); }
  void release(void* block, std::int64_t bytes) noexcept override { real_->release(block, bytes); }
  void prepare(std::span<const Layer> layers, std::int64_t batch, std::int64_t tokens) override {
    real_->prepare(layers, batch, tokens);
  }
  std::int64_t scratch_bytes() const override { return real_->scratch_bytes(); }
  void use_scratch(const Tensor& scratch) override { real_->use_scratch(scratch); }
  void forward(const LayerCall& call) override {
    if (left_ >= 0 && left_-- == 0) throw std::runtime_error("the device fell off the bus");
    real_->forward(call);
  }
  void backward_input(const LayerCall& call) override { real_->backward_input(call); }
  void backward_weight(const LayerCall& call) override { real_->backward_weight(call); }
  void update(std::span<const UpdateCall> calls) override { real_->update(calls); }
  void finish() override { real_->finish(); }
  bool in_host_memory() const override { return true; }
  void to_device(const Tensor& to, const void* from, std::int64_t bytes) override {
    real_->to_device(to, from, bytes);
  }
  void to_host(void* to, const Tensor& from, std::int64_t bytes) override {
    real_->to_host(to, from, bytes);
  }

 private:
  std::unique_ptr<Backend> real_;
  int left_;
};

std::string end_of(const ResolvedPlan& loaded, const RunOptions& options,
                   const Backends& backends) {
  try {
    static_cast<void>(run(loaded, options, backends));
  } catch (const RunFailed& failed) {
    return failed.what();
  }
  return "";
}

// Stage 1 has two blocks, the norm and the head: its seventh forward is the third of micro-batch 1.
TEST(Faults, AThrowIsToldWithRankStepAndAction) {
  const TinyModel model;
  const Backends backends{{BackendKind::cpu, [](const BackendRequest& request) {
                             return std::make_unique<Throwing>(request, 1, 4 * 4 + 6);
                           }}};
  EXPECT_EQ(end_of(model.load(model.plan({2}, 4)), {}, backends),
            "rank 1, step 1, 1F1: the device fell off the bus");
}

// What was left behind says what each rank was last at; a run that ends well leaves nothing.
TEST(Faults, TheLastActionsAreInTheOutputFolder) {
  const TinyModel model;
  const ResolvedPlan loaded = model.load(model.plan({2}, 4, "gpipe"));
  RunOptions options;
  options.output = std::filesystem::temp_directory_path() /
                   ("weir-exec-test-" + std::to_string(::getpid())) / "out";
  const std::filesystem::path actions = *options.output / "last-actions";
  static_cast<void>(run(loaded, options, cpu_only()));
  EXPECT_FALSE(std::filesystem::exists(actions));
  const Backends backends{{BackendKind::cpu, [](const BackendRequest& request) {
                             return std::make_unique<Throwing>(request, 1, 4 * 4 + 6);
                           }}};
  EXPECT_EQ(end_of(loaded, options, backends), "rank 1, step 1, 1F1: the device fell off the bus");
  EXPECT_THAT(read_text_file(actions / "rank-1.txt"), StartsWith("rank 1, step 1, 1F1: begun  "));
  const std::string first = read_text_file(actions / "rank-0.txt");
  EXPECT_THAT(first, StartsWith("rank 0, step 1, 0"));
  EXPECT_EQ(first.size(), 128U);
  EXPECT_EQ(first.back(), '\n');
}

// As the cpu backend, with so many bytes to give to one rank.
class Poor : public Throwing {
 public:
  Poor(const BackendRequest& request, int rank, std::int64_t bytes)
      : Throwing(request, -1, 0), left_(request.rank == rank ? bytes : std::int64_t{1} << 40) {}
  void* allocate(std::int64_t bytes) override {
    if (bytes > left_) throw NoMemory(Bytes(left_));
    left_ -= bytes;
    return Throwing::allocate(bytes);
  }

 private:
  std::int64_t left_;
};

// Stage 1 of two begins with block 1. All of its numbers take 4 times 4 bytes each, so that with
// these, the library's scratch and 4 KiB its first forward finds no room.
TEST(Faults, OutOfMemoryNamesRankAndTensor) {
  const TinyModel model;
  const ResolvedPlan loaded = model.load(model.plan({2}, 4));
  const auto end_with = [&](std::int64_t bytes) {
    return end_of(loaded, {}, {{BackendKind::cpu, [bytes](const BackendRequest& request) {
                                  return std::make_unique<Poor>(request, 1, bytes);
                                }}});
  };
  EXPECT_THAT(end_with(1000), AllOf(StartsWith("rank 1, before the first step: out of memory for "),
                                    HasSubstr(" of block.1, "), HasSubstr(" are free")));
  const std::int64_t scratch = run(loaded, {}, cpu_only()).scratch[1].count();
  EXPECT_THAT(
      end_with(loaded.stages[1].parameters * 16 + scratch + 4096),
      AllOf(StartsWith("rank 1, step 0, 1F0: out of memory for "), HasSubstr(" of block.1")));
}

// As the cpu backend, whose machine has so many bytes left; it counts what is taken of them.
class Watched : public Throwing {
 public:
  Watched(const BackendRequest& request, std::int64_t there, std::int64_t& taken)
      : Throwing(request, -1, 0), there_(there), taken_(taken) {}
  void* allocate(std::int64_t bytes) override {
    const std::scoped_lock lock(mutex());  // ranks take theirs at once
    taken_ += bytes;
    return Throwing::allocate(bytes);
  }
  std::optional<Bytes> shared_memory() const override { return Bytes(there_); }

 private:
  static std::mutex& mutex() {
    static std::mutex all;
    return all;
  }
  std::int64_t there_;
  std::int64_t& taken_;
};

// What a step takes is known before anything is: with as much as a run was seen to take, a message
// or two aside, it runs; with 16 KiB less than that without the library's scratch, which is a
// block's activations of a micro-batch, the last rank's tensor is named with its action, and
// nothing was allocated; with hardly any memory it is a weight.
TEST(Faults, OutOfMemoryIsToldBeforeTheFirstStep) {
  const TinyModel model;
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    const ResolvedPlan loaded = model.load(model.plan({2}, 4, schedule));
    std::int64_t taken = 0;
    const auto end_with = [&](std::int64_t there) {
      taken = 0;
      return end_of(loaded, {}, {{BackendKind::cpu, [&](const BackendRequest& request) {
                                    return std::make_unique<Watched>(request, there, taken);
                                  }}});
    };
    EXPECT_EQ(end_with(std::int64_t{1} << 40), "");
    const std::int64_t all = taken;
    std::int64_t scratch = 0;
    for (const Bytes of_rank : run(loaded, {}, cpu_only()).scratch) scratch += of_rank.count();
    const std::int64_t message = 2 * 8 * 16 * 4;
    EXPECT_EQ(end_with(all + 4 * message), "");
    EXPECT_THAT(end_with(all - scratch - 16384),
                AllOf(StartsWith("before the first step: rank 1, step 0, "),
                      HasSubstr(": out of memory for "), HasSubstr(" are free")));
    EXPECT_EQ(taken, 0);
    EXPECT_THAT(end_with(1000),
                AllOf(StartsWith("rank 0, before the first step: out of memory for token"),
                      HasSubstr(" of embedding, "), HasSubstr(" are free")));
    EXPECT_EQ(taken, 0);
  }
}

// A file of the system's and two of the control group's.
TEST(Faults, TheLeastMemoryThatAnybodyLeavesIsFree) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("weir-free-memory-" + std::to_string(::getpid()));
  const MemoryFiles files{folder / "meminfo", folder};
  EXPECT_FALSE(free_memory(files));
  write_file_atomically(files.system, "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n");
  EXPECT_EQ(free_memory(files), Bytes(400 * 1024));
  write_file_atomically(folder / "memory.max", "max\n");
  write_file_atomically(folder / "memory.current", "5000\n");
  EXPECT_EQ(free_memory(files), Bytes(400 * 1024));
  write_file_atomically(folder / "memory.max", "65000\n");
  EXPECT_EQ(free_memory(files), Bytes(60000));
  write_file_atomically(folder / "memory.current", "70000\n");
  EXPECT_EQ(free_memory(files), Bytes(0));
  std::filesystem::remove_all(folder);
}

// A learning rate that throws the weights far out: the next step's first forward finds them.
TEST(Faults, ANumberThatIsNotFiniteEndsTheRun) {
  const TinyModel model;
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::stage}) {
      Plan plan = model.plan({2}, 4, schedule);
      plan.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1e38};
      plan.recompute.mode = mode;
      EXPECT_THAT(end_of(model.load(plan), {}, cpu_only()),
                  AllOf(StartsWith("rank 0, step 1, 0F0: micro-batch 0: "),
                        HasSubstr("has made a number that is not finite")))
          << schedule;
    }
  }
}

// Timed waits: the first action of rank 1 takes half a second, and a tenth is allowed.
TEST(Faults, AnActionThatDoesNotEndIsToldOf) {
  const TinyModel model;
  const ResolvedPlan loaded = model.load(model.plan({2}, 2));
  RunOptions options;
  options.backend = BackendKind::synthetic;
  options.steps = 1;
  options.warmup_steps = 0;
  options.synthetic_duration_ns.assign(loaded.program.size(), 0);
  for (const OperationId id : loaded.program.ids()) {
    const Action& action = loaded.program.op(id).action;
    if (action.kind == ActionKind::F && action.stage.value == 1 && action.microbatch.value == 0)
      options.synthetic_duration_ns[id.position()] = 500'000'000;
  }
  options.longest_action = Seconds(0.1);
  std::mutex mutex;
  std::vector<std::string> said;
  options.hangs = [&](const std::string& line) {
    const std::scoped_lock lock(mutex);  // told by the watchdog's thread
    said.push_back(line);
  };
  static_cast<void>(run(loaded, options, {}));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said.front(), StartsWith("rank 1, step 0, 1F0: has not ended for 0."));
}

}  // namespace
}  // namespace weir::faults_test
