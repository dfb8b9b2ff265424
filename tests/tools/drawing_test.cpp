// What pictures are made of: round ticks, a font whose measures are known, boxes with labels.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tools/report/font.hpp"
#include "tools/report/palette.hpp"
#include "tools/report/pdf.hpp"
#include "tools/report/svg.hpp"
#include "tools/report/ticks.hpp"
#include "tools/report/tikz.hpp"
#include "tools/report/timeline.hpp"

namespace weir::drawing_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// 0 to 33 in at most seven: a step of 5 is the smallest that gives no more (0, 5, ..., 30).
TEST(RoundTicks, AreMultiplesOfOneTwoOrFive) {
  EXPECT_THAT(round_ticks(0, 33, 7).at, ElementsAre(0, 5, 10, 15, 20, 25, 30));
  EXPECT_THAT(round_ticks(0, 33, 4).at, ElementsAre(0, 10, 20, 30));
  EXPECT_THAT(round_ticks(-1, 1, 5).at, ElementsAre(-1, -0.5, 0, 0.5, 1));
  EXPECT_EQ(round_ticks(1.97, 2.03, 4).at.size(), 3U);  // 1.98, 2, 2.02
}

TEST(RoundTicks, HaveTheDecimalsThatTellThemApart) {
  const Ticks ticks = round_ticks(0, 0.2, 5);
  EXPECT_EQ(ticks.step, 0.05);
  EXPECT_EQ(ticks.text(0.15), "0.15");
  EXPECT_EQ(round_ticks(0, 3e4, 4).text(2e4), "20000");
}

// "1000 ms" in 7 points is some 27 points wide: on 60 points two have room, on 600 all eleven.
TEST(RoundTicks, HaveRoomBesideEachOther) {
  for (const double width : {60., 120., 193., 600.}) {
    for (const double high : {1., 3.3, 33., 999., 0.004}) {
      const Ticks ticks = ticks_with_room(high, width, 7, " ms");
      ASSERT_GE(ticks.at.size(), 1U);
      const double widest = text_width(ticks.text(ticks.at.back()) + " ms", 7);
      if (ticks.at.size() <= 2) continue;  // fewer there cannot be
      EXPECT_LT(widest, ticks.step / high * width) << high << " " << width;
    }
  }
}

std::uint32_t big_endian(std::size_t at, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value = value << 8 | font_file()[at + static_cast<std::size_t>(i)];
  return value;
}
std::size_t table(std::uint32_t name) {
  for (std::size_t i = 0; i < big_endian(4, 2); ++i) {
    if (big_endian(12 + 16 * i, 4) == name) return big_endian(12 + 16 * i + 8, 4);
  }
  return 0;
}

// The file's own: hmtx has a width of two bytes and a bearing of two for each glyph, head the units
// of an em. Glyph 0 stands for what the font has not; the characters follow in their order.
TEST(Font, ItsAdvancesAreThoseOfItsFile) {
  const std::size_t hmtx = table(0x686d7478), head = table(0x68656164), maxp = table(0x6d617870);
  ASSERT_GT(hmtx * head * maxp, 0U);
  const double em = big_endian(head + 18, 2);
  ASSERT_GE(big_endian(maxp + 4, 2), static_cast<std::uint32_t>(kGlyphs + 1));
  const std::uint32_t first = big_endian(maxp + 4, 2) - kGlyphs;
  for (std::size_t i = 0; i < glyph_advances().size(); ++i) {
    EXPECT_NEAR(glyph_advances()[i], big_endian(hmtx + 4 * (first + i), 2) * 1000 / em, 0.51) << i;
  }
}

TEST(Font, WritesAQuestionMarkForWhatItHasNot) {
  EXPECT_EQ(in_ascii("\xc3\xa9\xe6\xbc\xa2 a"), "?? a");
  EXPECT_EQ(in_ascii("a\nb"), "a b");
  EXPECT_DOUBLE_EQ(text_width("00", 10), 11.24);
}

// One forward of 10 ms and one backward of 1 ms on a row of some 200 points.
Trace two_actions() {
  Trace trace;
  trace.ranks = 1;
  trace.steps = {{Nanoseconds(0), Nanoseconds(11'000'000)}};
  Span f;
  f.action = {Stage{0}, ActionKind::F, Microbatch{123}};
  f.rank = Rank{0};
  f.end = Nanoseconds(10'000'000);
  Span b = f;
  b.action.kind = ActionKind::B;
  b.start = f.end;
  b.end = Nanoseconds(11'000'000);
  trace.spans = {f, b};
  return trace;
}

// The forward has room for its name; a tenth of it, 18 points, for the number of its micro-batch.
TEST(Timeline, WritesWhatFits) {
  const Trace trace = two_actions();
  const std::array panels{TimelinePanel{"", {{&trace, 0, ""}}}};
  const std::string narrow = to_svg(draw_timeline(panels, {.width = 237.6}));
  EXPECT_THAT(narrow, HasSubstr(">0F123</text>"));
  EXPECT_THAT(narrow, HasSubstr(">123</text>"));
  EXPECT_THAT(narrow, Not(HasSubstr(">0B123</text>")));
  EXPECT_THAT(narrow, HasSubstr(">B backward</text>"));
  EXPECT_THAT(narrow, Not(HasSubstr("W backward")));
  EXPECT_THAT(to_svg(draw_timeline(panels, {.width = 720})), HasSubstr(">0B123</text>"));
}

// A V of two ranks: rank 0 has stages 0 and 3. 24 actions a row are some 8 points each, too narrow
// for "3F12" and for "12" in letters of 6.5 points (9), wide enough for "12" in 5 (7.2): the stage
// stands above the micro-batch, both digits of it, and the second stage's foot is shaded.
TEST(Timeline, TellsAVsWayBackFromItsWayThere) {
  Trace trace;
  trace.ranks = 2;
  trace.steps = {{Nanoseconds(0), Nanoseconds(24'000'000)}};
  for (const int stage : {0, 3}) {
    Span span;
    span.action = {Stage{stage}, ActionKind::F, Microbatch{12}};
    span.rank = Rank{0};
    span.start = Nanoseconds(stage * 1'000'000);
    span.end = Nanoseconds((stage + 1) * 1'000'000);
    trace.spans.push_back(span);
  }
  const std::array panels{TimelinePanel{"", {{&trace, 0, ""}}}};
  const Drawing drawing = draw_timeline(panels, {.width = 237.6});
  const Paint& forward = colours(Palette::standard)[ActionKind::F];
  std::vector<Box> boxes, feet;
  std::vector<std::string> labels;
  bool told = false;
  for (const auto& shape : drawing.shapes) {
    if (const auto* box = std::get_if<Box>(&shape)) {
      if (!box->tip.empty()) boxes.push_back(*box);
      if (box->fill == shade_of(forward) && box->height == 6) feet.push_back(*box);
    }
    const auto* text = std::get_if<Text>(&shape);
    if (text != nullptr && text->size == 5) labels.push_back(text->text);
    told = told || (text != nullptr && text->text == "foot: a rank's second stage");
  }
  EXPECT_THAT(labels, ElementsAre("0", "12", "3", "12"));
  ASSERT_EQ(boxes.size(), 2U);
  ASSERT_EQ(feet.size(), 1U);
  EXPECT_EQ(feet[0].x, boxes[1].x);
  EXPECT_EQ(feet[0].y + feet[0].height, boxes[1].y + boxes[1].height);
  EXPECT_TRUE(told);
  // Of one stage a rank nothing is shaded, and a number stands alone where it fits.
  trace.spans.pop_back();
  EXPECT_THAT(to_svg(draw_timeline(panels, {.width = 237.6})), Not(HasSubstr("foot:")));
}

// What stands on a rank beside its blocks is behind its name, and has its room.
TEST(Timeline, RanksHaveNotes) {
  Trace trace = two_actions();
  const std::array panels{TimelinePanel{"", {{&trace, 0, ""}}}};
  const auto drawn = [&] { return to_svg(draw_timeline(panels, {.width = 720})); };
  EXPECT_THAT(drawn(), HasSubstr(">rank 0</text>"));
  trace.info["predicts"] = "2,0";
  EXPECT_THAT(drawn(), HasSubstr(">rank 0 predicts 2</text>"));
  EXPECT_EQ(note_of_rank(trace, 1), "");
  // A file may say anything.
  for (const char* text : {"", "-1", "0", "x", "99999999999999"}) {
    trace.info["predicts"] = text;
    EXPECT_THAT(drawn(), HasSubstr(">rank 0</text>")) << text;
  }
}

// Names are text there too: a title with markup, in a CSV with commas.
TEST(Timeline, NamesAreQuoted) {
  const Trace trace = two_actions();
  const std::array panels{TimelinePanel{"<b>,\"", {{&trace, 0, ""}}},
                          TimelinePanel{"(x\\", {{&trace, 0, ""}}}};
  EXPECT_THAT(to_svg(draw_timeline(panels, {})), HasSubstr("&lt;b&gt;,&quot;</text>"));
  EXPECT_THAT(timeline_csv(panels), HasSubstr("0,\"<b>,\"\"\",0F123,0.000000000,0.010000000\n"));
}

// A dark page has a colour of its own for each of a picture's, and the page's behind all.
TEST(Svg, FollowsThePage) {
  const std::string svg = to_svg({10, 10, {Box{0, 0, 5, 5, {{1, 2, 3}, {4, 5, 6}}, ""}}});
  EXPECT_THAT(svg, HasSubstr("<g class=\"fill010203040506\" fill=\"#010203\">"));
  EXPECT_THAT(svg, HasSubstr("@media(prefers-color-scheme:dark){.fill010203040506{fill:#040506}"));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"0\" y=\"0\" width=\"10\" height=\"10\"/>"));
}

// Bars that touch are one piece, and rounding does not add up: the last begins at 99.99.
TEST(Svg, BarsAreTheirSum) {
  Bars bars{0, 10, {}, kInk};
  for (int i = 0; i < 3; ++i) bars.boxes.emplace_back(33.333 * i, 10.0);
  EXPECT_THAT(to_svg({100, 10, {bars}}), HasSubstr("d=\"M0 5h10m23.33 0h10m23.34 0h10\""));
  EXPECT_THAT(to_svg({100, 10, {Bars{0, 10, {{0, 5}, {5, 5}}, kInk}}}), HasSubstr("h5h5\""));
}

TEST(Pdf, IsTheSameTwice) {
  const Drawing drawing{10, 10, {Text{0, 5, "caf\xc3\xa9 (x", 8, Anchor::middle, kInk}}};
  EXPECT_EQ(to_pdf(drawing), to_pdf(drawing));
  EXPECT_THAT(to_pdf(drawing), HasSubstr("/FontFile2 7 0 R"));
}

// Two shapes of one colour and a text, whose characters mean something to TeX.
TEST(Tikz, IsPathsAndNodesWithTheColoursOfPaper) {
  const Paint ink{{1, 2, 3}, {255, 255, 255}};
  const Drawing drawing{100,
                        50,
                        {Box{0, 10, 20, 5, ink, ""}, Dot{4, 5, 2, ink, ""},
                         Text{50, 25, "50 % of a_b", 8, Anchor::middle, ink}}};
  EXPECT_EQ(to_tikz(drawing),
            "% Drawn by weir; needs \\usepackage{tikz}.\n"
            "\\begin{tikzpicture}[x=1bp,y=-1bp]\n"
            "\\definecolor{weir0}{RGB}{1,2,3}\n"
            "\\useasboundingbox (0,0) rectangle (100.00,50.00);\n"
            "\\fill[weir0] (0.00,10.00) rectangle ++(20.00,5.00);\n"
            "\\fill[weir0] (4.00,5.00) circle[radius=2.00bp];\n"
            "\\node[anchor=base,inner sep=0,text=weir0,font=\\sffamily\\fontsize{8.0bp}{9.6bp}"
            "\\selectfont] at (50.00,25.00) {50 \\% of a\\_b};\n"
            "\\end{tikzpicture}%\n");
}

}  // namespace
}  // namespace weir::drawing_test
