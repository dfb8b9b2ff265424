// Profiles of runs without GPUs: real ones of PyTorch's pipelining over gloo, recorded and cut by
// gloo/record.py. What a range spends on waiting for its input is not the action's.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/text_file.hpp"
#include "tests/traces/kineto_fixture.hpp"

namespace weir::kineto_host_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path kRecorded = WEIR_SOURCE_DIR "/tests/traces/gloo";

std::vector<std::filesystem::path> recorded(const std::string& name) {
  return {kRecorded / (name + "-rank1.json"), kRecorded / (name + "-rank0.json")};
}

std::map<std::string, std::int64_t> durations(const KinetoTrace& found) {
  std::map<std::string, std::int64_t> result;
  for (const Span& span : found.trace.spans) {
    if (span.lane == LaneKind::compute) result[to_string(span.action)] = span.duration().count();
  }
  return result;
}

void expect_sent_before_received(const Program& program, const Trace& trace) {
  for (const Edge& edge : program.edges()) {
    for (const OperationId send : program.lane(edge.send_lane).operations()) {
      const Span& out = trace.spans[send.position()];
      const Span& in = trace.spans[program.peer(send).position()];
      EXPECT_LE(out.start, in.end) << to_string(out.action);
      EXPECT_EQ(out.end, in.end) << to_string(out.action);
    }
  }
}

// "Forward 0" of rank 1 is open for 90.5 ms, of which 90.1 wait for rank 0: its operators run from
// aten::linear at 90,314.017 us to the end of the loss, 269.999 us later.
TEST_F(Kineto, RangesOfGPipeOnCpusAreReadWithoutTheirWaiting) {
  const Program program = program_of("gpipe", {2, 1, 4});
  const KinetoTrace found = read_kineto(program, recorded("gpipe"));
  EXPECT_TRUE(found.on_host);
  EXPECT_TRUE(found.ranks[1].named);
  EXPECT_THAT(found.steps, ElementsAre(1));
  EXPECT_EQ(found.ranks[1].clock_offset, Nanoseconds(0));
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("gloo marks a message until it was waited for")));
  const std::map<std::string, std::int64_t> wanted{
      {"0F0", 289'431}, {"0F1", 457'773}, {"0F2", 133'579}, {"0F3", 110'975},
      {"1F0", 269'999}, {"1F1", 329'650}, {"1F2", 284'095}, {"1F3", 273'799},
      {"0B0", 345'850}, {"0B1", 398'950}, {"0B2", 514'347}, {"0B3", 361'025},
      {"1B0", 611'221}, {"1B1", 681'358}, {"1B2", 301'931}, {"1B3", 272'614}};
  const auto spans = durations(found);
  for (const auto& [action, duration] : wanted)
    EXPECT_NEAR(static_cast<double>(spans.at(action)), static_cast<double>(duration), 2) << action;
  expect_sent_before_received(program, found.trace);
}

// The order that PyTorch 2.15 made for ScheduleInterleaved1F1B(M = 4).
constexpr const char* kInterleaved =
    "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
    "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n";

TEST_F(Kineto, NamedActionsOnCpusAreReadWithoutTheirWaiting) {
  const Program program = lower(parse_schedule_csv(kInterleaved, "interleaved.csv"), {});
  const KinetoTrace found = read_kineto(program, recorded("interleaved"));
  EXPECT_TRUE(found.on_host);
  const auto spans = durations(found);
  // PP:2B0 was open for 58.8 ms and PP:3F0 for 38.4.
  EXPECT_NEAR(static_cast<double>(spans.at("2B0")), 669'344, 2);
  EXPECT_NEAR(static_cast<double>(spans.at("3F0")), 593'706, 2);
  EXPECT_NEAR(static_cast<double>(spans.at("0F2")), 2'487'226, 2);
  EXPECT_NEAR(static_cast<double>(spans.at("1B3")), 371'022, 2);
  expect_sent_before_received(program, found.trace);
}

// ScheduleInterleavedZeroBubble(M = 4). The first stage's input has no gradient: PyTorch leaves all
// of its backward to W, and nothing runs in I.
constexpr const char* kZeroBubble =
    "0F0,0F1,2F0,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2,2I3,2W3,0I2,0W2,0I3,"
    "0W3\n"
    "1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2,1I2,3W3,1I3,1W2,"
    "1W3\n";

TEST_F(Kineto, BackwardsInHalvesOnCpusAreRead) {
  const Program program = lower(parse_schedule_csv(kZeroBubble, "zero-bubble.csv"), {});
  const KinetoTrace found = read_kineto(program, recorded("zero-bubble"));
  const auto spans = durations(found);
  for (const int m : {0, 1, 2, 3}) {
    EXPECT_EQ(spans.at(fmt::format("0I{}", m)), 0) << m;
    EXPECT_GT(spans.at(fmt::format("0W{}", m)), 0) << m;
    EXPECT_GT(spans.at(fmt::format("2I{}", m)), 0) << m;
  }
  EXPECT_THAT(found.notes, Contains(HasSubstr("no kernel of I was found: it takes no time")));
  expect_sent_before_received(program, found.trace);
}

// A machine whose clock is a second behind: it is moved until no message comes before it was sent.
TEST_F(Kineto, AClockIsMovedAsFarAsMessagesDemand) {
  const Program program = program_of("gpipe", {2, 1, 4});
  auto files = recorded("gpipe");
  std::string text = read_text_file(files[0]);
  const std::string base = "\"baseTimeNanoseconds\": 1790857026000000000";
  const auto at = text.find(base);
  ASSERT_NE(at, text.npos);
  text.replace(at, base.size(), "\"baseTimeNanoseconds\": 1790857025000000000");
  files[0] = file(text);
  const KinetoTrace found = read_kineto(program, files);
  const std::int64_t moved = found.ranks[1].clock_offset.count();
  EXPECT_GT(moved, 800'000'000);
  EXPECT_LE(moved, 1'000'000'000);
  EXPECT_EQ(durations(found), durations(read_kineto(program, recorded("gpipe"))));
  expect_sent_before_received(program, found.trace);
}

TEST_F(Kineto, DoubtsAboutTracesOfCpusAreOneLine) {
  const auto refused = [&](const Program& program,
                           const std::vector<std::filesystem::path>& files) {
    std::string line = complaint(program, files);
    return line;
  };
  const auto gpipe = recorded("gpipe");
  EXPECT_THAT(refused(program_of("gpipe", {2, 1, 4}), {gpipe[0]}),
              HasSubstr("the plan has K = 2 ranks and needs a trace of each: rank 0 missing"));
  EXPECT_THAT(refused(program_of("gpipe", {3, 1, 4}), gpipe),
              HasSubstr("the plan has K = 3 ranks and needs a trace of each: rank 2 missing"));
  // Another number of micro-batches, and another depth.
  EXPECT_THAT(
      refused(program_of("gpipe", {2, 1, 5}), gpipe),
      AllOf(HasSubstr("the trace's order and the plan's disagree"),
            HasSubstr("trace: 0F0 0F1 0F2 0F3 [0B0]"), HasSubstr("plan:  0F0 0F1 0F2 0F3 [0F4]")));
  EXPECT_THAT(refused(program_of("interleaved-1f1b", {2, 2, 4}), gpipe),
              HasSubstr("the trace's order and the plan's disagree"));
  // Schedule1F1B opens no range: the same operators without names.
  std::string text = read_text_file(gpipe[1]);
  for (const char* word : {"\"Forward ", "\"Backward "}) {
    for (auto at = text.find(word); at != text.npos; at = text.find(word)) text[at + 1] = '_';
  }
  EXPECT_THAT(refused(program_of("1f1b", {2, 1, 4}), {file(text), gpipe[0]}),
              AllOf(HasSubstr("t.json: traceEvents: holds no GPU kernels, and no range names"),
                    HasSubstr("Schedule1F1B names nothing")));
  // A receive that was never posted.
  std::string unsent = read_text_file(gpipe[1]);
  for (auto at = unsent.find("gloo:recv"); at != unsent.npos; at = unsent.find("gloo:recv"))
    unsent.replace(at, 9, "glue:recv");
  EXPECT_THAT(refused(program_of("gpipe", {2, 1, 4}), {file(unsent), gpipe[0]}),
              HasSubstr("no message of gloo's was posted within the range of 0RECV_B0"));
  SyntheticRun gpu = run_of(program_of("gpipe", {2, 1, 4}));
  gpu.steps = 1;
  gpu.first_step = 1;
  gpu.lay_out();
  EXPECT_THAT(refused(gpu.program, {file(gpu.file_of(Rank{0})), gpipe[0]}),
              HasSubstr("gpipe-rank1.json: traceEvents: holds no GPU kernels, and rank 0's file"));
}

}  // namespace
}  // namespace weir::kineto_host_test
