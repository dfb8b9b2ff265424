// Kineto files of runs that never were (kineto_files.hpp): what was put in must come out, on one clock and with waiting
// told from transfer; and what cannot be read is refused with one line. SPDX-License-Identifier: Apache-2.0
#include "traces/kineto.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "plan/error.hpp"
#include "plan/lower.hpp"
#include "plan/schedules/schedules.hpp"
#include "tests/plan/samples.hpp"
#include "tests/traces/kineto_files.hpp"
#include "traces/kineto/events_json.hpp"
#include "traces/metrics.hpp"

namespace weir {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Program program_of(const std::string& schedule, ScheduleRequest request, const LoweringOptions& options = {}) {
  return lower(std::get<Schedule>(make_schedule(schedule, request)), options);
}

class Kineto : public testing::Test {
 protected:
  Kineto() : folder_(std::filesystem::temp_directory_path() / ("weir-kineto-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Kineto() override { std::filesystem::remove_all(folder_); }

  // Every other rank's file is gzip; the last rank comes first.
  std::vector<std::filesystem::path> write(const SyntheticRun& run) {
    std::vector<std::filesystem::path> files;
    for (std::int32_t r = run.program.shape.ranks - 1; r >= 0; --r) {
      files.push_back(folder_ / (r % 2 == 0 ? fmt::format("{}.json", r) : fmt::format("{}.json.gz", r)));
      (r % 2 == 0 ? write_plain : write_gzip)(files.back(), run.file_of(Rank{r}));
    }
    return files;
  }
  std::filesystem::path file(const std::string& text, const std::string& name = "t.json") {
    write_plain(folder_ / name, text);
    return folder_ / name;
  }
  // The one line of the complaint, without the folder.
  std::string complaint(const Program& program, const std::vector<std::filesystem::path>& files) {
    try {
      static_cast<void>(read_kineto(program, files));
    } catch (const InputError& error) {
      std::string what = error.what();
      const std::string prefix = folder_.string() + "/";
      for (auto at = what.find(prefix); at != what.npos; at = what.find(prefix)) what.erase(at, prefix.size());
      return what;
    }
    return "no complaint";
  }

  std::filesystem::path folder_;
};

// Clocks of three machines: seconds apart, and not even from one base.
SyntheticRun run_of(Program program) {
  SyntheticRun run;
  run.clock_ns = {0, 3'141'592'653, -77'000'111, 500'000};
  run.base_ns = {1'700'000'000'000'000'000, 1'700'000'001'000'000'000, 1'700'000'000'000'000'000};
  run.end_jitter_ns = 600;
  run.program = std::move(program);
  run.lay_out();
  return run;
}

// Durations of what is computed come back to the nanosecond, for they lie on one clock. Between clocks, ends of
// messages are up to `end_jitter_ns` apart, and so may be what was aligned by them: once per rank passed on the way.
void expect_truth(SyntheticRun& run, const KinetoTrace& found) {
  const std::size_t count = run.program.operations.size();
  ASSERT_EQ(found.trace.steps.size(), static_cast<std::size_t>(run.steps));
  ASSERT_EQ(found.trace.spans.size(), count * static_cast<std::size_t>(run.steps));
  EXPECT_EQ(found.trace.origin, TraceOrigin::measured);
  EXPECT_LE(found.alignment_error.count(), run.end_jitter_ns);
  const std::int64_t slack = run.end_jitter_ns * (run.program.shape.ranks - 1);
  // The first action of all: the trace's time 0 is the earliest start on any lane.
  const std::int64_t origin = run.truth[0][0].start - found.trace.spans[0].start.count();
  for (std::size_t i = 0; i < found.trace.spans.size(); ++i) {
    const Span& span = found.trace.spans[i];
    const SyntheticRun::Time& true_time = run.truth[i / count][i % count];
    const auto context = fmt::format("{} of step {}, rank {}", to_string(span.action), span.step, span.rank.value);
    ASSERT_EQ(span.operation, static_cast<OperationId>(i % count));
    ASSERT_EQ(span.action, run.program.operations[i % count].action);
    ASSERT_EQ(span.step, static_cast<std::int32_t>(i / count));
    EXPECT_NEAR(static_cast<double>(span.end.count() + origin), static_cast<double>(true_time.end),
                static_cast<double>(slack))
        << context;
    if (span.lane == LaneKind::compute) {
      EXPECT_EQ(span.duration().count(), true_time.end - true_time.start) << context;
    } else if (span.lane == LaneKind::send && run.sending == Sending::alone) {
      // Without the waiting of the end that was ready first.
      EXPECT_NEAR(static_cast<double>(span.duration().count()), static_cast<double>(run.transfer_ns),
                  static_cast<double>(slack))
          << context;
      EXPECT_NE(span.peer, span.rank);
    }
  }
}

TEST_F(Kineto, NamedActionsComeBack) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    SyntheticRun run = run_of(program_of(schedule, {3, 1, 5}));
    const KinetoTrace found = read_kineto(run.program, write(run));
    SCOPED_TRACE(schedule);
    expect_truth(run, found);
    EXPECT_TRUE(found.ranks[2].named);
    EXPECT_THAT(found.steps, ElementsAre(3, 4));
    EXPECT_THAT(found.notes, ElementsAre());
    // Rank 1's clock is ahead by 3.14 s: its times are moved back by that; the base is already in both.
    const std::int64_t ahead = run.clock_ns[1] + run.base_ns[1] - run.base_ns[0];
    EXPECT_NEAR(static_cast<double>(found.ranks[1].clock_offset.count()), static_cast<double>(-ahead), 600.0);
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
  // The pair's forward comes first in its name, and in PyTorch's row; the plan here has the backward first.
  std::string line = complaint(run.program, {file(text)});
  EXPECT_THAT(line, HasSubstr("  trace: 0F0 [0F1] 0B0 0B1\n  plan:  0F0 [0B0] 0F1 0B1"));
  for (auto at = text.find("(0F1;0B0)"); at != text.npos; at = text.find("(0F1;0B0)")) text.replace(at, 9, "(0B0;0F1)");
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
    const auto& truth = run.truth[i / run.program.operations.size()][i % run.program.operations.size()];
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
    EXPECT_THAT(found.notes, testing::Contains("rank 0: R, which runs inside the backward, takes its F's time"));
  }
}

TEST_F(Kineto, WhatWasNotRecordedTakesNoTimeAndIsSaid) {
  LoweringOptions options;
  options.tied = {{Stage{0}, Stage{1}}};  // gradient sums, of which the files have no collective
  SyntheticRun run = run_of(program_of("1f1b", {2, 1, 3}, options));
  const KinetoTrace found = read_kineto(run.program, write(run));
  EXPECT_THAT(found.notes, testing::Contains("rank 0: no kernel of REDUCE_GRAD was found: it takes no time"));
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
  EXPECT_THAT(
      complaint(gpipe, write(run)),
      AllOf(HasSubstr("rank 0, ProfilerStep#3: the trace's order and the plan's disagree"),
            HasSubstr("  trace: F SR F [SR] SR B F SR"), HasSubstr("  plan:  0F0 0SEND_F0 0F1 [0SEND_F1] 0F2 ")));
  // A micro-batch too many.
  EXPECT_THAT(complaint(program_of("1f1b", {2, 1, 3}), write(run)), HasSubstr("disagree"));
}

TEST_F(Kineto, ForwardsThatNothingSeparatesNeedNames) {
  SyntheticRun run = run_of(program_of("gpipe", {1, 1, 2}));
  expect_truth(run, read_kineto(run.program, write(run)));
  run.naming = Naming::none;
  EXPECT_THAT(complaint(run.program, write(run)), HasSubstr("no SendRecv kernel stands between 0F0 and 0F1"));
}

TEST_F(Kineto, MissingAndRepeatedRanksAreNamed) {
  SyntheticRun run = run_of(program_of("gpipe", {4, 1, 2}));
  auto files = write(run);
  files.erase(files.begin(), files.begin() + 2);  // ranks 3 and 2
  EXPECT_EQ(complaint(run.program, files),
            "0.json: distributedInfo.rank: the plan has K = 4 ranks and needs a trace of each: rank 2, 3 missing");
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
  EXPECT_THAT(complaint(run.program, files), HasSubstr("one.json: distributedInfo.rank: is missing"));
}

TEST_F(Kineto, RanksMustHaveRecordedTheSameSteps) {
  SyntheticRun run = run_of(program_of("gpipe", {2, 1, 2}));
  auto files = write(run);
  run.first_step = 4;
  write_gzip(folder_ / "1.json.gz", run.file_of(Rank{1}));
  EXPECT_EQ(complaint(run.program, files),
            "1.json.gz: ProfilerStep: recorded steps [4, 5], but rank 0 recorded [3, 4]");
}

TEST_F(Kineto, WhatIsBrokenIsRefusedWithOneLine) {
  SyntheticRun run = run_of(program_of("gpipe", {1, 1, 1}));
  const std::string good = run.file_of(Rank{0});
  const auto refused = [&](const std::filesystem::path& path) {
    std::string line = complaint(run.program, {path});
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 0) << line;
    return line;
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return file(text);
  };
  EXPECT_EQ(refused(folder_ / "none.json"), "none.json: cannot be read: no such file");
  EXPECT_EQ(refused(folder_), folder_.string() + ": expected a regular file");
  EXPECT_THAT(refused(file("")), HasSubstr("t.json: no valid JSON"));
  EXPECT_THAT(refused(file("{}", "rank0.json")), HasSubstr("rank0.json: traceEvents: is missing"));
  EXPECT_THAT(refused(file("3", "rank0.json")), HasSubstr("traceEvents: is missing"));
  EXPECT_THAT(refused(file("[]", "rank0.json")), HasSubstr("holds no GPU kernels"));
  EXPECT_THAT(refused(file(good.substr(0, good.size() / 2))), HasSubstr("t.json: no valid JSON: parse error"));
  EXPECT_THAT(refused(file(std::string(1000, '['))), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(refused(file("[\"" + std::string(70 << 20, 'x'))), HasSubstr("a single value longer than 64 MiB"));
  EXPECT_THAT(refused(with("\"rank\": 0", "\"rank\": -1")), HasSubstr("distributedInfo.rank: expected an integer"));
  EXPECT_THAT(refused(with("\"baseTimeNanoseconds\": 1", "\"baseTimeNanoseconds\": 9")), HasSubstr("baseTimeNanosec"));
  EXPECT_THAT(refused(with("\"ts\": ", "\"tz\": ")), HasSubstr("traceEvents[0].ts: expected a time in microseconds"));
  EXPECT_THAT(refused(with("\"dur\": ", "\"dur\": -")), HasSubstr("traceEvents[0].dur: expected a duration"));
  EXPECT_THAT(refused(with("ProfilerStep#3", "ProfilerStep#x")), HasSubstr("ProfilerStep#x: expected a number"));
  std::string unlaunched = good;
  for (auto at = unlaunched.find("cudaLaunch"); at != unlaunched.npos; at = unlaunched.find("cudaLaunch"))
    unlaunched.replace(at, 10, "cudaXXXXXX");
  EXPECT_THAT(refused(file(unlaunched)), HasSubstr("no kernel's launch was recorded"));

  const auto packed = folder_ / "packed.json.gz";
  write_gzip(packed, good);
  std::ifstream in(packed, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(refused(file(bytes.substr(0, bytes.size() - 20), "cut.json.gz")),
              HasSubstr("ends in the middle of its gzip data"));
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  bytes[bytes.size() / 2 + 1] = static_cast<char>(~bytes[bytes.size() / 2 + 1]);
  EXPECT_THAT(refused(file(bytes, "bad.json.gz")), testing::AnyOf(HasSubstr("damaged"), HasSubstr("no valid JSON")));
}

// Old and new, with and without base, numbers as texts: what Kineto wrote over the years.
TEST_F(Kineto, RealFilesLoadOrAreRefusedWithOneLine) {
  const auto folder = sample_folder("kineto");
  if (!folder) GTEST_SKIP() << "no samples here";
  int loaded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    try {
      const KinetoEvents events = read_kineto_events(entry.path());
      ++loaded;
      if (entry.path().filename() == "deepseek_train_dualpipe.json.gz") {
        EXPECT_EQ(events.identity.world_size, 64);
        EXPECT_EQ(events.kernels_in_file, 963);
        EXPECT_EQ(events.kernels.size(), 963U);  // each with its launch
      }
      if (entry.path().filename() == "hta_nccl_data.json.gz") {
        EXPECT_EQ(events.base_ns, 1711964646000000000);
        EXPECT_EQ(std::count_if(events.kernels.begin(), events.kernels.end(),
                                [](const KinetoKernel& k) { return k.kind == KernelKind::collective; }),
                  21);
        EXPECT_EQ(events.marked_by.size(), 3U);
      }
      if (entry.path().filename() == "kineto_gpu_metrics_input.json") {  // categories of 2021
        EXPECT_EQ(events.kernels_in_file, 30);
      }
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("\n"))) << entry.path();
    }
    // Three steps of data-parallel training are a pipeline of one rank and one micro-batch; no other file is.
    const std::string line = complaint(program_of("gpipe", {1, 1, 1}), {entry.path()});
    EXPECT_EQ(line == "no complaint", entry.path().filename() == "hta_nccl_data.json.gz") << line;
  }
  EXPECT_GE(loaded, 11);
}

std::int64_t peak_memory_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  }
  return 0;
}

// The file is written event by event and read as it streams: memory grows by blocks and kept kernels, not by the file.
void stream(const std::filesystem::path& file, std::int64_t bytes, std::int64_t most_kib) {
  SyntheticRun run = run_of(program_of("gpipe", {1, 1, 1}));
  const std::string text = run.file_of(Rank{0}, 1000);
  const auto first = text.find("{\"ph\""), last = text.find("{\"ph\": \"X\", \"cat\": \"kernel\"");
  {
    std::ofstream out(file, std::ios::binary);
    out << text.substr(0, first);
    const std::string padding = text.substr(first, last - first);
    for (std::int64_t written = 0; written < bytes; written += static_cast<std::int64_t>(padding.size()))
      out << padding;
    out << text.substr(last);
  }
  const std::int64_t before = peak_memory_kib();
  const std::vector<std::filesystem::path> files{file};
  expect_truth(run, read_kineto(run.program, files));
  EXPECT_LT(peak_memory_kib() - before, most_kib) << "of a file of " << bytes << " bytes";
}

TEST_F(Kineto, StreamsTwentyMegabytesInTwo) { stream(folder_ / "large.json", 20'000'000, 2048); }

using LongKineto = Kineto;
TEST_F(LongKineto, StreamsTwoHundredMegabytesInTwo) { stream(folder_ / "large.json", 200'000'000, 2048); }

}  // namespace
}  // namespace weir
