// Tests of Kineto files: a folder of their own, the run they are written from, and whether what was
// read is that run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "tests/traces/kineto_files.hpp"
#include "traces/kineto/kineto.hpp"

namespace weir {

inline Program program_of(const std::string& schedule, ScheduleRequest request,
                          const LoweringOptions& options = {}) {
  return lower(std::get<Schedule>(make_schedule(schedule, request)), options);
}

class Kineto : public testing::Test {
 protected:
  Kineto()
      : folder_(std::filesystem::temp_directory_path() /
                ("weir-kineto-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Kineto() override { std::filesystem::remove_all(folder_); }

  // Every other rank's file is gzip; the last rank comes first.
  std::vector<std::filesystem::path> write(const SyntheticRun& run) {
    std::vector<std::filesystem::path> files;
    for (std::int32_t r = run.program.shape().ranks - 1; r >= 0; --r) {
      files.push_back(folder_ /
                      (r % 2 == 0 ? fmt::format("{}.json", r) : fmt::format("{}.json.gz", r)));
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
      for (auto at = what.find(prefix); at != what.npos; at = what.find(prefix))
        what.erase(at, prefix.size());
      return what;
    }
    return "no complaint";
  }

  std::filesystem::path folder_;
};

// Clocks of three machines: seconds apart, and not even from one base.
inline SyntheticRun run_of(Program program) {
  SyntheticRun run;
  run.clock_ns = {0, 3'141'592'653, -77'000'111, 500'000};
  run.base_ns = {1'700'000'000'000'000'000, 1'700'000'001'000'000'000, 1'700'000'000'000'000'000};
  run.end_jitter_ns = 600;
  run.program = std::move(program);
  run.lay_out();
  return run;
}

// Durations of what is computed come back to the nanosecond, for they lie on one clock. Between
// clocks, ends of messages are up to `end_jitter_ns` apart, and so may be what was aligned by them:
// once per rank passed on the way.
inline void expect_truth(SyntheticRun& run, const KinetoTrace& found) {
  const std::size_t count = run.program.size();
  ASSERT_EQ(found.trace.steps.size(), static_cast<std::size_t>(run.steps));
  ASSERT_EQ(found.trace.spans.size(), count * static_cast<std::size_t>(run.steps));
  EXPECT_EQ(found.trace.origin, TraceOrigin::measured);
  EXPECT_LE(found.alignment_error.count(), run.end_jitter_ns);
  const std::int64_t slack = run.end_jitter_ns * (run.program.shape().ranks - 1);
  // The first action of all: the trace's time 0 is the earliest start on any lane.
  const std::int64_t origin = run.truth[0][0].start - found.trace.spans[0].start.count();
  for (std::size_t i = 0; i < found.trace.spans.size(); ++i) {
    const Span& span = found.trace.spans[i];
    const SyntheticRun::Time& true_time = run.truth[i / count][i % count];
    const auto context =
        fmt::format("{} of step {}, rank {}", to_string(span.action), span.step, span.rank.value);
    ASSERT_EQ(span.operation, OperationId{i % count});
    ASSERT_EQ(span.action, run.program.op(OperationId{i % count}).action);
    ASSERT_EQ(span.step, static_cast<std::int32_t>(i / count));
    EXPECT_NEAR(static_cast<double>(span.end.count() + origin), static_cast<double>(true_time.end),
                static_cast<double>(slack))
        << context;
    if (span.lane == LaneKind::compute) {
      EXPECT_EQ(span.duration().count(), true_time.end - true_time.start) << context;
    } else if (span.lane == LaneKind::send && run.sending == Sending::alone) {
      // Without the waiting of the end that was ready first.
      EXPECT_NEAR(static_cast<double>(span.duration().count()),
                  static_cast<double>(run.transfer_ns), static_cast<double>(slack))
          << context;
      EXPECT_NE(span.peer, span.rank);
    }
  }
}

}  // namespace weir
