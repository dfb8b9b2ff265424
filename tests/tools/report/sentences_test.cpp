// What is zero everywhere, or a single row, is a sentence of a page and no table; and what the
// letters of a plan's name are is said where the first of them stands.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/job/summary.hpp"
#include "tools/report/breakdown.hpp"
#include "tools/report/pages/report.hpp"

namespace weir::sentences_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(BubbleTable, OfNothingIdleIsASentence) {
  const BubbleColumn none{"predicted", {}};
  EXPECT_EQ(bubble_table({none}), "<p>No rank is ever idle: the bubble is 0.</p>\n");
  EXPECT_EQ(bubble_table({none, none}), bubble_table({none}));
  BubbleColumn measured{"measured", {}};
  measured.shares[1] = 0.25;  // of drain alone
  EXPECT_THAT(bubble_table({none, measured}),
              AllOf(HasSubstr("<td>drain</td><td>0.00 %</td><td>25.00 %</td>"),
                    HasSubstr("<td>bubble</td><td>0.00 %</td><td>25.00 %</td>")));
}

RankMemory holding(double gib) {
  RankMemory rank;
  rank.peak = Bytes(static_cast<std::int64_t>(gib * (1 << 30)));
  rank.at_peak[MemoryKind::weights] = rank.peak;
  return rank;
}

// Of several ranks a kind that none of them holds is no column.
TEST(MemoryTable, OfOneRankIsASentence) {
  EXPECT_EQ(memory_table({holding(3)}),
            "<p>The one rank holds 3.00 GiB at its peak: weights 3.00 GiB.</p>\n");
  const std::string two = memory_table({holding(3), holding(2)});
  EXPECT_THAT(two, HasSubstr("<tr><th>rank</th><th>weights</th><th>peak</th></tr>"));
  EXPECT_THAT(two, HasSubstr("<td>1</td><td>2.00 GiB</td><td>2.00 GiB</td>"));
}

TEST(ChangesTable, OfOneChangeIsASentence) {
  EXPECT_EQ(changes_table({{"pp", "1", "<2>"}}, "present plan"),
            "<p>Only pp: 1 (present plan), &lt;2&gt; (best plan).</p>\n");
  EXPECT_EQ(changes_table({{"note", "", "mine"}}, "present plan", "fastest plan"),
            "<p>Only note: - (present plan), mine (fastest plan).</p>\n");
  EXPECT_THAT(changes_table({{"pp", "1", "2"}, {"vpp", "1", "3"}}, "present plan"),
              AllOf(HasSubstr("<table"), HasSubstr("<td>vpp</td><td>1</td><td>3</td>")));
}

// One rank that computes for 4 s, as was forecast but for the parts of `differs`.
Report one_plan(std::vector<WaterfallPart> differs) {
  ReportRow row{.plan = "K1 M4 b1 1f1b", .baseline = true, .measured = Seconds(4)};
  row.forecast.step_time = Seconds(4);
  row.forecast.memory = {holding(1)};
  row.measured_peak = Bytes(2LL << 30);
  RankMetrics rank;
  rank.busy = std::chrono::seconds(4);
  row.forecast.metrics.ranks = {rank};
  row.comparison.predicted = row.comparison.measured = Seconds(4);
  row.comparison.predicted_metrics = row.comparison.measured_metrics = row.forecast.metrics;
  row.comparison.waterfall = std::move(differs);
  row.predicted = row.run = Trace{.ranks = 1, .steps = {{Nanoseconds(0), rank.busy}}};
  return {.model = "m", .machine = "here", .costs_origin = "measured", .rows = {row}};
}

// A report of K = 1 alone: its page has no table of zeros, and none of a single row.
TEST(TuneReport, OfOneRankAloneHasNoTable) {
  const std::string page = report_html(one_plan({}));
  EXPECT_THAT(page, Not(HasSubstr("<tr>")));
  EXPECT_THAT(page, HasSubstr("<p>K1 M4 b1 1f1b alone: predicted 4 s, measured 4 s (+0.0 %); peak "
                              "memory predicted 1.00 GiB, measured 2.00 GiB; bubble predicted 0.0 "
                              "%, measured 0.0 %.</p>"));
  EXPECT_THAT(page, HasSubstr("<p>No rank is ever idle.</p>"));
  EXPECT_THAT(page, HasSubstr("<p>From predicted 4 s to the measured step, averaged over ranks: no "
                              "difference.</p>"));
}

// A fifth of a microsecond is nothing, as parts are written; two that are something are a table.
TEST(TuneReport, OnePartThatDiffersIsASentence) {
  EXPECT_THAT(report_html(one_plan({{"F", Seconds(0.002)}, {"B", Seconds(2e-7)}})),
              HasSubstr("averaged over ranks: +2.000 ms of F.</p>"));
  EXPECT_THAT(report_html(one_plan({{"F", Seconds(0.002)}, {"B", Seconds(-0.001)}})),
              HasSubstr("<tr><td>F</td><td>+2.000 ms</td></tr>\n<tr><td>B</td><td>-1.000 ms</td>"));
}

// Of the letters only those that stand in a name; a schedule's "zb-h1" has no b of samples.
TEST(Legend, SaysTheLettersThatAreThere) {
  EXPECT_EQ(legend_of_summaries({"K2 M4 zb-h1"}),
            "K ranks of the pipeline, M micro-batches a step; then the schedule and what else the "
            "plan has");
  const std::string whole =
      legend_of_summaries({"K1 M4 b1 1f1b", "K4 v2 tp8s cp2 dp4 ep8 zero1 M64 b1 1f1b [11,21]"});
  for (const char* said :
       {"v stages a rank", "tp tensor-parallel devices", "cp context-parallel devices",
        "dp replicas", "ep devices that share experts", "zero stage of ZeRO",
        "b samples a micro-batch", "in brackets the layers at which further stages begin"})
    EXPECT_THAT(whole, HasSubstr(said));
  EXPECT_THAT(report_html(one_plan({})), HasSubstr("<p class=\"note\">Plans in short: K ranks"));
}

}  // namespace
}  // namespace weir::sentences_test
