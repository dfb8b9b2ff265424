// Parts of reports that explain a plan: bars at places that can be worked out, and what a page says
// of intervals, of where a step goes and of changes.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tests/tools/commands/command.hpp"
#include "tests/tools/report/shapes.hpp"
#include "tools/app/compare/explain.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/explained_step.hpp"
#include "tools/report/bars.hpp"
#include "tools/report/font.hpp"
#include "tools/report/pages/explained.hpp"

namespace weir::explained_report_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The text's shape; it is there once.
Text text_of(const Drawing& drawing, const std::string& text) {
  std::vector<Text> found;
  for (const Text& one : all_of<Text>(drawing)) {
    if (one.text == text) found.push_back(one);
  }
  EXPECT_EQ(found.size(), 1U) << text;
  return found.empty() ? Text{} : found.front();
}

// On one axis of 0 to 4 s: a second bar that begins where the first ends, half as long.
TEST(Bars, AreAsLongAsTheirTimes) {
  const Drawing d = draw_bars({.rows = {{"a", {{.to = Seconds(2), .fill = kBlue}}},
                                        {"b", {{.from = Seconds(2), .to = Seconds(3)}}}},
                               .width = 400});
  const std::vector<Box> boxes = all_of<Box>(d);
  ASSERT_EQ(boxes.size(), 2U);
  EXPECT_NEAR(boxes[0].width, 2 * boxes[1].width, 1e-9);
  EXPECT_NEAR(boxes[0].x + boxes[0].width, boxes[1].x, 1e-9);
  EXPECT_GE(boxes[1].y, boxes[0].y + boxes[0].height);
  // Its ticks are where its times are: 2 s where the first bar ends.
  EXPECT_NEAR(text_of(d, "2.0 s").x, boxes[1].x, 1e-9);
  EXPECT_LE(boxes[1].x + boxes[1].width, d.width);
}

// A part that takes time off leads back; of what is too short to be seen a hair is drawn.
TEST(Bars, MayLeadBackAndAreSeen) {
  const Drawing d =
      draw_bars({.rows = {{"", {{.to = Seconds(4)}}},
                          {"", {{.from = Seconds(4), .to = Seconds(3)}}},
                          {"", {{.from = Seconds(3), .to = Seconds(3) + Seconds(1e-9)}}}}});
  const std::vector<Box> boxes = all_of<Box>(d);
  ASSERT_EQ(boxes.size(), 3U);
  EXPECT_NEAR(boxes[1].x + boxes[1].width, boxes[0].x + boxes[0].width, 1e-9);
  EXPECT_NEAR(boxes[1].width, boxes[0].width / 4, 1e-9);
  EXPECT_GE(boxes[2].width, 0.5);
}

// The interval's line goes from 1 to 4 s, a half and twice of the bar's 2 s; the stroke is at 3 s.
TEST(Bars, HaveIntervalsWithEndsAndMarks) {
  const Drawing d = draw_bars(
      {.rows = {
           {"",
            {{.to = Seconds(2), .interval = {{Seconds(1), Seconds(4)}}, .mark = Seconds(3)}}}}});
  const Box bar = all_of<Box>(d).front();
  const auto at = [&](double seconds) { return bar.x + bar.width * seconds / 2; };
  int intervals = 0, ends = 0, marks = 0;
  for (const Line& line : all_of<Line>(d)) {
    const auto [from, y] = line.points.front();
    const double to = line.points.back().first;
    if (y < bar.y - 1.5 || y > bar.y + bar.height || line.colour == kGrid) continue;
    if (std::abs(from - at(1)) < 1e-9 && std::abs(to - at(4)) < 1e-9) ++intervals;
    if (from == to && (std::abs(to - at(1)) < 1e-9 || std::abs(to - at(4)) < 1e-9)) ++ends;
    if (from == to && std::abs(to - at(3)) < 1e-9 && line.colour == kRed) ++marks;
  }
  EXPECT_THAT(std::vector({intervals, ends, marks}), ElementsAre(1, 2, 1));
}

// Beside bars of 300 points and more labels have room; on a telephone they stand above them.
TEST(Bars, HaveLabelsWhereTheyHaveRoom) {
  const BarChart chart{.rows = {{"kernels, beyond the peak", {{.to = Seconds(1), .text = "1 s"}}}}};
  for (const double width : {270., 800.}) {
    BarChart one = chart;
    one.width = width;
    const Drawing d = draw_bars(one);
    const Box bar = all_of<Box>(d).front();
    const Text label = text_of(d, "kernels, beyond the peak");
    if (width == 270) {
      EXPECT_LT(label.y, bar.y);
    } else {
      EXPECT_GT(label.y, bar.y);
      EXPECT_LT(label.x, bar.x);
    }
    // What the bar takes stands behind it, within the picture.
    const std::vector<Text> texts = all_of<Text>(d);
    const auto said = std::ranges::find_if(
        texts, [](const Text& text) { return text.text == "1 s" && text.anchor == Anchor::end; });
    ASSERT_NE(said, texts.end());
    EXPECT_GT(said->x - text_width("1 s", said->size), bar.x + bar.width);
    EXPECT_LE(said->x, width);
  }
}

Forecast step_of(double seconds) {
  Forecast f;
  f.step_time = Seconds(seconds);
  f.interval = StepInterval{Seconds(seconds / 2), Seconds(seconds * 2), 0.9};
  return f;
}

TEST(IntervalFigure, SaysAndDrawsWhatIsKnown) {
  const Forecast best = step_of(2), present = step_of(4);
  const std::string html = interval_figure({{"best plan", &best, Seconds(2.5)}, {"<b>", &present}});
  EXPECT_THAT(html, HasSubstr("Forecast step with its 90 % interval"));
  EXPECT_THAT(html, HasSubstr("best plan: 2 s (1 s to 4 s), measured 2.5 s"));
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;: 4 s (2 s to 8 s)"));
  Forecast bare;
  bare.step_time = Seconds(1);
  EXPECT_EQ(interval_figure({{"best plan", &bare}}), "");  // a bar of nothing else
  EXPECT_THAT(interval_figure({{"a", &bare}, {"b", &bare}}), HasSubstr("a: 1 s, no interval"));
}

StepExplained explained(std::string name, std::vector<StepShare> parts) {
  StepExplained plan{.name = std::move(name)};
  for (const StepShare& part : parts) plan.waterfall.step += part.time;
  plan.waterfall.parts = std::move(parts);
  return plan;
}

WhatIf change(const std::string& to, double gain) {
  WhatIf row;
  row.change.choice = "schedule";
  row.change.to = to;
  row.forecast = step_of(1 / (1 + gain));
  row.gain = gain;
  return row;
}

using std::chrono::seconds;

// As `weir explain` says it: the same parts and the same changes in the same order, products in the
// other format among them. Where there is time for three changes, three of them, those products
// first; where there is none, where it goes alone.
class ExplainedStep : public InFolder {};
TEST_F(ExplainedStep, IsWhatTheCommandSays) {
  write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,"vocab_size":32,)"
                     R"("n_positions":8})");
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --dtype bf16 -o plan.json").code, 0);
  const app::ExplainResult said =
      app::explain({.plan = folder_ / "plan.json", .cluster = "dgx-h100"}, app::Session());
  const ResolvedPlan plan = load_plan(folder_ / "plan.json");
  const app::MachineChoice choice{.cluster = "dgx-h100"};
  const Cluster cluster = app::machine(choice);
  const StackAbilities software = abilities_for(app::abilities(choice, cluster), plan.model);
  const Costs costs = app::load(app::CostsSource(), plan.model, plan.plan, cluster);
  const ForecastResult result = forecast(plan, costs, cluster);
  int left = 1000;
  const app::StepToExplain asked{
      .name = "best plan",
      .plan = plan,
      .forecast = said.forecast,
      .result = result,
      .costs = costs,
      .source = {},
      .cluster = cluster,
      .software = software,
      .over = [&left] { return left-- == 0 ? std::string("its time was over") : std::string(); }};
  const StepExplained whole = app::explain_step(asked);
  EXPECT_EQ(whole.cut, "");
  EXPECT_EQ(whole.waterfall.parts, said.waterfall.parts);
  std::vector<std::string> changes, told;
  for (const WhatIf& row : whole.what_if)
    changes.push_back(fmt::format("{} {} {:.9f}", row.change.choice, row.change.to, row.gain));
  for (const WhatIf& row : said.what_if)
    told.push_back(fmt::format("{} {} {:.9f}", row.change.choice, row.change.to, row.gain));
  EXPECT_GT(told.size(), 10U);
  EXPECT_EQ(changes, told);
  EXPECT_THAT(changes, Contains(HasSubstr("products 8 bits")));
  left = 4;  // once before the costs of changes
  const StepExplained part = app::explain_step(asked);
  EXPECT_EQ(part.cut, "its time was over");
  EXPECT_EQ(part.what_if.size(), 3U);
  EXPECT_TRUE(std::ranges::any_of(
      part.what_if, [](const WhatIf& row) { return row.change.choice == "products"; }));
  left = 0;
  const StepExplained none = app::explain_step(asked);
  EXPECT_TRUE(none.what_if.empty());
  EXPECT_EQ(none.waterfall.parts, said.waterfall.parts);
}

// 2^18 stages and micro-batches are the most: of 2 ranks a plan of one more than 2^17.
TEST_F(ExplainedStep, OfTooManyMicrobatchesIsWhyItIsNot) {
  write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,"vocab_size":32,)"
                     R"("n_positions":8})");
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 131073 -o plan.json").code, 0);
  const Cluster cluster = app::machine({.cluster = "dgx-h100"});
  const ResolvedPlan plan = load_plan(folder_ / "plan.json");
  const Costs costs = app::load(app::CostsSource(), plan.model, plan.plan, cluster);
  const StackAbilities software;
  const ForecastResult result;
  const StepExplained said = app::explain_step({.name = "best plan",
                                                .plan = plan,
                                                .forecast = result.forecast,
                                                .result = result,
                                                .costs = costs,
                                                .source = {},
                                                .cluster = cluster,
                                                .software = software});
  EXPECT_EQ(said.unexplained,
            "it has 131073 micro-batches, of which at most 131072 can be explained");
  StepExplained other = explained(
      "present plan", {{"compute", std::chrono::seconds(3)}, {"fill", std::chrono::seconds(1)}});
  const std::string html = explained_sections({said, other});
  EXPECT_THAT(html, HasSubstr("It is not said of the best plan: it has 131073 micro-batches"));
  EXPECT_THAT(html, Not(HasSubstr("<h3>Of the best plan</h3>")));
  EXPECT_THAT(html, HasSubstr("<h3>Of the present plan</h3>"));
  // The other keeps its own colour.
  EXPECT_THAT(html, HasSubstr("fill969696"));
  EXPECT_THAT(html, Not(HasSubstr("fill568dd0")));
}

// 3 s of 4 computing, and 1 s idle; of the other plan 2 s of 5 are messages, which the first has
// none of. Parts that no plan has are no rows.
TEST(ExplainedSections, HoldPlansBesideEachOther) {
  const std::string html = explained_sections(
      {explained("best plan", {{"compute", seconds(3)}, {"tensor", {}}, {"fill", seconds(1)}}),
       explained("present plan",
                 {{"compute", seconds(3)}, {"tensor", {}}, {"messages", seconds(2)}})});
  EXPECT_THAT(html, HasSubstr("<th>best plan</th><th>share</th><th>present plan</th>"));
  EXPECT_THAT(html, HasSubstr("<td>computing</td><td>3 s</td><td>75.0 %</td><td>3 s</td>"
                              "<td>60.0 %</td>"));
  EXPECT_THAT(html, HasSubstr("<td>messages between stages</td><td>0 ns</td><td>0.0 %</td>"
                              "<td>2 s</td><td>40.0 %</td>"));
  EXPECT_THAT(html, HasSubstr("<td>forecast step</td><td>4 s</td><td>100.0 %</td><td>5 s</td>"));
  EXPECT_THAT(html, Not(HasSubstr("tensor parallel")));
}

// Of twelve changes ten are rows; one brings less, another does not fit; a single one is a
// sentence, as is a step of one part.
TEST(ExplainedSections, SayWhatOneChangeWouldBring) {
  StepExplained plan = explained("best plan", {{"compute", seconds(1)}});
  for (int i = 0; i < 11; ++i) plan.what_if.push_back(change("s" + std::to_string(i), 0.5));
  plan.what_if.push_back(change("<big>", 9));
  plan.what_if.back().forecast->memory = {{}};
  plan.what_if.back().forecast->memory[0].peak = Bytes(9);
  plan.what_if.back().forecast->memory[0].upper = Bytes(9);
  plan.what_if.back().forecast->memory_limit = Bytes(1);
  std::string html = explained_sections({plan});
  EXPECT_THAT(html, HasSubstr("<p>All of the step is computing.</p>"));
  EXPECT_THAT(html, HasSubstr("<td>schedule: s9</td><td>+50.0 %</td>"));
  EXPECT_THAT(html, Not(HasSubstr("schedule: s10")));
  EXPECT_THAT(html, Not(HasSubstr("<big>")));
  EXPECT_THAT(html, HasSubstr("Of the other changes 1 brings less, 1 cannot be, or would not fit; "
                              "<code>weir explain</code> lists them."));
  // What the stack has not is counted apart.
  plan.stack = "megatron-core";
  plan.what_if.push_back(change("zb-h1", 0.7));
  plan.what_if.back().change.beyond = "zb-h1";
  EXPECT_THAT(
      explained_sections({plan}),
      HasSubstr("1 brings less, 1 cannot be, or would not fit, 1 is not in megatron-core;"));
  plan.what_if.resize(1);
  plan.cut = "its time was over";
  html = explained_sections({plan});
  EXPECT_THAT(html, HasSubstr("<p>schedule: s0: +50.0 %, "));
  EXPECT_THAT(html, HasSubstr("Not every change was forecast: its time was over."));
  // That none can be is said where all of them were looked at.
  plan.what_if.front().forecast.reset();
  EXPECT_THAT(explained_sections({plan}), Not(HasSubstr("No single change")));
  EXPECT_THAT(explained_sections({plan}), HasSubstr("None of the first 1 that were looked at"));
  plan.what_if.clear();
  EXPECT_THAT(explained_sections({plan}),
              HasSubstr("<p>No change was forecast: its time was over.</p>"));
  plan.cut.clear();
  EXPECT_THAT(explained_sections({plan}), HasSubstr("No single change can be made to it"));
  EXPECT_EQ(explained_sections({}), "");
}

}  // namespace
}  // namespace weir::explained_report_test
