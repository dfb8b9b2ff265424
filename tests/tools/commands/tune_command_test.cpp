// `weir tune` beside the plan in use, and what its page says first: by reports that are written
// here, for whether a machine is disturbed is no test's to choose; and by the command.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/commands/command.hpp"
#include "tools/report/pages/evaluation_report.hpp"
#include "tools/report/pages/report.hpp"

namespace weir::tune_command_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

// One rank that does nothing but F0 for a step, as was forecast.
ReportRow row(const std::string& plan, Seconds step) {
  const Nanoseconds whole = to_nanoseconds(step);
  Trace trace{.ranks = 1, .steps = {{Nanoseconds(0), whole}}};
  trace.spans.push_back(
      {.operation = {}, .action = {}, .rank = Rank{0}, .peer = Rank{0}, .end = whole});
  ReportRow row{.plan = plan, .measured = step};
  row.forecast.step_time = step;
  row.forecast.memory = {{}};
  RankMetrics rank;
  rank.busy = whole;
  row.forecast.metrics.ranks = {rank};
  row.predicted = row.run = trace;
  row.comparison.predicted = row.comparison.measured = step;
  row.comparison.predicted_metrics = row.comparison.measured_metrics = row.forecast.metrics;
  return row;
}

// Two plans, of which the second, slower by a quarter, is in use.
Report two_plans() {
  Report report{.model = "m", .machine = "here", .costs_origin = "measured"};
  report.rows = {row("K2 M4", Seconds(0.8)), row("K1 M1", Seconds(1.0))};
  report.rows[1].baseline = true;
  report.changes = {{"pp", "1", "2"}, {"note", "", "<new>"}};
  return report;
}

// The place of each text, in the order in which they have to stand.
void expect_in_order(const std::string& page, const std::vector<std::string>& texts) {
  std::size_t before = 0;
  for (const std::string& text : texts) {
    const std::size_t at = page.find(text, before);
    ASSERT_NE(at, std::string::npos) << text << " is not there, or before the one above";
    before = at;
  }
}

TEST(TuneReport, SaysTheWinnerThenWhatChanges) {
  const std::string page = report_html(two_plans());
  // 1.0 s over 0.8 s.
  expect_in_order(
      page, {"<p>Use <b>K2 M4</b>: measured 800 ms a step", "step, measured",
             "What changes against one rank alone", "K1 M1 takes 1 s a step, 1.250 times as long.",
             "<td>pp</td><td>1</td><td>2</td>", "<td>note</td><td>-</td><td>&lt;new&gt;</td>",
             "The plans that were run", "<tr class=\"best\"><td>K2 M4</td>",
             "<tr><td>K1 M1 (baseline)</td>"});
  EXPECT_THAT(page, Not(HasSubstr("disturbed")));
}

TEST(TuneReport, SaysFirstWhatDisturbedIt) {
  Report report = two_plans();
  report.disturbed = "25.0% of its cores' time was stolen";
  report.no_winner = "the machine was disturbed: " + report.disturbed;
  const std::string page = report_html(report);
  expect_in_order(page, {"<h1>", "<b>The machine was disturbed: 25.0% of its cores",
                         "No plan is the winner. The fastest was <b>K2 M4</b>", "<dl>"});
  // Nobody is marked as the best of what is not told apart.
  std::string ranking = page.substr(page.find("The plans that were run"));
  ranking.resize(ranking.find("</table>"));
  EXPECT_THAT(ranking, Not(HasSubstr("class=\"best\"")));
}

TEST(TuneReport, WithoutAWinnerTellsNobodyToChange) {
  Report report = two_plans();
  report.no_winner = "K2 M4 and K1 M1 are nearer than their steps scatter";
  const std::string page = report_html(report);
  const std::string how_long =
      "K1 M1 took 1 s a step, 1.250 times as long as the fastest plan: how much of that is scatter "
      "cannot be told.";
  expect_in_order(
      page, {"No plan is the winner: K2 M4 and K1 M1 are nearer", "What changes against", how_long,
             "<th>fastest plan</th>", "<td>pp</td><td>1</td><td>2</td>"});
  EXPECT_THAT(page, Not(HasSubstr("best plan")));
}

TEST(EvaluationReport, SaysFirstWhatDisturbedIt) {
  EvaluationReport report{.model = "m", .machine = "here", .disturbed = "repeated times differ"};
  Outcome outcome;
  outcome.predicted = Seconds(1);
  outcome.times_s = {1.1, 1.2, 1.3};
  report.outcomes = {outcome};
  expect_in_order(evaluation_html(report),
                  {"<h1>", "<b>The machine was disturbed: repeated times differ.</b>",
                   "1 plans on here", "Forecast against measured step time"});
  report.disturbed = "";
  EXPECT_THAT(evaluation_html(report), Not(HasSubstr("was disturbed")));
}

TEST(TuneReport, ThePresentPlanMayBeTheBest) {
  Report report = two_plans();
  report.rows[0].baseline = true;
  report.rows[1].baseline = false;
  report.changes.clear();
  EXPECT_THAT(report_html(report), HasSubstr("<p>Nothing: of what was run it is the fastest.</p>"));
}

class TuneCommand : public InFolder {
 protected:
  TuneCommand() {
    write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,"vocab_size":32,)"
                       R"("n_positions":8})");
  }
  const std::string tune_ = "tune tiny.json -K 2 --plans 1 --rounds 1 --steps 1 -o out -q ";
};

// A schedule and a division that no search would choose: it is run as it is.
TEST_F(TuneCommand, RunsThePlanInUse) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -b 2 --schedule gpipe --boundaries 1 --seq-length 4 "
                 "-o now.json")
                .code,
            0);
  const CommandResult result = weir("--json " + tune_ + "--baseline now.json 2> /dev/null");
  ASSERT_EQ(result.code, 0) << result.out;
  int baselines = 0;
  const Json json = Json::parse(result.out);
  for (const Json& plan : json["plans"]) {
    if (!plan["baseline"]) continue;
    ++baselines;
    EXPECT_EQ(plan["plan"], "K2 M4 b2 gpipe [1]");
    EXPECT_GT(plan["measured_step_time_s"], 0);
  }
  EXPECT_EQ(baselines, 1);
  // Sequence length and mini-batch, which the request leaves open, are that plan's.
  const Json ran = Json::parse(read("out/plan-0.json"));
  EXPECT_EQ(ran["seq_length"], 4);
  EXPECT_EQ(ran["micro_batch_size"].get<int>() * ran["microbatches"].get<int>(), 8);
  EXPECT_THAT(read("out/report.html"), HasSubstr("What changes against the present plan"));
}

// Baselines of a tune's rows.
int baselines_of(const Json& json) {
  return static_cast<int>(std::ranges::count_if(
      json["plans"], [](const Json& plan) { return plan["baseline"].get<bool>(); }));
}

// A candidate under another note and seed is the plan in use, and is run once. How it trains is
// that plan's as well: the weights' decay is none of a step's time, and still a difference.
TEST_F(TuneCommand, RunsAPlanOnceThatItFindsItself) {
  const std::string training =
      "--optimizer sgd --momentum 0.5 --learning-rate 0.25 --weight-decay 0.125 --clip-grad 2 ";
  ASSERT_EQ(weir("--seed 9 plan tiny.json -K 1 -M 1 -b 2 --schedule gpipe --note mine " + training +
                 "-o now.json")
                .code,
            0);
  const CommandResult result = weir("--json " + tune_ + "--baseline now.json 2> /dev/null");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(baselines_of(json), 1);
  std::set<std::string> names;
  for (const Json& plan : json["plans"]) names.insert(plan["plan"]);
  EXPECT_EQ(names.size(), json["plans"].size()) << result.out;
  int mine = 0;
  for (std::size_t i = 0; i < json["plans"].size(); ++i) {
    const Json ran = Json::parse(read("out/plan-" + std::to_string(i) + ".json"));
    EXPECT_EQ(ran["seed"], 9);
    EXPECT_EQ(ran["optimizer"]["kind"], "sgd");
    EXPECT_EQ(ran["optimizer"]["momentum"], 0.5);
    EXPECT_EQ(ran["optimizer"]["learning_rate"], 0.25);
    EXPECT_EQ(ran["optimizer"]["clip_norm"], 2);
    mine += ran.value("note", "") == "mine" ? 1 : 0;
  }
  EXPECT_EQ(mine, 1);
}

// K = 1 with one micro-batch is there with and without recomputation: one of them is compared with.
TEST_F(TuneCommand, ComparesWithOnePlan) {
  const CommandResult result = weir(
      "--json tune tiny.json -K 1 --global-batch-size 2 --plans 9 --rounds 1 --steps 1 -o out -q "
      "2> /dev/null");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  EXPECT_GT(json["plans"].size(), 2U);
  EXPECT_EQ(baselines_of(json), 1);
}

TEST_F(TuneCommand, RefusesAPlanThatDoesNotCompare) {
  const auto refused = [&](const std::string& plan, const std::string& options) {
    EXPECT_EQ(weir("plan tiny.json " + plan + " -o now.json").code, 0) << plan;
    const CommandResult result = weir(tune_ + "--baseline now.json " + options);
    EXPECT_EQ(result.code, 3) << result.out;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out/report.html"));
    return result.out;
  };
  // Before a profile is taken, which would come to nothing.
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --schedule vocab-1 -o parts.json").code, 0);
  const CommandResult divided = weir(tune_ + "--baseline parts.json");
  EXPECT_EQ(divided.code, 5) << divided.out;
  EXPECT_THAT(divided.out, HasSubstr("divides the vocabulary over the ranks"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/unfinished"));
  EXPECT_THAT(refused("-K 1 -M 4 --dtype bf16", ""),
              HasSubstr("now.json: dtype: bf16; the cpu backend computes in fp32\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/unfinished"));
  EXPECT_THAT(refused("-K 1 -M 4", "--global-batch-size 2"),
              HasSubstr("now.json: microbatches: b M D = 1 4 1 makes a mini-batch of 4"));
  EXPECT_THAT(refused("-K 1 -M 4", "--seq-length 4"),
              HasSubstr("now.json: seq_length: 8; tune has 4"));
  EXPECT_THAT(refused("-K 1 -M 4", "--optimizer sgd"),
              HasSubstr("now.json: optimizer: is of another kind than tune's"));
  // 2^16 2^15 samples are one more than a request's number can be.
  EXPECT_THAT(refused("-K 1 -M 65536 -b 32768", ""),
              HasSubstr("now.json: microbatches: b M D = 32768 65536 1 makes a mini-batch of "
                        "2147483648; expected at most 2147483647"));
  EXPECT_THAT(refused("-K 3 -M 4", ""),
              HasSubstr("now.json: pp: 3; here are at most 2 ranks (-K)"));
  EXPECT_THAT(refused("-K 1 -M 4 --dp 2", ""),
              HasSubstr("now.json: dp: 2; tune runs plans in stages alone: expected 1"));
}

}  // namespace
}  // namespace weir::tune_command_test
