// Schedules through the command: drawn, timed and proved, several beside each other, a user's own,
// and what a plan takes from its schedule.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/tools/commands/tiny_command.hpp"

namespace weir::schedule_command_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;
using Result = CommandResult;

// A vocabulary that is divided over the ranks: its source's name is read as ours; changes and
// baselines count the layers that stages divide; what is not known of it is refused by its name.
TEST_F(Command, DividesAVocabulary) {
  const std::string sizes = " -K 2 -M 4 --cluster dgx-a100 --dtype bf16 -o ";
  ASSERT_EQ(weir("plan tiny.json --schedule vocab" + sizes + "two.json").code, 0);
  EXPECT_EQ(Json::parse(read("two.json"))["schedule"], "vocab-2");
  ASSERT_EQ(weir("plan tiny.json --frozen 5" + sizes + "frozen.json").code, 0);
  Json frozen = Json::parse(read("frozen.json"));  // 5: the head, which has none behind it
  frozen["schedule"] = "synctwice";
  write("frozen.json", frozen.dump());
  EXPECT_EQ(weir("simulate frozen.json --cluster dgx-a100").code, 0);
  const CommandResult explained = weir("explain two.json --cluster dgx-a100 --json");
  ASSERT_EQ(explained.code, 0) << explained.out;
  EXPECT_THAT(explained.out, testing::Not(HasSubstr("one stage a rank")));
  const CommandResult swept =
      weir("sweep tiny.json --pp 1,2 --cluster dgx-a100 --baseline two.json -q --json");
  ASSERT_EQ(swept.code, 0) << swept.out;
  EXPECT_EQ(Json::parse(swept.out)["baseline"]["plan"]["schedule"], "vocab-2");
  refuses(
      "simulate two.json --cluster dgx-a100 --transfers batched", 3,
      "plan: schedule: vocab-2 divides the vocabulary: expected buffered transfers, not batched");
  refuses("schedule vocab-1 -K 2 -M 4 --transfers rendezvous", 2,
          "--transfers rendezvous: vocab-1 divides the vocabulary: expected buffered");
  refuses("schedule 1f1b -K 2 -M 4 --uniform F=1ms,I=1ms,W=1ms,S=1ms", 2,
          "--uniform: S and T are of schedules that divide the vocabulary");
  refuses("schedule 1f1b -K 2 -M 4 --beside gpipe --svg a.svg --uniform F=1ms,I=1ms,W=1ms,S=1ms", 2,
          "--uniform: S and T are of schedules that divide the vocabulary");
  refuses("plan tiny.json -K 2 -M 4 --schedule vocab-2 --partition uniform", 2,
          "--partition uniform: with --schedule vocab-2 stages are balanced");
  EXPECT_EQ(weir("schedule vocab-1 --grid K=2,M=1..3 --prove").code, 0);
  // A search beside such a baseline takes its schedule among the others.
  const std::string beside =
      "sweep tiny.json --pp 1,2 --cluster dgx-a100 --top 1000 -q --json --explain --baseline ";
  const CommandResult asked = weir(beside + "two.json");
  ASSERT_EQ(asked.code, 0) << asked.out;
  std::set<std::string> schedules;
  const Json all = Json::parse(asked.out);
  for (const Json& one : all["plans"]) schedules.insert(one["plan"]["schedule"]);
  EXPECT_THAT(schedules, testing::IsSupersetOf({"1f1b", "vocab-2"}));
}

// zb-v needs three slots at K = 3, M = 4: the plan takes them, unless told how many, and then it
// says why not.
TEST_F(Command, PlansTakeTheSlotsTheirScheduleNeeds) {
  write("chain.csv",
        "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\nl,x,10,1,1,1,"
        "64,64,6\n");
  const std::string plan = "plan chain.csv -K 3 -v 2 -M 4 --schedule zb-v -o plan.json";
  ASSERT_EQ(weir(plan).code, 0);
  EXPECT_THAT(read("plan.json"), HasSubstr("\"slots\": 3"));
  const Result two = weir(plan + " --slots 2");
  EXPECT_EQ(two.code, 3);
  EXPECT_THAT(two.out, HasSubstr("would deadlock with 2 receive slots"));
  EXPECT_EQ(weir("schedule zb-v -K 3 -M 4").code, 0);
  EXPECT_EQ(weir("schedule zb-v -K 3 -M 4 --slots 2").code, 4);
  const Result swept = weir("sweep chain.csv -K 3 -v 2 -M 4 --schedule zb-v --json");
  EXPECT_EQ(swept.code, 0);
  EXPECT_THAT(weir("sweep chain.csv -K 3 -v 2 -M 4 --schedule zb-v --slots 2 --json").out,
              HasSubstr("zb-v deadlocks with 2 receive slots; 3 are enough"));
}

// A schedule of the user's own, printed by a program: drawn, proved, and kept beside the plan that
// uses it.
TEST_F(Command, ASchedulesProgramIsRunWithKMV) {
  write("fill.sh",
        "for r in $(seq 0 $(($1-1))); do l=; for m in $(seq 0 $(($2-1))); do l=$l${r}F$m,; done\n"
        "for m in $(seq 0 $(($2-1))); do l=$l${r}B$m,; done; echo $l; done\n");
  EXPECT_THAT(weir("schedule 'exec:sh fill.sh' -K 3 -M 5").out, HasSubstr("at most 5 in flight"));
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --schedule 'exec:sh fill.sh' -o plan.json").code, 0);
  EXPECT_EQ(read("plan.schedule.csv"),
            "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n");
  EXPECT_EQ(weir("simulate plan.json").code, 0);
  EXPECT_EQ(weir("schedule exec:false -K 2").code, 3);
  EXPECT_THAT(weir("schedule 'exec:echo 0F0,0B0 #' -K 2 -M 1").out,
              HasSubstr("K = 1, M = 1, v = 1 where 2, 1 and 1"));
}

// Several at once, K = 4, M = 12, F = I = W = 1 ms: 1F1B (M + K - 1) 3 = 45 ms, ZB-H1 (K - 1)(F + I
// - W) more than 36, ZB-V none by span. Held at most: K micro-batches each, ZB-V's 8 being of half
// a rank. A file of the same sizes stands beside them, and one v of -v 2 where there is a choice.
TEST_F(Command, SeveralSchedulesStandBesideEachOther) {
  const std::string same = " -K 4 -M 12 --uniform F=1ms,I=1ms,W=1ms,latency=0s";
  ASSERT_EQ(weir("schedule gpipe -K 4 -M 12 --csv mine.csv").code, 0);
  const Json json = Json::parse(
      weir("schedule mine.csv zb-h1 zb-v 1f1b interleaved-1f1b dualpipe -v 2 --json" + same).out);
  EXPECT_EQ(json["schema"], "weir.schedule_comparison/1");
  EXPECT_EQ(json["pp"], 4);
  const Json& all = json["schedules"];
  ASSERT_EQ(all.size(), 6U);
  const auto each = [&](const char* key) {
    std::vector<double> values;
    for (const Json& one : all) values.push_back(one[key].get<double>());
    return values;
  };
  EXPECT_THAT(each("vpp"), testing::ElementsAre(1, 1, 2, 1, 2, 1));
  EXPECT_THAT(each("in_flight"), testing::ElementsAre(12, 4, 4, 4, testing::Gt(4), 5));
  EXPECT_NEAR(all[0]["step_time_s"].get<double>(), 0.045, 1e-12);
  EXPECT_NEAR(all[1]["step_time_s"].get<double>(), 0.039, 1e-12);
  EXPECT_NEAR(all[3]["step_time_s"].get<double>(), 0.045, 1e-12);
  EXPECT_NEAR(all[2]["bubble_fraction_span"].get<double>(), 0, 1e-12);
  EXPECT_EQ(all[0]["timeline"].size(), 4U * 12 * 2);
  const std::string text = weir("schedule mine.csv zb-v" + same + " --svg both.svg").out;
  EXPECT_THAT(text, HasSubstr("no deadlock"));
  EXPECT_THAT(text, HasSubstr("\nzb-v\n  0 0F0"));
  // Some 7.5 points an action of half a rank have no room for "7F10", but for two lines of 5
  // points.
  const std::string svg = read("both.svg");
  EXPECT_THAT(svg, HasSubstr("font-size=\"5\""));
  EXPECT_THAT(svg, HasSubstr("a rank's second stage"));
}

// What a published schedule does not allow is its row's; a file of other sizes is nobody's row.
TEST_F(Command, SeveralSchedulesSayWhatCannotBe) {
  const std::string text = weir("schedule 1f1b dualpipe -K 3 -M 4").out;
  EXPECT_THAT(text, HasSubstr("refused: dualpipe needs even K"));
  EXPECT_EQ(weir("schedule dualpipe chimera -K 3 -M 4").code, 2);
  EXPECT_EQ(weir("schedule 1f1b 1f1bb -K 3 -M 4").code, 2);
  EXPECT_EQ(weir("schedule 1f1b gpipe --csv -").code, 2);
  write("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_THAT(weir("schedule two.csv 1f1b").out, HasSubstr("two.csv"));
  EXPECT_EQ(weir("schedule two.csv 1f1b").code, 0);  // of 2 ranks, as the file
  EXPECT_EQ(weir("schedule two.csv 1f1b -K 4").code, 2);
  // ZB-V needs three slots at K = 3, M = 4; rendezvous blocks 1F1B from M = 2 on.
  EXPECT_THAT(weir("schedule zb-v 1f1b -K 3 -M 4 --slots 2").out,
              HasSubstr("deadlocks with 2 receive slots"));
  EXPECT_THAT(weir("schedule 1f1b gpipe -K 2 -M 2 --transfers rendezvous").out,
              HasSubstr("deadlocks with rendezvous transfers"));
}

// A plan of a schedule that allows one v only has it.
TEST_F(Command, APlanHasTheOneVOfItsSchedule) {
  write("chain.csv",
        "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\nl,x,10,1,1,1,"
        "64,64,6\n");
  ASSERT_EQ(weir("plan chain.csv -K 2 -M 4 --schedule zb-v -o v.json").code, 0);
  EXPECT_EQ(Json::parse(read("v.json"))["vpp"], 2);
  EXPECT_EQ(weir("plan chain.csv -K 2 -M 4 -v 1 --schedule zb-v -o v.json").code, 2);
}

TEST_F(Command, AGridIsProvedCaseByCase) {
  const Result result = weir("schedule 1f1b --grid K=2,M=1..2 --prove --json");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["cases"].size(), 2U);
  EXPECT_EQ(json["cases"][0]["rendezvous"], true);
  EXPECT_EQ(json["cases"][1]["rendezvous"], false);
  EXPECT_EQ(json["cases"][1]["batched"], true);
  EXPECT_THAT(json["counter_examples"][0]["cycle"].get<std::string>(), HasSubstr("0SEND_F1"));
  EXPECT_EQ(weir("schedule 1f1b --grid K=2 --prove").code, 2);
  EXPECT_EQ(weir("schedule 1f1b --prove").code, 2);
}

TEST_F(Command, TimesComeFromAFileStageByStage) {
  write("times.csv", "stage,f_ms,i_ms,w_ms,latency_ms\n0,2,1,1,0.5\n1,3,2,1,0\n");
  // K = 2, M = 1: 2 + 0.5 + 3 + 3 + 0 + 2 = 10.5 ms.
  const Json json = Json::parse(weir("schedule gpipe -K 2 -M 1 --times times.csv --json").out);
  EXPECT_DOUBLE_EQ(json["step_time_s"], 0.0105);
  write("times.csv", "stage,f_ms,i_ms,w_ms\n0,2,1,1\n");
  EXPECT_EQ(weir("schedule gpipe -K 2 -M 1 --times times.csv").out,
            "weir: times.csv: stage 1 of 2 has no row\n");
  write("times.csv", "stage,f_ms,i_ms\n0,2,1\n");
  EXPECT_EQ(weir("schedule gpipe -K 1 -M 1 --times times.csv").out,
            "weir: times.csv: row 1: column w_ms is missing\n");
}

// F = 2, I = W = 1 ms, K = 4, M = 8: (M + K - 1)(F + I + W) = 44 ms, bubble 3/11; rates and memory
// are null.
TEST_F(Command, UniformSchedulesAreTimedWithoutAModel) {
  const Json json = Json::parse(
      weir("--json schedule 1f1b -K 4 -M 8 --uniform F=2ms,I=1ms,W=1ms,latency=0s").out);
  EXPECT_EQ(json["schema"], "weir.forecast/1");
  EXPECT_DOUBLE_EQ(json["step_time_s"].get<double>(), 0.044);
  EXPECT_NEAR(json["bubble_fraction_span"].get<double>(), 3.0 / 11, 1e-12);
  EXPECT_TRUE(json["tokens_per_s"].is_null());
  EXPECT_TRUE(json["ranks"][0]["peak_memory_bytes"].is_null());
}

TEST_F(Command, ADeadlockIsRefusedBeforeItRuns) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 2 -o plan.json").code, 0);
  write("crossed.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  std::string plan = read("plan.json");
  plan.replace(plan.find("\"1f1b\""), 6, "\"crossed.csv\"");
  write("plan.json", plan);
  const Result result = weir("run plan.json");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("deadlock: 0B0 waits for the gradient of stage 1"));
}

}  // namespace
}  // namespace weir::schedule_command_test
