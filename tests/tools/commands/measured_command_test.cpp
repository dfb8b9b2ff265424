// What the command measures beside what it forecasts: traces that compare, the whole loop of tune
// on a tiny model, and evaluate's judgement of its own forecasts.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/tools/commands/tiny_command.hpp"

namespace weir::measured_command_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;
using Result = CommandResult;

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
}  // namespace weir::measured_command_test
