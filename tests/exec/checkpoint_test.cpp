// A run that was stopped and goes on as another pipeline: every loss and every bit of the weights
// as if it had never stopped.
// SPDX-License-Identifier: Apache-2.0
#include "exec/checkpoint/checkpoint.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "exec/training/each_weight.hpp"
#include "exec/weights/safetensors.hpp"
#include "plan/text/bytes_file.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::checkpoint_test {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 5, kBefore = 2;

class Checkpoints : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path output() const {
    return std::filesystem::temp_directory_path() /
           ("weir-exec-test-" + std::to_string(::getpid())) / "out";
  }
  [[nodiscard]] RunOptions steps(int count) const {
    RunOptions options;
    options.steps = count;
    options.warmup_steps = 0;
    options.output = output();
    return options;
  }
  [[nodiscard]] RunOptions going_on(int count) const {
    RunOptions options = steps(count);
    options.resume = output();
    return options;
  }
  [[nodiscard]] RunResult trained(const Plan& plan, const RunOptions& options) {
    return run(model_.load(plan), options, cpu_only());
  }
  // One checkpoint, after kBefore steps.
  void stop_early(const Plan& plan) {
    std::filesystem::remove_all(output());
    RunOptions options = steps(kBefore);
    options.checkpoint_every = kBefore;
    EXPECT_EQ(trained(plan, options).checkpoints.size(), 1U);
  }
  [[nodiscard]] std::string complaint(const Plan& plan, const RunOptions& options) {
    try {
      static_cast<void>(trained(plan, options));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  TinyModel model_;
};

// Each pipeline stops once and goes on as each: K in 1..4, four schedules, re-materialised or not,
// dropout on, the table tied.
TEST_F(Checkpoints, AnyPipelineGoesOnBitwise) {
  std::vector<Plan> plans;
  const auto add = [&](std::vector<int> boundaries, const char* schedule, RecomputeMode mode) {
    plans.push_back(model_.plan(std::move(boundaries), 4, schedule));
    plans.back().recompute.mode = mode;
  };
  add({}, "gpipe", RecomputeMode::none);
  add({3}, "1f1b", RecomputeMode::full);
  add({1, 3}, "zb-h1", RecomputeMode::none);
  add({1, 2, 4}, "gpipe", RecomputeMode::stage);
  add({1, 2, 4}, "interleaved-1f1b", RecomputeMode::none);
  plans.back().pp = plans.back().vpp = 2;
  using enum OptimizerKind;
  // The rate moves across the stop, and the norm is clipped on both sides of it.
  const RateSchedule rate{
      .warmup_iters = 1, .decay_iters = 4, .style = DecayStyle::cosine, .min_lr = 1e-3};
  for (const Optimizer& optimizer :
       {Optimizer{.learning_rate = 1e-2},
        Optimizer{.kind = sgd, .learning_rate = 1e-2, .momentum = 0.9},
        Optimizer{.kind = rmsprop, .learning_rate = 1e-2, .momentum = 0.9, .rate = rate},
        Optimizer{.kind = adam, .learning_rate = 1e-2, .clip_norm = 0.05, .rate = rate}}) {
    SCOPED_TRACE(to_string(optimizer.kind));
    for (Plan& plan : plans) plan.optimizer = optimizer;
    const RunResult whole = trained(plans.front(), steps(kSteps));
    for (const Plan& before : plans) {
      stop_early(before);
      for (const Plan& after : plans) {
        SCOPED_TRACE(before.schedule + " then " + after.schedule);
        const RunResult rest = trained(after, going_on(kSteps - kBefore));
        EXPECT_EQ(rest.first_step, kBefore);
        EXPECT_EQ(rest.parameters_sha256, whole.parameters_sha256);
        for (std::size_t i = 0; i < rest.steps.size(); ++i)
          EXPECT_EQ(rest.steps[i].loss, whole.steps[kBefore + i].loss) << i;
      }
    }
  }
}

TEST_F(Checkpoints, OfAnotherTrainingAreRefusedNamingBoth) {
  const Plan plan = model_.plan({2}, 4);
  stop_early(plan);
  const auto with = [&](auto change) {
    Plan other = plan;
    change(other);
    return complaint(other, going_on(1));
  };
  EXPECT_THAT(with([](Plan& p) { p.microbatches = 8; }),
              HasSubstr("microbatches: the checkpoint has 4, this run has 8"));
  EXPECT_THAT(with([](Plan& p) { p.micro_batch_size = 1; }), HasSubstr("has 2, this run has 1"));
  EXPECT_THAT(with([](Plan& p) { p.optimizer.kind = OptimizerKind::sgd; }),
              testing::AllOf(HasSubstr("optimizer"), HasSubstr("adamw"), HasSubstr("sgd")));
  EXPECT_THAT(with([](Plan& p) { p.optimizer.clip_norm = 1; }),
              testing::AllOf(HasSubstr("optimizer"), HasSubstr("clip_norm")));
  EXPECT_THAT(with([](Plan& p) { p.optimizer.rate.warmup_iters = 3; }),
              HasSubstr("lr_warmup_iters"));
  EXPECT_THAT(with([](Plan& p) { p.seed = 7; }), HasSubstr("seed"));
  const auto kept = output().parent_path().string() + "-kept";
  std::filesystem::remove_all(kept);
  std::filesystem::rename(output(), kept);
  const TinyModel deeper(true, 0.1, 32, 4);
  RunOptions options = going_on(1);
  options.resume = kept;
  EXPECT_THROW(static_cast<void>(run(deeper.load(deeper.plan({2}, 4)), options, cpu_only())),
               InputError);
  std::filesystem::remove_all(kept);
}

TEST_F(Checkpoints, TheNewestWholeOneIsTaken) {
  const Plan plan = model_.plan({2}, 2);
  RunOptions options = steps(3);
  options.checkpoint_every = 1;
  EXPECT_EQ(trained(plan, options).checkpoints.size(), 3U);
  EXPECT_EQ(trained(plan, going_on(0)).first_step, 3);
  const std::filesystem::path folder = output() / "checkpoints";
  std::filesystem::remove(folder / "step-000003" / "checkpoint.json");
  EXPECT_EQ(trained(plan, going_on(0)).first_step, 2);
  std::filesystem::resize_file(folder / "step-000002" / "state.safetensors", 1000);
  RunOptions told = going_on(0);
  std::vector<std::string> notes;
  told.fault = [&](const std::string& line) { notes.push_back(line); };
  EXPECT_EQ(trained(plan, told).first_step, 1);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_THAT(notes[0], testing::AllOf(testing::StartsWith("step-000003 is damaged ("),
                                       HasSubstr("checkpoint.json: cannot be read"),
                                       testing::EndsWith("): step-000001 is used")));
  EXPECT_THAT(notes[1], HasSubstr("step-000002 is damaged ("));
  // However many are damaged: three by a line each, the others in one.
  for (int step = 4; step <= 40; ++step)
    std::filesystem::create_directories(folder / fmt::format("step-{:06}", step));
  notes.clear();
  EXPECT_EQ(trained(plan, told).first_step, 1);
  ASSERT_EQ(notes.size(), 4U);
  EXPECT_THAT(notes[0], testing::StartsWith("step-000040 is damaged ("));
  EXPECT_EQ(notes[3], "36 more checkpoints down to step-000002 are damaged: step-000001 is used");
  for (int step = 4; step <= 40; ++step)
    std::filesystem::remove(folder / fmt::format("step-{:06}", step));
  RunOptions named = going_on(0);
  named.resume = folder / "step-000002";
  EXPECT_THAT(complaint(plan, named), HasSubstr("state.safetensors"));

  // What a killed run left goes with the next checkpoint; one of the same step is replaced.
  std::filesystem::create_directories(folder / ".step-000009.1.tmp");
  RunOptions again = going_on(2);
  again.checkpoint_every = 1;
  EXPECT_EQ(trained(plan, again).checkpoints.size(), 2U);
  EXPECT_EQ(trained(plan, going_on(0)).first_step, 3);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 3);
  std::filesystem::remove_all(folder);
  EXPECT_THAT(complaint(plan, going_on(0)), HasSubstr("nor a whole checkpoint"));
}

// As Weir 0.2 wrote it: without hashes. It is gone on from, and it is said that nothing is known of
// its bytes; a step that is not its folder's is seen all the same.
TEST_F(Checkpoints, OfTheFormatBeforeAreRead) {
  const Plan plan = model_.plan({2}, 2);
  stop_early(plan);
  const std::filesystem::path facts = output() / "checkpoints" / "step-000002" / "checkpoint.json";
  Json json = parse_json(read_text_file(facts), facts);
  EXPECT_EQ(json.at("schema"), "weir.checkpoint/2");
  EXPECT_EQ(json.at("state_sha256"),
            sha256_hex(read_bytes(facts.parent_path() / "state.safetensors")));
  json["schema"] = "weir.checkpoint/1";
  json.erase("state_sha256");
  json.erase("sha256");
  write_file_atomically(facts, json.dump());
  RunOptions options = going_on(0);
  std::string note;
  options.note = [&](const std::string& line) { note = line; };
  EXPECT_EQ(trained(plan, options).first_step, 2);
  EXPECT_THAT(note, HasSubstr("step-000002 has no seal"));
  json["samples"] = 7;  // a step has 2 micro-batches of 2 samples
  write_file_atomically(facts, json.dump());
  EXPECT_THAT(complaint(plan, options), HasSubstr("samples: 7, but 2 steps have 8"));
  json["samples"] = 12;
  json["step"] = 3;
  write_file_atomically(facts, json.dump());
  EXPECT_THAT(complaint(plan, options), HasSubstr("step: 3, its folder is step-000002"));
}

// The weights that a run began with are part of what it is, and stay so over what goes on from it.
TEST_F(Checkpoints, SayWhatTheyBeganWith) {
  const Plan plan = model_.plan({2}, 2);
  std::filesystem::remove_all(output());
  const std::filesystem::path weights = output() / "first.safetensors";
  RunOptions first = steps(0);
  first.save = weights;
  static_cast<void>(trained(plan, first));
  RunOptions tuned = steps(kBefore);
  tuned.init = weights;
  tuned.checkpoint_every = kBefore;
  static_cast<void>(trained(plan, tuned));
  RunOptions more = going_on(1);
  more.checkpoint_every = 1;
  static_cast<void>(trained(plan, more));
  for (const char* step : {"step-000002", "step-000003"}) {
    const std::filesystem::path facts = output() / "checkpoints" / step / "checkpoint.json";
    EXPECT_EQ(parse_json(read_text_file(facts), facts).at("trained").at("init_sha256"),
              sha256_hex(read_bytes(weights)))
        << step;
  }
}

// A disk without room is known before the first step, by the size of the tensors alone: AdamW keeps
// three numbers for each of the model's.
TEST_F(Checkpoints, TakeWhatTheirTensorsTake) {
  const ResolvedPlan loaded = model_.load(model_.plan({2}, 2));
  std::int64_t parameters = 0;
  each_weight(loaded, ParameterPart::values,
              [&](ParameterId, const ParameterTensor& tensor) { parameters += tensor.elements(); });
  EXPECT_EQ(checkpoint_bytes(loaded), 3 * 4 * parameters);
  stop_early(loaded.plan);
  std::int64_t written = 0;
  const SafetensorsFile state(output() / "checkpoints" / "step-000002" / "state.safetensors");
  for (const auto& [name, tensor] : state.tensors())
    written += static_cast<std::int64_t>(tensor.size);
  EXPECT_EQ(written, checkpoint_bytes(loaded));
}

// A file where the folder should be: as a full disk, it costs a checkpoint and not the training.
TEST_F(Checkpoints, ThatCannotBeWrittenDoNotEndTraining) {
  const Plan plan = model_.plan({2}, 2);
  std::filesystem::remove_all(output());
  const RunResult whole = trained(plan, steps(kSteps));
  RunOptions options = steps(kSteps);
  options.checkpoint_every = 2;
  int notes = 0;
  options.fault = [&](const std::string& line) {
    ++notes;
    EXPECT_THAT(line, testing::AllOf(testing::StartsWith("the checkpoint of step "),
                                     testing::EndsWith(": training goes on")));
  };
  write_file_atomically(output() / "checkpoints", "in the way");
  const RunResult result = trained(plan, options);
  EXPECT_EQ(notes, 1);  // of steps 2, 4 and 5, which all fail
  EXPECT_TRUE(result.checkpoints.empty());
  ASSERT_TRUE(result.not_kept);
  EXPECT_THAT(*result.not_kept, HasSubstr("the checkpoint of step 2 could not be written ("));
  EXPECT_EQ(result.parameters_sha256, whole.parameters_sha256);
}

// Asked to after its third step, a run ends there, and what it did is saved.
TEST_F(Checkpoints, AStoppedRunEndsClean) {
  const Plan plan = model_.plan({2}, 4);
  const RunResult whole = trained(plan, steps(kSteps));
  RunOptions options = steps(kSteps);
  options.checkpoint_every = 100;
  int asked = 0;
  options.stop = [&] { return ++asked == 3 ? SIGTERM : 0; };
  const RunResult stopped = trained(plan, options);
  EXPECT_EQ(stopped.stopped_by, SIGTERM);
  EXPECT_EQ(stopped.steps.size(), 3U);
  ASSERT_EQ(stopped.checkpoints.size(), 1U);
  EXPECT_EQ(stopped.checkpoints.front().step, 3);
  EXPECT_EQ(trained(plan, going_on(kSteps - 3)).parameters_sha256, whole.parameters_sha256);
}

TEST_F(Checkpoints, StepsAreReportedAsTheyEnd) {
  RunOptions options = steps(3);
  std::vector<StepReport> reports;
  options.on_step = [&](const StepReport& report) { reports.push_back(report); };
  const RunResult result = trained(model_.plan({2}, 4), options);
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[1].step, 2);
  EXPECT_EQ(reports[1].of, 3);
  EXPECT_EQ(reports[1].loss, result.steps[1].loss);
}

}  // namespace
}  // namespace weir::checkpoint_test
