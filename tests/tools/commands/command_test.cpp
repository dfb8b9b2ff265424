// The command as users meet it: exit codes, one line of complaint, the same bytes twice, and what
// plans, sweeps and forecasts are asked with.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/commands/tiny_command.hpp"

namespace weir::command_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;
using Result = CommandResult;

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

}  // namespace
}  // namespace weir::command_test
