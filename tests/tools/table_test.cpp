// Tables laid out by hand, and what the command makes of them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/print/table.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/commands/command.hpp"
#include "tools/weir/print/terminal_timeline.hpp"

namespace weir::table_test {
namespace {

using testing::HasSubstr;
using testing::Not;

const Table kPlans{{left("plan"), {"step"}, {"measured"}, {"memory"}},
                   {{"K=1 M=8 gpipe recompute=stage", number(2.5, "2.5 s", "s"), "-",
                     number(0x3p30, "3 GiB", "bytes")},
                    {"K=4, M=8", number(1.5, "1.5 s", "s"), "-", number(0x1p30, "1 GiB", "bytes")}},
                   1};

TEST(Table, WhatSaysNothingIsLeftOutAndTheBestIsMarked) {
  EXPECT_EQ(columns_text(kPlans, std::nullopt),
            "  plan                            step  memory\n"
            "  K=1 M=8 gpipe recompute=stage  2.5 s   3 GiB\n"
            "* K=4, M=8                       1.5 s   1 GiB\n");
}

// 42 characters: 2 for the mark, 5 + 6 for the numbers, 4 for gaps leave 25 for the plan.
TEST(Table, TextsAreCutInTheMiddleToFit) {
  EXPECT_EQ(columns_text(kPlans, 42),
            "  plan                        step  memory\n"
            "  K=1 M=8 gpi...mpute=stage  2.5 s   3 GiB\n"
            "* K=4, M=8                   1.5 s   1 GiB\n");
}

// 35 characters are not enough for a plan of 24 and both numbers.
TEST(Table, ColumnsWithoutRoomFollowBelow) {
  EXPECT_EQ(columns_text(kPlans, 35),
            "  plan                       step\n"
            "  K=1 M=8 gpi...pute=stage  2.5 s\n"
            "* K=4, M=8                  1.5 s\n"
            "\n"
            "  plan                      memory\n"
            "  K=1 M=8 gpi...pute=stage   3 GiB\n"
            "* K=4, M=8                   1 GiB\n");
}

TEST(Table, CharactersAreCountedNotBytes) {
  const Table table{{left("name"), {"n"}}, {{"\u00e4\u00f6\u00fc", "1"}, {"abc", "2"}}, {}};
  EXPECT_EQ(columns_text(table, std::nullopt), "name  n\n\u00e4\u00f6\u00fc   1\nabc   2\n");
}

TEST(Table, MarkdownAndCsv) {
  EXPECT_EQ(markdown_text(kPlans),
            "| plan | step | memory |\n"
            "| --- | ---: | ---: |\n"
            "| K=1 M=8 gpipe recompute=stage | 2.5 s | 3 GiB |\n"
            "| **K=4, M=8** | 1.5 s | 1 GiB |\n");
  // Programs get numbers: seconds, and 2^30 bytes a GiB.
  EXPECT_EQ(csv_text(kPlans),
            "plan,step [s],measured,memory [bytes]\n"
            "K=1 M=8 gpipe recompute=stage,2.5,,3221225472\n"
            "\"K=4, M=8\",1.5,,1073741824\n");
}

// A column of numbers of one unit has it in its head. A text that a spreadsheet would run, as a
// layer may be named, is a text to it; a number keeps its sign.
TEST(Table, CsvIsOfNumbersAndOfTexts) {
  const Table table{{left("name"), {"error"}, {"time"}, {"mixed"}, left("note")},
                    {{"=HYPERLINK(1)", percent(-0.025), Seconds(3e-6), Seconds(1), "@a"},
                     {"-1+2", percent(0.1), "-", Bytes(2), "-7"},
                     {"plain", "", Seconds(2e-3), "", "+x"}},
                    {}};
  EXPECT_EQ(csv_text(table),
            "name,error [%],time [s],mixed,note\n"
            "'=HYPERLINK(1),-2.5,3e-06,1,'@a\n"
            "'-1+2,10,,2,-7\n"
            "plain,,0.002,,'+x\n");
}

// People read three digits and bars; programs get all digits, their own heads and no pictures. What
// JSON has as null is empty.
TEST(Table, CsvIsExact) {
  Table table{{{"time"},
               {"memory"},
               {"GFLOP", Column::Align::right, "FLOP"},
               {.head = "bars", .drawn = true},
               {"gap"}},
              {{Seconds(0.003292817), Bytes(3293184), number(3407872, "0.003"), "###",
                percent(std::numeric_limits<double>::infinity())}},
              {}};
  EXPECT_EQ(csv_text(table),
            "time [s],memory [bytes],FLOP,gap\n"
            "0.003292817,3293184,3407872,\n");
  EXPECT_EQ(columns_text(table, std::nullopt),
            "   time    memory  GFLOP  bars   gap\n"
            "3.29 ms  3.14 MiB  0.003   ###  inf%\n");
}

TEST(Table, EqualRowsAreFolded) {
  const Table layers{{left("layers"), left("name"), {"parameters"}},
                     {{"0", "embedding", "7"},
                      {"1", "block.0", "9"},
                      {"2", "block.1", "9"},
                      {"3", "block.2", "9"},
                      {"4", "norm", "1"},
                      {"5", "head", "1"}},
                     {}};
  const Table fewer = folded(layers, 2);
  const auto text = [](const char* of) { return testing::Field(&Cell::text, of); };
  ASSERT_EQ(fewer.rows.size(), 3U);
  EXPECT_THAT(fewer.rows[1], testing::ElementsAre(text("1..3"), text("block.0..2"), text("9")));
  EXPECT_THAT(fewer.rows[2], testing::ElementsAre(text("4..5"), text("norm..head"), text("1")));
}

// A name of five characters, 0F123, has its "|" behind it; a step of 400 ns has 400 / 100 * 6
// cells, and no more than were allowed where those are fewer.
TEST(TerminalTimeline, LongNumbersKeepTheirDigits) {
  Trace trace;
  trace.ranks = 1;
  trace.steps = {{Nanoseconds(0), Nanoseconds(400)}};
  Span span;
  span.lane = LaneKind::compute;
  span.action = parse_action("0F123").value();
  span.start = Nanoseconds(100);
  span.end = Nanoseconds(200);
  trace.spans = {span};
  EXPECT_EQ(drawn_rows(trace, 1000)[0].cells, "......0F123|............");
  EXPECT_EQ(drawn_rows(trace, 8)[0].cells, "..0|....");
}

// An optimizer of 1 ns beside actions of 100 ns: cells are 5 a quarter of 100 ns, 400 / 25 * 5 in
// all, not 2000.
TEST(TerminalTimeline, TheShortestActionsDoNotStretchIt) {
  Trace trace;
  trace.ranks = 1;
  trace.steps = {{Nanoseconds(0), Nanoseconds(400)}};
  Span span;
  span.lane = LaneKind::compute;
  for (const auto& [action, start, end] :
       {std::tuple("0F0", 0, 100), {"0B0", 200, 300}, {"0F1", 300, 399}, {"0F2", 399, 400}}) {
    span.action = parse_action(action).value();
    span.start = Nanoseconds(start);
    span.end = Nanoseconds(end);
    trace.spans.push_back(span);
  }
  const std::string row = drawn_rows(trace, 4000)[0].cells;
  EXPECT_EQ(row.size(), 80U);
  EXPECT_THAT(row, HasSubstr("|" + std::string(20, '.') + "0B0"));
}

class TableCommand : public InFolder {
 protected:
  static constexpr const char* kMini = WEIR_SOURCE_DIR "/tools/examples/models/gpt2-mini.json ";
};

TEST_F(TableCommand, TheSweepFitsTheTerminal) {
  const std::string sweep =
      std::string("-q sweep ") + kMini + "--global-batch-size 8 -K 1..4 --top 4 ";
  const CommandResult narrow = weir(sweep + "2> /dev/null; true", "COLUMNS=70");
  EXPECT_THAT(narrow.out, HasSubstr("\n* "));
  EXPECT_THAT(narrow.out, Not(HasSubstr("  measured  ")));  // nothing was run
  std::istringstream lines(narrow.out);
  for (std::string line; std::getline(lines, line);) {
    // The sentence about trust is prose; a table's line has two blanks between its cells.
    if (line.find("   ") != std::string::npos) {
      EXPECT_LE(line.size(), 70U) << line;
    }
  }
  const CommandResult csv = weir(sweep + "--format csv 2> /dev/null; true");
  EXPECT_TRUE(csv.out.starts_with("plan,predicted [s],measured,")) << csv.out;
  EXPECT_EQ(std::ranges::count(csv.out, '\n'), 5);
  const CommandResult markdown = weir(sweep + "--format markdown 2> /dev/null; true");
  EXPECT_THAT(markdown.out, HasSubstr("| --- | ---: |"));
}

TEST_F(TableCommand, JsonIsAFormat) {
  const std::string model = std::string("model ") + kMini;
  EXPECT_EQ(weir(model + "--format json").out, weir(model + "--json").out);
  EXPECT_EQ(weir(model + "--format json --json").code, 2);
  EXPECT_EQ(weir(model + "--format xml").code, 2);
  const CommandResult none = weir("model none.json --format json");
  EXPECT_EQ(none.code, 3);
  EXPECT_EQ(nlohmann::json::parse(none.out).at("exit_code"), 3);
}

TEST_F(TableCommand, EqualLayersAreOneRow) {
  const std::string model = std::string("model ") + kMini;
  EXPECT_THAT(weir(model).out, HasSubstr("1..6    block.0..5"));
  EXPECT_THAT(weir(model + "--format csv").out, HasSubstr("\n6,block.5,transformer,"));
}

TEST_F(TableCommand, AReproductionHasHeads) {
  EXPECT_THAT(weir("-q reproduce schedule-formulas").out, HasSubstr("case               row"));
}

TEST_F(TableCommand, SimulateDrawsAndASyntheticRunSaysHowLong) {
  ASSERT_EQ(weir(std::string("plan ") + kMini + "-K 2 -M 4 -o plan.json").code, 0);
  EXPECT_THAT(weir("simulate plan.json").out, Not(HasSubstr("0F0")));
  const CommandResult drawn = weir("simulate plan.json --timeline", "COLUMNS=60");
  EXPECT_EQ(drawn.code, 0);
  EXPECT_THAT(drawn.out, HasSubstr("  0 0F0"));
  // Folded to the terminal's width; the same drawing unfolded is wider.
  const auto widest = [](const std::string& text) {
    std::size_t most = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("  0 ") || line.starts_with("  1 ")) most = std::max(most, line.size());
    }
    return most;
  };
  EXPECT_LE(widest(drawn.out), 60U);
  EXPECT_GT(widest(weir("simulate plan.json --timeline", "COLUMNS=200").out), 60U);
  const CommandResult waits = weir("run plan.json --backend synthetic --steps 2 --warmup 1");
  EXPECT_EQ(waits.code, 0) << waits.out;
  EXPECT_THAT(waits.out, HasSubstr("waits some "));
  EXPECT_THAT(waits.out, HasSubstr(": 2 steps of "));
  EXPECT_THAT(waits.out, Not(HasSubstr("loss")));
  const CommandResult told =
      weir("-q --json run plan.json --backend synthetic --steps 1 --warmup 0 2> /dev/null; true");
  EXPECT_TRUE(nlohmann::json::parse(told.out).at("steps")[0].at("loss").is_null());
}

}  // namespace
}  // namespace weir::table_test
