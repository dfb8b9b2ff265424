// Traces there and back, idle accounting on a worked example and on random programs, and
// comparison.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "tests/plan/unsealed.hpp"
#include "traces/chrome_json.hpp"
#include "traces/compare.hpp"
#include "traces/metrics.hpp"
#include "traces/perfetto.hpp"

namespace weir::traces_test {
namespace {

using testing::HasSubstr;

Program two_ranks(bool optimizer) {
  LoweringOptions options;
  options.optimizer = optimizer;
  return lower(std::get<Schedule>(make_schedule("gpipe", {2, 1, 1})), options);
}

// Spans by action name, in ns.
Trace trace_of(const Program& program, const std::map<std::string, std::pair<int, int>>& times,
               int end) {
  Trace trace;
  trace.ranks = program.shape().ranks;
  trace.steps = {{Nanoseconds(0), Nanoseconds(end)}};
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto id = OperationId{i};
    const Lane& lane = program.lane_of(id);
    const auto [start, stop] = times.at(to_string(program.op(OperationId{i}).action));
    trace.spans.push_back({id, program.op(OperationId{i}).action, lane.rank, lane.kind, lane.rank,
                           0, Nanoseconds(start), Nanoseconds(stop)});
  }
  return trace;
}

//            0    10   13       23        41  43  44       62  64  66
//  rank 0    F0...     (F sent 10-13)         wait         |B0 44-62| O 64-66
//  rank 1         wait    |F0 13-23|B0 23-41|  (B sent 41-43)         O 41-45
// Rank 0: its gap 10-44 ends in its first backward, so fill; the gradient was in flight 41-43:
// communication 2; it was there at 43 and B0 began at 44: host 1; 31 fill. The gap 62-64 after its
// last compute action: nothing awaited, host 2. Rank 1: gap 0-13: 10-13 in flight, communication 3,
// fill 10. Its optimizer follows at once; 45-66 waits: optimizer 21.
TEST(Metrics, WorkedExampleOfIdleTime) {
  const Program program = two_ranks(true);
  const Trace trace = trace_of(program,
                               {{"0F0", {0, 10}},
                                {"0B0", {44, 62}},
                                {"0OPTIMIZER", {64, 66}},
                                {"0SEND_F0", {10, 11}},
                                {"0RECV_B0", {41, 43}},
                                {"1F0", {13, 23}},
                                {"1B0", {23, 41}},
                                {"1OPTIMIZER", {41, 45}},
                                {"1SEND_B0", {41, 42}},
                                {"1RECV_F0", {10, 13}}},
                               66);
  const StepMetrics metrics = step_metrics(program, trace);
  const auto ns = [](int value) { return Nanoseconds(value); };
  EXPECT_EQ(metrics.step_time, ns(66));
  EXPECT_EQ(metrics.span, ns(62));
  EXPECT_EQ(metrics.ranks[0].busy, ns(30));
  EXPECT_EQ(metrics.ranks[0].idle,
            (IdleTime{.fill = ns(31), .communication = ns(2), .host = ns(3)}));
  EXPECT_EQ(metrics.ranks[1].busy, ns(32));
  EXPECT_EQ(metrics.ranks[1].idle,
            (IdleTime{.fill = ns(10), .communication = ns(3), .optimizer = ns(21)}));
  EXPECT_DOUBLE_EQ(metrics.bubble_fraction, 1 - 31.0 / 66);
}

// Whatever the times, busy and idle fill the step exactly.
TEST(Metrics, PartsSumToTheStepForRandomTimes) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    const Program program = two_ranks(trial % 2 == 0);
    const auto draw = [&random] { return std::uniform_int_distribution<int>(0, 30)(random); };
    std::map<std::string, std::pair<int, int>> times;
    int end = 0;
    for (const Lane& lane : program.lanes()) {
      int now = draw();
      for (const OperationId id : lane.operations()) {
        const int start = now + draw();
        now = start + draw();
        times[to_string(program.op(id).action)] = {start, now};
        end = std::max(end, now);
      }
    }
    const StepMetrics metrics = step_metrics(program, trace_of(program, times, end + draw()));
    for (const RankMetrics& rank : metrics.ranks) {
      ASSERT_EQ(rank.busy + rank.idle.total(), metrics.step_time) << "seed 11, trial " << trial;
    }
  }
}

Trace sample() {
  const Program program = two_ranks(false);
  Trace trace = trace_of(program,
                         {{"0F0", {0, 1234567}},
                          {"0B0", {4, 6}},
                          {"0SEND_F0", {1, 1}},
                          {"0RECV_B0", {4, 4}},
                          {"1F0", {2, 3}},
                          {"1B0", {3, 4}},
                          {"1SEND_B0", {4, 4}},
                          {"1RECV_F0", {1, 2}}},
                         1234567);
  trace.origin = TraceOrigin::measured;
  trace.counters = {
      {"memory", Rank{1}, CounterUnit::bytes, {{Nanoseconds(0), 64}, {Nanoseconds(5), 128}}}};
  trace.info = {{"machine", "a \"quoted\" name"}, {"seed", "1"}};
  return trace;
}

TEST(ChromeJson, IsReadBackToTheLastNanosecond) {
  const Trace trace = sample();
  EXPECT_EQ(parse_chrome_json(to_chrome_json(trace), "t.json"), trace);
}

// Whichever bit it is: forecasts are not learnt from times that nobody measured. Somebody who edits
// a trace takes its seal out.
TEST(ChromeJson, ADamagedTraceIsRefused) {
  const std::string whole = to_chrome_json(sample());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string text = whole;
    text[at] = static_cast<char>(text[at] ^ (1 << at % 7));
    // A bit of the seal's own key: the trace is then one without, or has a key that none has.
    if (at >= whole.rfind("\"sha256\"") && at < whole.rfind("\"sha256\"") + 8) continue;
    EXPECT_THROW(static_cast<void>(parse_chrome_json(text, "t.json")), InputError) << text;
  }
  std::string edited = unsealed(whole);
  edited.replace(edited.find("\"end_ns\":1234567"), 16, "\"end_ns\":1234568");
  EXPECT_EQ(parse_chrome_json(edited, "t.json").spans[0].end, Nanoseconds(1234568));
}

TEST(ChromeJson, RefusesWhatItDidNotWrite) {
  const auto complaint = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(parse_chrome_json(text, "t.json"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint("{\"traceEvents\": []}"), HasSubstr("t.json: weir: is missing"));
  EXPECT_THAT(complaint("{\"traceEvents\": ["), HasSubstr("t.json: no valid JSON"));
  std::string text = unsealed(to_chrome_json(sample()));
  text.replace(text.find("\"0F0\""), 5, "\"0G0\"");
  EXPECT_THAT(complaint(text), HasSubstr("traceEvents[")) << text;
}

// A reader of the wire format just deep enough to count packets and their slice begins and ends.
TEST(Perfetto, EverySliceBeginsAndEnds) {
  const Trace trace = sample();
  const std::array<const Trace*, 2> both{&trace, &trace};
  const std::string bytes = to_perfetto(both);
  std::size_t at = 0;
  const auto varint = [&](std::size_t& p, const std::string& from) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(from.at(p++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  int begins = 0, ends = 0;
  while (at < bytes.size()) {
    ASSERT_EQ(varint(at, bytes), 0x0AU);  // Trace.packet
    const std::size_t size = varint(at, bytes);
    const std::string packet = bytes.substr(at, size);
    at += size;
    for (std::size_t p = 0; p < packet.size();) {
      const std::uint64_t tag = varint(p, packet);
      if (tag % 8 == 0) {
        varint(p, packet);
      } else {
        ASSERT_EQ(tag % 8, 2U);
        const std::size_t length = varint(p, packet);
        if (tag / 8 == 11) {  // TrackEvent: its type is written first
          begins += packet[p + 1] == 1;
          ends += packet[p + 1] == 2;
        }
        p += length;
      }
    }
  }
  EXPECT_EQ(begins, 16);  // eight spans in each of two traces
  EXPECT_EQ(ends, 16);
}

// Rank 0's B takes 5 ns longer than predicted and rank 1's F 2 ns less; the step grows by 3, and
// the parts sum to it.
TEST(Compare, TheWaterfallSums) {
  const Program program = two_ranks(false);
  const Trace predicted = trace_of(program,
                                   {{"0F0", {0, 10}},
                                    {"0B0", {40, 60}},
                                    {"0SEND_F0", {10, 10}},
                                    {"0RECV_B0", {40, 40}},
                                    {"1F0", {10, 20}},
                                    {"1B0", {20, 40}},
                                    {"1SEND_B0", {40, 40}},
                                    {"1RECV_F0", {10, 10}}},
                                   60);
  Trace measured = trace_of(program,
                            {{"0F0", {0, 10}},
                             {"0B0", {38, 63}},
                             {"0SEND_F0", {10, 10}},
                             {"0RECV_B0", {38, 38}},
                             {"1F0", {10, 18}},
                             {"1B0", {18, 38}},
                             {"1SEND_B0", {38, 38}},
                             {"1RECV_F0", {10, 10}}},
                            63);
  const Comparison comparison = compare(program, predicted, measured);
  EXPECT_DOUBLE_EQ(comparison.error.value(), (60.0 - 63) / 63);
  double total = 0;
  for (const WaterfallPart& part : comparison.waterfall) {
    total += part.difference.count();
    if (part.cause == "B") {  // 5 ns on one of two ranks
      EXPECT_NEAR(part.difference.count(), 2.5e-9, 1e-15);
    }
    if (part.cause == "F") {
      EXPECT_NEAR(part.difference.count(), -1e-9, 1e-15);
    }
  }
  EXPECT_NEAR(total, 3e-9, 1e-15);

  // A second step, the same but for an end 4 ns later: the median is 65, two beyond the first step.
  Trace later = measured;
  later.steps[0].end += Nanoseconds(4);
  append(measured, later);
  ASSERT_EQ(measured.steps.size(), 2U);
  EXPECT_EQ(measured.steps[1].start, Nanoseconds(63));
  EXPECT_EQ(measured.spans.back().start, later.spans.back().start + Nanoseconds(63));
  const Comparison two = compare(program, predicted, measured);
  EXPECT_DOUBLE_EQ(two.measured.count(), 65e-9);
  EXPECT_EQ(two.typical_step, 0);
  EXPECT_EQ(two.waterfall.back().cause, "median of two steps");
  total = 0;
  for (const WaterfallPart& part : two.waterfall) total += part.difference.count();
  EXPECT_NEAR(total, 5e-9, 1e-15);
}

}  // namespace
}  // namespace weir::traces_test
