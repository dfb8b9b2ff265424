// What `weir run --kernels` prints, on a worked example; and where it is refused.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/kernels_json.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"
#include "tools/weir/print/kernels_text.hpp"

namespace weir::kernels_json_test {
namespace {

using testing::HasSubstr;

Span span(const char* action, std::int64_t start_us, std::int64_t end_us) {
  return {OperationId{0},
          parse_action(action).value(),
          Rank{0},
          LaneKind::compute,
          Rank{0},
          0,
          Nanoseconds(1000 * start_us),
          Nanoseconds(1000 * end_us)};
}

Trace one_rank() {
  Trace trace;
  trace.ranks = 1;
  trace.steps = {{Nanoseconds(0), Nanoseconds(400'000)}};
  trace.spans = {span("0F0", 0, 100), span("0B0", 100, 300)};
  return trace;
}

KernelSpan kernel(const std::string& name, std::size_t action, std::int64_t start_us,
                  std::int64_t end_us) {
  return {name, DeviceWork::kernel, action, Nanoseconds(1000 * start_us),
          Nanoseconds(1000 * end_us)};
}

// 0F0 of 100 us runs "a" for 40 and "b" for 20: 40 % of it nothing. 0B0 of 200 us runs "b" for 140:
// 30 %. In all 200 us: "b" 160, "a" 40.
KernelTrace worked_example() {
  KernelTrace kernels;
  kernels.spans = {kernel("a", 0, 10, 50), kernel("b", 0, 60, 80), kernel("b", 1, 130, 270)};
  kernels.outside = 5;
  kernels.uncertainty = Nanoseconds(1500);
  return kernels;
}

TEST(KernelsJson, HasBothTables) {
  const auto json = kernels_json(one_rank(), worked_example());
  EXPECT_DOUBLE_EQ(json["total_s"], 200e-6);
  ASSERT_EQ(json["by_name"].size(), 2U);
  EXPECT_EQ(json["by_name"][0]["name"], "b");
  EXPECT_EQ(json["by_name"][0]["calls"], 2);
  EXPECT_DOUBLE_EQ(json["by_name"][0]["total_s"], 160e-6);
  EXPECT_DOUBLE_EQ(json["by_name"][0]["share"], 0.8);
  EXPECT_EQ(json["others"]["names"], 0);
  ASSERT_EQ(json["by_action"].size(), 2U);
  EXPECT_EQ(json["by_action"][1]["action"], "B");
  EXPECT_EQ(json["by_action"][1]["kernels"], 1);
  EXPECT_DOUBLE_EQ(json["by_action"][1]["time_s"], 200e-6);
  EXPECT_DOUBLE_EQ(json["by_action"][1]["idle_share"], 0.3);
  EXPECT_EQ(json["outside_actions"], 5);
  EXPECT_EQ(json["dropped_records"], 0);
  EXPECT_DOUBLE_EQ(json["clock"]["uncertainty_s"], 1.5e-6);
  EXPECT_DOUBLE_EQ(json["clock"]["overhang_s"], 0);
}

TEST(KernelsText, SaysTheSame) {
  const std::string text = kernels_text(one_rank(), worked_example());
  EXPECT_THAT(
      text,
      HasSubstr(
          "3 kernels, copies and fills in 1 steps, 200 us in all; 5 ran outside of actions\n"));
  EXPECT_THAT(text, HasSubstr("  b                                                               2 "
                              "    160 us   80.0 %\n"));
  EXPECT_THAT(text, HasSubstr("  F                 1        2     100 us           40.0 %\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "clocks joined to within 1.5 us; kernels reach beyond their action by up to 0.0 us\n"));
}

// 22 names: twenty rows and the other two in one. A long name is cut to 56 letters, its head and
// its tail kept.
TEST(KernelsText, CutsWhatIsLong) {
  KernelTrace kernels;
  const std::string name = "head_of_a_name" + std::string(80, 'x') + "tail_NNT";
  kernels.spans.push_back(kernel(name, 1, 100, 299));
  for (int i = 0; i < 21; ++i)
    kernels.spans.push_back(kernel("k" + std::to_string(i), 0, i, i + 1));
  kernels.dropped = 7;
  const std::string text = kernels_text(one_rank(), kernels);
  EXPECT_THAT(text, HasSubstr("\n  head_of_a_name" + std::string(22, 'x') + "..." +
                              std::string(9, 'x') + "tail_NNT  "));
  EXPECT_THAT(text, HasSubstr("\n  (2 others)  "));
  EXPECT_THAT(text,
              HasSubstr("; 7 records were dropped, so kernels are missing: run fewer steps\n"));
}

using RunKernels = InFolder;

TEST_F(RunKernels, NeedsAGpuAndNoGraphs) {
  write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,"vocab_size":32,)"
                     R"("n_positions":8})");
  ASSERT_EQ(weir("plan tiny.json -K 1 -M 2 -o plan.json").code, 0);
  const CommandResult cpu = weir("run plan.json --kernels");
  EXPECT_EQ(cpu.code, 2);
  EXPECT_EQ(cpu.out, "weir: kernels: what a GPU runs is recorded; the cpu backend has no GPU\n");
  const CommandResult graphs = weir("run plan.json --backend cuda --kernels --graphs");
  EXPECT_EQ(graphs.code, 2);
  EXPECT_THAT(graphs.out, HasSubstr("kernels and graphs exclude each other"));
}

}  // namespace
}  // namespace weir::kernels_json_test
