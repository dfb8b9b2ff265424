// The command as users meet it: exit codes, one line of complaint, the same bytes twice, and a
// whole loop on a tiny model.
// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/commands/command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace weir::command_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

using Result = CommandResult;

class Command : public InFolder {
 protected:
  Command() {
    write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,"vocab_size":32,)"
                       R"("n_positions":8})");
  }
};

TEST_F(Command, DoctorNamesTheOriginOfEveryConstant) {
  const Json doctor = Json::parse(weir("doctor --constants --json").out);
  EXPECT_GT(doctor["constants"].size(), 200U);
  for (const Json& constant : doctor["constants"])
    EXPECT_FALSE(constant["source"].get<std::string>().empty()) << constant;
  EXPECT_THAT(weir("doctor --constants").out, testing::HasSubstr("device.kernels.launch"));
}

TEST_F(Command, ExitCodesTellWhatKindOfTrouble) {
  EXPECT_EQ(weir("doctor").code, 0);
  EXPECT_EQ(weir("").code, 2);
  EXPECT_EQ(weir("model").code, 2);
  EXPECT_EQ(weir("model none.json").code, 3);
  EXPECT_EQ(weir("plan tiny.json -K 7").code, 3);
  EXPECT_EQ(weir("plan tiny.json -M 4 -b 3 --global-batch-size 8").code, 2);
  EXPECT_EQ(weir("sweep tiny.json -K 2 -M 4 --memory-limit '1 KiB'").code, 4);
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  EXPECT_EQ(weir("run plan.json --backend cuda").code, 5);
  EXPECT_EQ(weir("run plan.json --backend abacus").code, 2);
  EXPECT_EQ(weir("simulate plan.json --memory-limit 80").code, 2);
}

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
  const auto refused = [&](const std::string& command, int code, const char* line) {
    const CommandResult said = weir(command);
    EXPECT_EQ(said.code, code) << said.out;
    EXPECT_THAT(said.out, HasSubstr(line));
  };
  refused(
      "simulate two.json --cluster dgx-a100 --transfers batched", 3,
      "plan: schedule: vocab-2 divides the vocabulary: expected buffered transfers, not batched");
  refused("schedule vocab-1 -K 2 -M 4 --transfers rendezvous", 2,
          "--transfers rendezvous: vocab-1 divides the vocabulary: expected buffered");
  refused("schedule 1f1b -K 2 -M 4 --uniform F=1ms,I=1ms,W=1ms,S=1ms", 2,
          "--uniform: S and T are of schedules that divide the vocabulary");
  refused("schedule 1f1b -K 2 -M 4 --beside gpipe --svg a.svg --uniform F=1ms,I=1ms,W=1ms,S=1ms", 2,
          "--uniform: S and T are of schedules that divide the vocabulary");
  refused("plan tiny.json -K 2 -M 4 --schedule vocab-2 --partition uniform", 2,
          "--partition uniform: with --schedule vocab-2 stages are balanced");
  EXPECT_EQ(weir("schedule vocab-1 --grid K=2,M=1..3 --prove").code, 0);
  // A search beside such a baseline is of whole vocabularies, asked why or not.
  const std::string beside =
      "sweep tiny.json --pp 1,2 --cluster dgx-a100 --top 1000 -q --json --explain --baseline ";
  const CommandResult asked = weir(beside + "two.json");
  ASSERT_EQ(asked.code, 0) << asked.out;
  const Json all = Json::parse(asked.out);
  EXPECT_GT(all["plans"].size(), 4U);
  for (const Json& one : all["plans"]) EXPECT_NE(one["plan"]["schedule"], "vocab-2") << one["plan"];
}

TEST_F(Command, ContradictionsNameAllThree) {
  EXPECT_THAT(
      weir("plan tiny.json -M 4 -b 3 --global-batch-size 8").out,
      HasSubstr("--global-batch-size 8 contradicts --micro-batch-size 3 times --microbatches 4"));
}

// One option, three places: what a plan says, what a block keeps, what it is forecast to take.
TEST_F(Command, FusedAttentionGoesFromTheOptionToThePlan) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  EXPECT_THAT(read("plan.json"), testing::Not(HasSubstr("attention")));
  EXPECT_THAT(weir("plan tiny.json -K 2 -M 4 --attention flash -o fused.json").out,
              HasSubstr(" fused"));
  EXPECT_THAT(read("fused.json"), HasSubstr("\"attention\": \"fused\""));
  EXPECT_EQ(weir("simulate fused.json").code, 0);
  EXPECT_THAT(weir("plan tiny.json --attention eager").out,
              HasSubstr("--attention eager: expected unfused or fused"));
  EXPECT_EQ(weir("plan tiny.json --attention eager").code, 2);
  const auto kept = [this](const std::string& more) {
    return Json::parse(weir("model tiny.json --json " + more).out)["layers"][1]["activation_bytes"]
        .get<int>();
  };
  // fp32, 8 tokens, 2 heads: probabilities 2 8 8 4 = 512 bytes, statistics 2 8 4 = 64.
  EXPECT_EQ(kept("") - kept("--attention fused"), 512 - 64);
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

// Mesh-TensorFlow's Table 1 as the command prints it, every einsum of the derivation, and where the
// table's terms come from.
TEST_F(Command, LayoutsAreDerivedInTheOpen) {
  const std::string file = WEIR_SOURCE_DIR "/tools/examples/layouts/two-layer.json";
  const Result result = weir("model --layout " + file);
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out,
              HasSubstr("dw = x dh                512 x 1024  b*d_io*d_h/(r*c) = 134217728  rows"));
  EXPECT_THAT(result.out,
              HasSubstr("communication comes from: b*d_io/r by y and dx; d_io*d_h/c by dv and dw"));
  EXPECT_THAT(result.out, HasSubstr("b*d_io*d_h/(r*c)  b*d_io/r + b*d_h/c     c/d_h + r/d_io"));
  EXPECT_THAT(
      result.out,
      HasSubstr("The forward einsums alone would lose of the communication: d_io*d_h of data"));
  EXPECT_EQ(weir("model --layout " + file).out, result.out);
  const Json json = Json::parse(weir("model --json --layout " + file).out);
  EXPECT_EQ(json["schema"], "weir.layout_costs/1");
  EXPECT_EQ(json["layouts"][1]["communication"]["formula"], "2*d_io*d_h");
  EXPECT_EQ(json["layouts"][1]["communication"]["without_constants"]["formula"], "d_io*d_h");
  EXPECT_EQ(json["layouts"][1]["einsums"][3]["communication"]["value"], 512 * 2048);
  EXPECT_EQ(json["layouts"][4]["communication_per_computation"]["formula"], "c/d_h + r/d_io");
  EXPECT_FALSE(json.contains("run"));
}

TEST_F(Command, LayoutsRunBesideTheirPrediction) {
  write("layouts.json",
        R"({"schema": "weir.layout/1", "name": "small", "dimensions": [{"name": "b", "size": 64},
    {"name": "i", "size": 64}, {"name": "h", "size": 128}], "tensors": ["x[b, i]", "w[i, h]", )"
        R"("y[b, h]"],
    "einsums": ["y = x w"], "layouts": [{"name": "both", "mesh": [{"name": "r", "size": 2}, )"
        R"({"name": "c", "size": 4}],
    "rules": "b:r,i:c"}]})");
  const Result result =
      weir("model --layout layouts.json --run --workers 2 --rounds 2 --json 2>/dev/null");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json run = Json::parse(result.out)["run"];
  ASSERT_EQ(run["layouts"].size(), 2U);  // on 2 x 1 and on 1 x 2
  for (const Json& row : run["layouts"]) {
    EXPECT_EQ(row["difference"], 0);
    EXPECT_EQ(row["multiply_adds"], 3 * 64 * 64 * 128 / 2);
    EXPECT_GT(row["measured"]["compute_s"], 0);
    EXPECT_EQ(row["predicted"].is_null(), run["oversubscribed"].get<bool>());
  }
  // dw[i, h] sums over b, which is on r; y[b, h] over i, which is on c.
  EXPECT_EQ(run["layouts"][0]["all_reduced_elements"], 64 * 128);
  EXPECT_EQ(run["layouts"][1]["all_reduced_elements"], 64 * 128);
  EXPECT_EQ(weir("model --layout layouts.json --run --workers 3").out,
            "weir: layouts.json: layouts: both on 3 workers: tensor x[b, i]: dimension b of size "
            "64 does not divide by "
            "the 3 of mesh dimension r\n");
}

TEST_F(Command, LayoutOptionsAreStrict) {
  write("bad.json", R"({"schema": "weir.layout/1", "name": "n", "dimensions": []})");
  EXPECT_EQ(weir("model --layout bad.json").code, 3);
  EXPECT_EQ(weir("model --layout none.json").code, 3);
  EXPECT_EQ(weir("model tiny.json --layout bad.json").code, 2);
  EXPECT_EQ(weir("model tiny.json --run").code, 2);
  EXPECT_EQ(weir("model --layout bad.json --run --rounds 0").code, 2);
}

TEST_F(Command, ABadPlanLeavesEarlierOutputsUntouched) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  ASSERT_EQ(weir("simulate plan.json -o out").code, 0);
  const std::string before = read("out/forecast.json");
  std::string plan = read("plan.json");
  plan.replace(plan.find("\"slots\": 2"), 10, "\"slots\": -2");
  write("plan.json", plan);
  const Result result = weir("simulate plan.json -o out");
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out, "weir: plan.json: slots: expected an integer from 0 to 1048576\n");
  EXPECT_EQ(read("out/forecast.json"), before);
}

TEST_F(Command, TheSameCommandGivesTheSameBytes) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --recompute full -o plan.json").code, 0);
  const std::string plan = read("plan.json");
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --recompute full -o plan.json").code, 0);
  EXPECT_EQ(read("plan.json"), plan);
  EXPECT_EQ(weir("simulate plan.json --json").out, weir("simulate plan.json --json").out);
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(weir(std::string("schedule 1f1b -K 4 -M 6 --svg ") + name + ".svg").code, 0);
    ASSERT_EQ(weir(std::string("schedule 1f1b -K 4 -M 6 --pdf ") + name + ".pdf").code, 0);
  }
  EXPECT_EQ(read("a.svg"), read("b.svg"));
  EXPECT_EQ(read("a.pdf"), read("b.pdf"));
  EXPECT_EQ(read("a.csv"), read("b.csv"));
}

// The search gives the same with one thread and with two, except for how long it took.
TEST_F(Command, SweepsDoNotDependOnThreads) {
  const auto sweep = [this](const char* threads) {
    Json json = Json::parse(weir(std::string("--json sweep tiny.json -K 1..5 --global-batch-size 8 "
                                             "--recompute none,full,stage,except-last --threads ") +
                                 threads)
                                .out);
    json.erase("seconds");
    return json;
  };
  const Json one = sweep("1");
  EXPECT_EQ(one, sweep("2"));
  EXPECT_EQ(one["schema"], "weir.sweep/1");
  EXPECT_GT(one["feasible"].get<int>(), 50);
  double before = 0;
  for (const Json& plan : one["plans"]) {  // best first, never below its bound
    EXPECT_GE(plan["forecast"]["step_time_s"].get<double>(), before);
    EXPECT_GE(plan["gap"].get<double>(), -1e-9);
    before = plan["forecast"]["step_time_s"].get<double>();
  }
}

// A named cluster's memory is the limit, and its devices are all there are: 64 H100 of 80 GiB hold
// GPT-2, two of them no Llama 3 70B.
TEST_F(Command, AClusterLimitsMemoryAndDevices) {
  const std::string examples = WEIR_SOURCE_DIR "/tools/examples/";
  const std::string on_h100 =
      " --cluster " + examples + "clusters/dgx-h100.json -M 16 -b 1 --dtype bf16 --recompute full";
  const Json json =
      Json::parse(weir("--json sweep " + examples + "models/gpt2.json -K 1,8,4096" + on_h100).out);
  EXPECT_GT(json["feasible"].get<int>(), 0);
  for (const Json& plan : json["plans"]) EXPECT_LE(plan["plan"]["pp"].get<int>(), 8);
  const Result none =
      weir("sweep " + examples + "models/llama-3-70b.json -K 2 --tp 1 --cp 1 --dp 1" + on_h100);
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.out, HasSubstr("no plan fits"));
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

TEST_F(Command, PredictedAndMeasuredTracesCompare) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  ASSERT_EQ(weir("simulate plan.json -o out").code, 0);
  ASSERT_EQ(weir("run plan.json --steps 3 -o out").code, 0);
  const Result result = weir(
      "--json compare out/predicted.json out/measured.json --svg both.svg --perfetto both.pftrace");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(Json::parse(result.out)["schema"], "weir.comparison/1");
  EXPECT_GT(std::filesystem::file_size(folder_ / "both.pftrace"), 100U);
  EXPECT_EQ(weir("compare plan.json plan.json").code, 0);
  ASSERT_EQ(weir("profile tiny.json -b 1 -o profile.json").code, 0);
  EXPECT_EQ(weir("calibrate out/measured.json --costs profile.json -o costs.json").code, 0);
  EXPECT_EQ(weir("calibrate out/predicted.json --costs profile.json -o costs.json").code, 3);
  EXPECT_EQ(Json::parse(weir("--json simulate plan.json --costs costs.json").out)["basis"],
            "calibrated");
  for (const auto& [key, value] :
       {std::pair("label", "oversubscribed"), std::pair("kernels", "recorded")}) {
    Json spoilt = Json::parse(read("out/measured.json"));
    spoilt["weir"]["info"][key] = value;
    spoilt["weir"].erase("sha256");  // as edited by hand, not as damaged
    write("out/spoilt.json", spoilt.dump());
    for (const char* command : {"compare out/predicted.json out/spoilt.json",
                                "calibrate out/spoilt.json --costs profile.json -o costs.json"}) {
      const Result refused = weir(command);
      EXPECT_EQ(refused.code, 3) << command;
      EXPECT_THAT(refused.out, HasSubstr(std::string("out/spoilt.json: weir.info.") + key))
          << command;
    }
  }
}

TEST_F(Command, TheWholeLoopOnATinyModel) {
  const Result result =
      weir("tune tiny.json --global-batch-size 4 --rounds 1 --steps 1 --plans 2 -q -o out");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("(baseline)"));
  EXPECT_THAT(result.out, HasSubstr("out/report.html"));
  for (const char* name : {"report.html", "tune.json", "sweep.json", "costs.json", "profile.json",
                           "plan-0.json", "predicted-0.pftrace", "measured-0.json"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / name)) << name;
  }
  EXPECT_THAT(read("out/report.html"), HasSubstr("<svg"));
  EXPECT_EQ(read("out/report.html").find("http://") == std::string::npos ||
                read("out/report.html").find("src=\"http") == std::string::npos,
            true);
  EXPECT_EQ(weir("simulate out/plan-0.json --costs out/costs.json").code, 0);
  // Every schedule was in the race, the tiny model's two blocks being enough for two ranks: with
  // gpipe and 1f1b alone there would be some forty. Which are listed is by measured times.
  EXPECT_GT(Json::parse(read("out/sweep.json")).at("candidates").get<int>(), 100);
}

// One sample and one rank leave one plan, K = 1 with one micro-batch: there are no other runs to
// recalibrate it by, and its error by them is not known.
TEST_F(Command, TunesAnOnlyPlan) {
  const std::string tune =
      "-q tune tiny.json -K 1 --global-batch-size 1 --plans 1 --rounds 1 --steps 1 -o out";
  const Result result = weir("--json " + tune + " 2> /dev/null");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["plans"].size(), 1U);
  EXPECT_TRUE(json["plans"][0]["baseline"]);
  EXPECT_TRUE(json["plans"][0]["recalibrated_step_time_s"].is_null());
  EXPECT_TRUE(json["median_abs_error"].is_number());
  EXPECT_TRUE(json["median_abs_error_left_out"].is_null());
  EXPECT_THAT(weir(tune).out, HasSubstr("no other plan was run to recalibrate it by"));
  EXPECT_THAT(read("out/report.html"), HasSubstr("it was the only plan that was run"));
}

TEST_F(Command, EvaluatesItsOwnForecasts) {
  const Result result = weir(
      "--json -q evaluate tiny.json --global-batch-size 8 --fit 2 --interval 9 --held-out 3 "
      "--rounds 1 -o out 2> /dev/null");  // where a disturbed machine is said
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["schema"], "weir.evaluation/1");
  EXPECT_TRUE(json["disturbance"]["spread"].is_number());
  EXPECT_EQ(json["plans"], 3);
  EXPECT_EQ(json["coverage"]["calibration_plans"], 9);
  EXPECT_LE(json["coverage"]["hits"].get<int>(), 3);
  EXPECT_LT(json["memory_max_abs_error"].get<double>(),
            0.2);  // a message is large beside this model's weights
  // The fit's plans span the micro-batch sizes; they are run again beside the others.
  ASSERT_EQ(json["pace"]["plans"].size(), 2U);
  EXPECT_THAT(json["pace"]["plans"][0]["plan"], HasSubstr(" M1 b8 "));
  EXPECT_THAT(json["pace"]["plans"][1]["plan"], HasSubstr(" M8 b1 "));
  const Json predictions = Json::parse(read("out/predictions.json"));
  EXPECT_EQ(predictions["plans"].size(), 3U);
  ASSERT_EQ(json["trials"].size(), 3U);
  int inside = 0;
  for (const Json& trial : json["trials"]) {
    const double measured = trial["measured_step_time_s"];
    EXPECT_EQ(trial["times_s"].size(), 1U);
    EXPECT_LT(trial["step_time_interval_s"][0], trial["predicted_step_time_s"]);
    inside +=
        trial["step_time_interval_s"][0] <= measured && measured <= trial["step_time_interval_s"][1]
            ? 1
            : 0;
  }
  EXPECT_EQ(json["coverage"]["hits"], inside);
  EXPECT_THAT(read("out/report.html"), HasSubstr("Where the forecasts are weak"));
  EXPECT_THAT(read("out/report.html"), HasSubstr("<svg"));
  EXPECT_EQ(weir("evaluate tiny.json -K 99").code, 3);
  EXPECT_EQ(weir("evaluate tiny.json --backend synthetic").code, 2);
  EXPECT_EQ(weir("evaluate tiny.json --global-batch-size 1 --held-out 5000").code, 2);
}

// The plan's own step time decides how many steps make the best interval; rank 1 twice as slow
// slows the step.
TEST_F(Command, FailuresAndStragglersAreForecast) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  const std::string failures = " --mtbf 3h --checkpoint-cost 30s --restart-cost 5min";
  const Json json = Json::parse(weir("--json simulate plan.json" + failures).out);
  const Json& goodput = json["goodput"];
  EXPECT_EQ(goodput["mtbf_s"], 10800);
  EXPECT_EQ(goodput["restart_cost_s"], 300);
  // sqrt(2 x 30 x 10800) = 804.98 s; Daly's and the best lie 18 s below it.
  EXPECT_NEAR(goodput["young_interval_s"].get<double>(), 804.98, 0.01);
  EXPECT_NEAR(goodput["daly_interval_s"].get<double>(), goodput["best_interval_s"].get<double>(),
              0.1);
  EXPECT_NEAR(goodput["checkpoint_interval_s"].get<double>(),
              goodput["best_interval_s"].get<double>(), json["step_time_s"].get<double>());
  EXPECT_GT(goodput["goodput"].get<double>(), 0.89);
  EXPECT_LT(goodput["goodput"].get<double>(), 0.91);
  EXPECT_THAT(weir("simulate plan.json" + failures).out, HasSubstr("checkpoint every "));
  EXPECT_FALSE(Json::parse(weir("--json simulate plan.json").out).contains("goodput"));
  EXPECT_EQ(weir("simulate plan.json --mtbf 3h").code, 2);
  EXPECT_EQ(weir("simulate plan.json --mtbf 0s --checkpoint-cost 1s --restart-cost 1s").code, 2);
  EXPECT_EQ(weir("simulate plan.json --mtbf 3 --checkpoint-cost 1s --restart-cost 1s").code, 2);

  const Json slow = Json::parse(weir("--json simulate plan.json --straggler 1=2").out);
  EXPECT_GT(slow["step_time_s"].get<double>(), json["step_time_s"].get<double>() * 1.05);
  EXPECT_DOUBLE_EQ(slow["ranks"][0]["busy_s"].get<double>(),
                   json["ranks"][0]["busy_s"].get<double>());
  EXPECT_NEAR(slow["ranks"][1]["busy_s"].get<double>(),
              2 * json["ranks"][1]["busy_s"].get<double>(), 1e-7);
  for (const char* bad : {"2=1.5", "1", "1=", "1=0", "x=1", "1=2x", "-1=2"}) {
    EXPECT_EQ(weir(std::string("simulate plan.json --straggler=") + bad).code, 2) << bad;
  }
}

TEST_F(Command, ReproducesPublishedTables) {
  const Result result = weir("--json -q reproduce megatron-2021 schedule-formulas --csv lines.csv");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["schema"], "weir.reproduction/1");
  ASSERT_GT(json["cases"].size(), 40U);
  for (const char* key : {"case", "row", "quantity", "published", "predicted", "error", "role"}) {
    EXPECT_TRUE(json["cases"][0].contains(key)) << key;
  }
  EXPECT_EQ(json["summary"][0]["worst_abs_error"], 0);
  EXPECT_THAT(read("lines.csv"), HasSubstr("case,row,quantity,published,predicted,error,role\n"));
  EXPECT_THAT(weir("-q reproduce megatron-2021").out, HasSubstr("TFLOP/s a GPU"));
  EXPECT_EQ(weir("reproduce gpt-5").code, 2);
  EXPECT_EQ(weir("-q reproduce vtrain --published .").code, 3);
  const std::string header =
      "parameters_billion,tensor_parallel,pipeline_parallel,batch,gpus,micro_batch,tflops_per_"
      "gpu\n";
  write("megatron-2021-table1.csv", "parameters_billion,hidden,layers\n1.7,2304,24\n");
  write("megatron-2021-table2.csv", header + "174.6,8,12,1536,300,1,153\n");
  EXPECT_EQ(weir("-q reproduce megatron-2021 --published .").out,
            "weir: ./megatron-2021-table2.csv: line 2: gpus: \"300\": 300 is no multiple of 96\n");
}

// Timed waits show GPipe's bubble with more ranks than this machine has cores.
TEST_F(Command, SyntheticSweepDrawsTheBubble) {
  const Result result = weir(
      "sweep tiny.json -K 4 -M 1,4 --schedule gpipe --backend synthetic --run --steps 1 --svg "
      "bubble.svg");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(read("bubble.svg"), HasSubstr("M = 4K"));
  EXPECT_THAT(read("bubble.data.csv"), HasSubstr("measured,4,"));
}

}  // namespace
}  // namespace weir::command_test
