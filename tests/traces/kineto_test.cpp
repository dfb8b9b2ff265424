// Kineto files of runs that never were (kineto_files.hpp): what was put in must come out, on one
// clock and with waiting told from transfer.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kineto/kineto.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/traces/kineto_fixture.hpp"
#include "traces/metrics.hpp"

namespace weir::kineto_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(Kineto, NamedActionsComeBack) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    SyntheticRun run = run_of(program_of(schedule, {3, 1, 5}));
    const KinetoTrace found = read_kineto(run.program, write(run));
    SCOPED_TRACE(schedule);
    expect_truth(run, found);
    EXPECT_TRUE(found.ranks[2].named);
    EXPECT_THAT(found.steps, ElementsAre(3, 4));
    EXPECT_THAT(found.notes, ElementsAre());
    // Rank 1's clock is ahead by 3.14 s: its times are moved back by that; the base is already in
    // both.
    const std::int64_t ahead = run.clock_ns[1] + run.base_ns[1] - run.base_ns[0];
    EXPECT_NEAR(static_cast<double>(found.ranks[1].clock_offset.count()),
                static_cast<double>(-ahead), 600.0);
  }
}

// A clock that gains 40 us from step to step: each step is aligned by its own messages.
TEST_F(Kineto, ClocksMayDrift) {
  SyntheticRun run = run_of(program_of("1f1b", {3, 1, 5}));
  run.steps = 4;
  run.drift_ns = 40'000;
  run.lay_out();
  expect_truth(run, read_kineto(run.program, write(run)));
}

// One range for 0B0 and 0F1 together: the main thread's kernels are the forward's.
TEST_F(Kineto, OverlappedPairsAreToldApartByThread) {
  SyntheticRun run = run_of(program_of("1f1b", {1, 1, 2}));
  std::string text = run.file_of(Rank{0});
  for (auto at = text.find("PP:0B0\""); at != text.npos; at = text.find("PP:0B0\"")) {
    text.replace(at, 6, "PP:(0F1;0B0)OVERLAP_F_B");
    const auto duration = text.find("\"dur\": 1.500", at);
    text.replace(duration, 12, "\"dur\": 3.500");  // until the end of 0F1's own range, 0.5 us later
    text.replace(text.find("PP:0F1\"", at), 6, "(none)");
  }
  // The pair's forward comes first in its name, and in PyTorch's row; the plan here has the
  // backward first.
  std::string line = complaint(run.program, {file(text)});
  EXPECT_THAT(line, HasSubstr("  trace: 0F0 [0F1] 0B0 0B1\n  plan:  0F0 [0B0] 0F1 0B1"));
  for (auto at = text.find("(0F1;0B0)"); at != text.npos; at = text.find("(0F1;0B0)"))
    text.replace(at, 9, "(0B0;0F1)");
  const std::vector<std::filesystem::path> files{file(text)};
  expect_truth(run, read_kineto(run.program, files));
}

TEST_F(Kineto, ChunksAndOneOptimizerForBoth) {
  SyntheticRun run = run_of(program_of("interleaved-1f1b", {2, 2, 4}));
  run.optimizing = Optimizing::unmarked;
  const KinetoTrace found = read_kineto(run.program, write(run));
  expect_truth(run, found);  // two chunks of 60 us, launched one after the other: shared out evenly
}

TEST_F(Kineto, SegmentsBetweenTransfersComeBack) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (const bool ranges : {false, true}) {
      SyntheticRun run = run_of(program_of(schedule, {3, 1, 5}));
      run.naming = Naming::none;
      run.transfer_ranges = ranges;
      SCOPED_TRACE(schedule);
      const KinetoTrace found = read_kineto(run.program, write(run));
      expect_truth(run, found);
      EXPECT_FALSE(found.ranks[0].named);
    }
  }
}

// Megatron's send_forward_recv_backward: one kernel that ends when both messages have crossed.
TEST_F(Kineto, BatchedTransfersComeBack) {
  SyntheticRun run;
  run.program = program_of("1f1b", {3, 1, 5});
  run.naming = Naming::none;
  run.sending = Sending::batched;
  run.clock_ns = {0, 5'000'000, -9'000'000};
  run.lay_out();
  const KinetoTrace found = read_kineto(run.program, write(run));
  for (std::size_t i = 0; i < found.trace.spans.size(); ++i) {
    const Span& span = found.trace.spans[i];
    const auto& truth = run.truth[i / run.program.size()][i % run.program.size()];
    if (span.lane == LaneKind::compute) {
      EXPECT_EQ(span.duration().count(), truth.end - truth.start);
    }
  }
}

// PyTorch's B holds the re-materialisation: R comes back with the time of its F.
TEST_F(Kineto, RematerialisationIsCarvedOutOfTheBackward) {
  LoweringOptions options;
  options.recompute = {true, true, true};
  SyntheticRun run = run_of(program_of("1f1b", {3, 1, 4}, options));
  for (const Naming naming : {Naming::pipelining, Naming::none}) {
    run.naming = naming;
    const KinetoTrace found = read_kineto(run.program, write(run));
    expect_truth(run, found);
    EXPECT_THAT(found.notes,
                testing::Contains("rank 0: R, which runs inside the backward, takes its F's time"));
  }
}

TEST_F(Kineto, WhatWasNotRecordedTakesNoTimeAndIsSaid) {
  LoweringOptions options;
  options.tied = {{Stage{0}, Stage{1}}};  // gradient sums, of which the files have no collective
  SyntheticRun run = run_of(program_of("1f1b", {2, 1, 3}, options));
  const KinetoTrace found = read_kineto(run.program, write(run));
  EXPECT_THAT(found.notes,
              testing::Contains("rank 0: no kernel of REDUCE_GRAD was found: it takes no time"));
  for (const RankMetrics& rank : step_metrics(run.program, found.trace).ranks) {
    EXPECT_EQ(rank.busy + rank.idle.total(), step_metrics(run.program, found.trace).step_time);
  }
}

TEST_F(Kineto, AFileWithoutProfilerStepsIsOneStep) {
  SyntheticRun run = run_of(program_of("gpipe", {2, 1, 2}));
  run.first_step = -1;
  run.steps = 1;
  run.lay_out();
  const KinetoTrace found = read_kineto(run.program, write(run));
  EXPECT_THAT(found.steps, ElementsAre());
  expect_truth(run, found);
}

// The first step lasts until the second starts: the 50 us between them are part of it.
TEST_F(Kineto, AStepLastsUntilTheNext) {
  SyntheticRun run = run_of(program_of("1f1b", {2, 1, 3}));
  const KinetoTrace found = read_kineto(run.program, write(run));
  EXPECT_EQ(found.trace.steps[0].end, found.trace.steps[1].start);
}

TEST_F(Kineto, BothOrdersAreShownWhereTheyDisagree) {
  SyntheticRun run = run_of(program_of("1f1b", {2, 1, 4}));
  const Program gpipe = program_of("gpipe", {2, 1, 4});
  EXPECT_EQ(complaint(gpipe, write(run)),
            "0.json: rank 0, ProfilerStep#3: the trace's order and the plan's disagree\n"
            "  trace: 0F0 0F1 [0B0] 0F2 0B1 0F3 0B2 0B3\n"
            "  plan:  0F0 0F1 [0F2] 0F3 0B0 0B1 0B2 0B3");
  run.naming = Naming::none;
  EXPECT_THAT(complaint(gpipe, write(run)),
              AllOf(HasSubstr("rank 0, ProfilerStep#3: the trace's order and the plan's disagree"),
                    HasSubstr("  trace: F SR F [SR] SR B F SR"),
                    HasSubstr("  plan:  0F0 0SEND_F0 0F1 [0SEND_F1] 0F2 ")));
  // A micro-batch too many.
  EXPECT_THAT(complaint(program_of("1f1b", {2, 1, 3}), write(run)), HasSubstr("disagree"));
}

TEST_F(Kineto, ForwardsThatNothingSeparatesNeedNames) {
  SyntheticRun run = run_of(program_of("gpipe", {1, 1, 2}));
  expect_truth(run, read_kineto(run.program, write(run)));
  run.naming = Naming::none;
  EXPECT_THAT(complaint(run.program, write(run)),
              HasSubstr("no SendRecv kernel stands between 0F0 and 0F1"));
}

TEST_F(Kineto, MissingAndRepeatedRanksAreNamed) {
  SyntheticRun run = run_of(program_of("gpipe", {4, 1, 2}));
  auto files = write(run);
  files.erase(files.begin(), files.begin() + 2);  // ranks 3 and 2
  EXPECT_EQ(complaint(run.program, files),
            "0.json: distributedInfo.rank: the plan has K = 4 ranks and needs a trace of each: "
            "rank 2, 3 missing");
  files = write(run);
  files[3] = file(run.file_of(Rank{1}), "again.json");
  EXPECT_THAT(complaint(run.program, files), HasSubstr("rank 1 again, as in"));
  // 8 devices, pipelines of 4: this one is ranks 0, 2, 4 and 6.
  run.world_size = 8;
  expect_truth(run, read_kineto(run.program, write(run)));
  files = write(run);
  files.erase(files.begin() + 1);
  EXPECT_THAT(complaint(run.program, files), HasSubstr("rank 4 missing"));
}

TEST_F(Kineto, RankFromTheNameOfTheFile) {
  SyntheticRun run = run_of(program_of("gpipe", {2, 1, 2}));
  std::vector<std::filesystem::path> files;
  for (const int r : {0, 1}) {
    std::string text = run.file_of(Rank{r});
    text.replace(text.find("\"rank\""), 6, "\"rink\"");
    files.push_back(file(text, fmt::format("run_rank-{}.pt.trace.json", r)));
  }
  expect_truth(run, read_kineto(run.program, files));
  std::filesystem::rename(files[1], folder_ / "one.json");
  files[1] = folder_ / "one.json";
  EXPECT_THAT(complaint(run.program, files),
              HasSubstr("one.json: distributedInfo.rank: is missing"));
}

// One rank needs no number; of a larger job it may be any.
TEST_F(Kineto, TheOnlyRankNeedsNoNumber) {
  SyntheticRun run = run_of(program_of("gpipe", {1, 1, 3}));
  std::string text = run.file_of(Rank{0});
  text.replace(text.find("\"rank\""), 6, "\"rink\"");
  const KinetoTrace found = read_kineto(run.program, std::vector{file(text)});
  expect_truth(run, found);
  EXPECT_EQ(found.ranks.front().global_rank, 0);
  EXPECT_EQ(found.trace.info.at("device"), "H100");
  const auto numbered = file(text, "run_rank7.json");
  EXPECT_EQ(read_kineto(run.program, std::vector{numbered}).ranks.front().global_rank, 7);
}

TEST_F(Kineto, RanksMustHaveRecordedTheSameSteps) {
  SyntheticRun run = run_of(program_of("gpipe", {2, 1, 2}));
  auto files = write(run);
  run.first_step = 4;
  write_gzip(folder_ / "1.json.gz", run.file_of(Rank{1}));
  EXPECT_EQ(complaint(run.program, files),
            "1.json.gz: ProfilerStep: recorded steps [4, 5], but rank 0 recorded [3, 4]");
}

}  // namespace
}  // namespace weir::kineto_test
