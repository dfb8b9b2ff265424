// Kernels joined to the actions that launched them, and the tables of them, on worked examples.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kernels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "traces/chrome_json.hpp"
#include "traces/kernel_name.hpp"
#include "traces/kernel_table.hpp"

namespace weir::kernels_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Nanoseconds ns(std::int64_t count) { return Nanoseconds(count); }

Span span(std::int32_t rank, const char* action, std::int64_t start, std::int64_t end,
          std::int32_t step = 0) {
  return {OperationId{0}, parse_action(action).value(),
          Rank{rank},     LaneKind::compute,
          Rank{rank},     step,
          ns(start),      ns(end)};
}

// Two ranks, one step, ns.
Trace two_ranks() {
  Trace trace;
  trace.ranks = 2;
  trace.steps = {{ns(0), ns(1000)}};
  trace.spans = {span(0, "0F0", 100, 200), span(0, "0B0", 600, 800), span(1, "1F0", 210, 300)};
  return trace;
}

KernelRecord record(const char* name, const char* action, std::int64_t start, std::int64_t end,
                    std::int32_t step = 0) {
  return {name, DeviceWork::kernel, step, action, ns(start), ns(end)};
}

// The recorder's clock is 5000 ahead. Rank 0: 0F0 is 100-200, its kernels 5104-5190, so the shift
// is at least 100 - 5104 = -5004 and at most 200 - 5190 = -4990; 0B0 is 600-800, its kernel
// 5602-5796, so from -5002 to -4996. Both leave -5002 to -4996: -4999, give or take 3. Rank 1: 210
// - 5212 = -5002 to 300 - 5298 = -4998: -5000, give or take 2.
TEST(Kernels, AreMovedOntoTheTracesClock) {
  const Trace trace = two_ranks();
  KernelRecords recorded;
  recorded.records = {record("b", "0B0", 5602, 5796), record("f2", "0F0", 5150, 5190),
                      record("g", "1F0", 5212, 5298), record("f1", "0F0", 5104, 5140)};
  recorded.outside = 4;
  recorded.dropped = 2;
  const KernelTrace joined = join_kernels(trace, recorded);
  EXPECT_THAT(joined.spans, ElementsAre(KernelSpan{"f1", DeviceWork::kernel, 0, ns(105), ns(141)},
                                        KernelSpan{"f2", DeviceWork::kernel, 0, ns(151), ns(191)},
                                        KernelSpan{"b", DeviceWork::kernel, 1, ns(603), ns(797)},
                                        KernelSpan{"g", DeviceWork::kernel, 2, ns(212), ns(298)}));
  EXPECT_EQ(joined.uncertainty, ns(3));
  EXPECT_EQ(joined.overhang, ns(0));
  EXPECT_EQ(joined.outside, 4);
  EXPECT_EQ(joined.dropped, 2);
}

// 0F0 asks for a shift of 100 - 5090 = -4990 or more, 0B0 for 800 - 5806 = -5006 or less: the
// middle of the contradiction is -4998, and each sticks out by 8: 5090 - 4998 = 92 for 100, 5806 -
// 4998 = 808 for 800.
TEST(Kernels, ThatNoShiftPlacesStickOutAlike) {
  KernelRecords recorded;
  recorded.records = {record("f", "0F0", 5090, 5180), record("b", "0B0", 5610, 5806)};
  const KernelTrace joined = join_kernels(two_ranks(), recorded);
  EXPECT_EQ(joined.spans[0].start, ns(92));
  EXPECT_EQ(joined.spans[1].end, ns(808));
  EXPECT_EQ(joined.overhang, ns(8));
  EXPECT_EQ(joined.uncertainty, ns(0));
}

// Each step has a shift of its own (the clocks may drift): -5000 in the first, -5100 in the second.
TEST(Kernels, AreMovedStepByStep) {
  Trace trace;
  trace.ranks = 1;
  trace.steps = {{ns(0), ns(100)}, {ns(100), ns(200)}};
  trace.spans = {span(0, "0F0", 10, 50, 0), span(0, "0F0", 110, 150, 1)};
  KernelRecords recorded;
  recorded.records = {record("f", "0F0", 5212, 5248, 1), record("f", "0F0", 5012, 5048, 0),
                      record("f", "0F0", 7000, 7001, 2)};  // the trace has no third step
  const KernelTrace joined = join_kernels(trace, recorded);
  EXPECT_THAT(joined.spans, ElementsAre(KernelSpan{"f", DeviceWork::kernel, 0, ns(12), ns(48)},
                                        KernelSpan{"f", DeviceWork::kernel, 1, ns(112), ns(148)}));
  EXPECT_EQ(joined.uncertainty, ns(2));
  EXPECT_EQ(joined.outside, 1);
}

TEST(Kernels, NothingRecordedIsNothingJoined) {
  const KernelTrace joined = join_kernels(two_ranks(), {});
  EXPECT_TRUE(joined.spans.empty());
  EXPECT_EQ(joined.uncertainty, ns(0));
  const KernelTable table = tabulate(two_ranks(), joined);
  EXPECT_TRUE(table.kernels.empty());
  EXPECT_DOUBLE_EQ(table.actions.front().idle_share(), 1);
}

// Of 100-200: 90-110 covers 10 of it, 120-150 and 140-160 together 40, 190-250 another 10; 40 is
// left.
TEST(Uncovered, IsWhatTheUnionLeaves) {
  EXPECT_EQ(
      uncovered(ns(100), ns(200),
                {{ns(140), ns(160)}, {ns(90), ns(110)}, {ns(190), ns(250)}, {ns(120), ns(150)}}),
      ns(40));
  EXPECT_EQ(uncovered(ns(100), ns(200), {}), ns(100));
  EXPECT_EQ(uncovered(ns(100), ns(200), {{ns(0), ns(300)}}), ns(0));
  EXPECT_EQ(uncovered(ns(100), ns(200), {{ns(0), ns(100)}, {ns(200), ns(300)}}), ns(100));
}

// Against counting every nanosecond.
TEST(Uncovered, IsWhatCountingFinds) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<Nanoseconds, Nanoseconds>> intervals;
    for (unsigned i = random() % 6; i > 0; --i) {
      const auto start = static_cast<std::int64_t>(random() % 60);
      intervals.emplace_back(ns(start), ns(start + static_cast<std::int64_t>(random() % 20)));
    }
    std::int64_t free = 0;
    for (std::int64_t t = 15; t < 50; ++t) {
      bool covered = false;
      for (const auto& [from, to] : intervals) covered = covered || (from <= ns(t) && ns(t) < to);
      free += covered ? 0 : 1;
    }
    ASSERT_EQ(uncovered(ns(15), ns(50), intervals), ns(free)) << "round " << round;
  }
}

// 0F0 lasts 100, its kernels 30 + 30; 0B0 lasts 200, its kernel 140; 1F0 lasts 90 and ran none. 60
// of 200 is "a", called twice, 140 is "b". Without a kernel: F 40 + 90 of 190, B 60 of 200.
TEST(KernelTable, WorkedExample) {
  const Trace trace = two_ranks();
  KernelTrace kernels;
  kernels.spans = {{"a", DeviceWork::kernel, 0, ns(110), ns(140)},
                   {"a", DeviceWork::kernel, 0, ns(150), ns(180)},
                   {"b", DeviceWork::copy, 1, ns(630), ns(770)}};
  const KernelTable table = tabulate(trace, kernels);
  ASSERT_EQ(table.kernels.size(), 2U);
  EXPECT_EQ(table.kernels[0].name, "b");
  EXPECT_EQ(table.kernels[0].calls, 1);
  EXPECT_DOUBLE_EQ(table.kernels[0].share, 0.7);
  EXPECT_EQ(table.kernels[1].calls, 2);
  EXPECT_EQ(table.kernels[1].total, ns(60));
  EXPECT_EQ(table.total, ns(200));
  EXPECT_EQ(table.other_names, 0U);
  ASSERT_EQ(table.actions.size(), 2U);
  EXPECT_EQ(table.actions[0].kind, ActionKind::F);
  EXPECT_EQ(table.actions[0].actions, 2);
  EXPECT_EQ(table.actions[0].kernels, 2);
  EXPECT_EQ(table.actions[0].time, ns(190));
  EXPECT_EQ(table.actions[0].idle, ns(130));
  EXPECT_DOUBLE_EQ(table.actions[1].idle_share(), 0.3);
}

// Equal totals stand in the order of their names; what is beyond the rows asked for is summed.
TEST(KernelTable, SumsWhatIsBeyondItsRows) {
  KernelTrace kernels;
  for (const char* name : {"d", "c", "b", "a"}) {
    kernels.spans.push_back({name, DeviceWork::kernel, 0, ns(100), ns(name[0] == 'd' ? 140 : 120)});
  }
  const KernelTable table = tabulate(two_ranks(), kernels, 2);
  ASSERT_EQ(table.kernels.size(), 2U);
  EXPECT_EQ(table.kernels[0].name, "d");
  EXPECT_EQ(table.kernels[1].name, "a");
  EXPECT_EQ(table.other_names, 2U);
  EXPECT_EQ(table.others.calls, 2);
  EXPECT_EQ(table.others.total, ns(40));
  EXPECT_DOUBLE_EQ(table.others.share, 0.4);
}

// Symbols as nvcc makes them (its unnamed namespaces bear the file's name), as templates of a
// library, and names that are no symbols.
TEST(KernelName, IsTheFunctionWithItsTemplateArguments) {
  EXPECT_EQ(short_kernel_name(
                "_ZN4weir4cuda39_GLOBAL__N__686b2843_7_step_cu_a702022917begin_step_kernelEjPNS0_"
                "11StepNumbersE"),
            "begin_step_kernel");
  EXPECT_EQ(
      short_kernel_name(
          "_ZN4weir4cuda39_GLOBAL__N__81f21fc9_7_sums_cu_4c936b1d22column_partials_kernelIfLi4EEEv"
          "PKT_NS0_4RowsEPf"),
      "column_partials_kernel<float, 4>");
  EXPECT_EQ(
      short_kernel_name("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(T1::Params)"),
      "Kernel2<cutlass_80_tensorop_bf16_s16816gemm>");
  EXPECT_EQ(short_kernel_name("void a::(anonymous namespace)::b<(int)3, c::d<float> >(float*)"),
            "b<(int)3, c::d<float> >");
  EXPECT_EQ(short_kernel_name("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"),
            "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT");
  EXPECT_EQ(short_kernel_name("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_cublas"),
            "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_cublas");
  EXPECT_EQ(short_kernel_name("_Znot_a_symbol"), "_Znot_a_symbol");
}

// Kernels stand in a row of their own below their action's, and the trace is read back without
// them.
TEST(KernelTrace, IsWrittenBelowItsActionsAndReadOver) {
  const Trace trace = two_ranks();
  const std::vector<KernelSpan> kernels{{"say \"hi\"", DeviceWork::kernel, 1, ns(1603), ns(2797)},
                                        {"fill", DeviceWork::fill, 2, ns(212), ns(298)}};
  const std::string text = to_chrome_json(trace, kernels);
  EXPECT_THAT(
      text,
      HasSubstr(
          R"({"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"compute, kernels"}},)"
          R"()"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"({"ph":"X","name":"say \"hi\"","cat":"kernel","pid":0,"tid":1,"ts":1.603,"dur":1.194,)"
          R"("args":{"action":"0B0","step":0}},)"));
  EXPECT_THAT(text, HasSubstr(R"("name":"fill","cat":"fill","pid":1,"tid":1,)"));
  EXPECT_EQ(parse_chrome_json(text, "kernels.json"), trace);
  EXPECT_EQ(to_chrome_json(trace), to_chrome_json(trace, {}));
}

// A copy between devices is launched on the lane of its edge, and its row is below that one.
TEST(KernelTrace, CopiesOfASendHaveARowOfTheirOwn) {
  Trace trace = two_ranks();
  trace.spans.push_back(span(0, "0SEND_F0", 200, 210));
  trace.spans.back().lane = LaneKind::send;
  trace.spans.back().peer = Rank{1};
  const std::vector<KernelSpan> kernels{
      {"copy between devices", DeviceWork::copy, 3, ns(201), ns(209)}};
  EXPECT_THAT(to_chrome_json(trace, kernels),
              HasSubstr(R"("pid":0,"tid":150002,"args":{"name":"send to 1, kernels"}},)"));
}

}  // namespace
}  // namespace weir::kernels_test
