// `weir compare` of a folder of timelines with itself, with another and with a plan.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"
#include "tests/traces/timeline_files.hpp"

namespace weir::timeline_command_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class TimelineCommand : public InFolder {
 protected:
  TimelineCommand() {
    TimelineFiles(4).write(folder_ / "pp");
    // A stage of F 10 ms and B 20 ms is just what the folder holds.
    write("layers.csv",
          "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\nl,x,10,"
          "10,10,10,64,64,2\n");
    EXPECT_EQ(weir("plan layers.csv -K 2 -M 2 --schedule 1f1b -o plan.json").code, 0);
  }
  Json compared(const std::string& what) {
    const auto [code, out] = weir("compare " + what + " --json");
    EXPECT_EQ(code, 0) << out;
    return Json::parse(out);
  }
};

TEST_F(TimelineCommand, HoldsIterationsAgainstOneAnother) {
  const Json json = compared("pp pp");
  EXPECT_EQ(json["schema"], "weir.timeline_comparison/1");
  EXPECT_EQ(json["priced_by"], 3);              // the last but one
  EXPECT_EQ(json["iterations"], Json({2, 4}));  // 1 is warm-up
  EXPECT_NEAR(json["predicted_s"].get<double>(), 0.092, 1e-9);
  EXPECT_NEAR(json["measured_s"].get<double>(), 0.093, 1e-9);
  EXPECT_EQ(json["start_errors"]["actions"], 16);
  EXPECT_NEAR(json["start_errors"]["p95"].get<double>(), 0.5 / 93, 1e-9);
  EXPECT_EQ(json["uninterrupted_start_errors"], json["start_errors"]);
  EXPECT_TRUE(json["interruptions"].empty());
  EXPECT_EQ(json["actions"][4]["action"], "1F0");
  EXPECT_NEAR(json["actions"][4]["predicted_start_s"].get<double>(), 0.0105, 1e-9);
  EXPECT_NEAR(json["actions"][4]["measured_start_s"].get<double>(), 0.011, 1e-9);
  EXPECT_EQ(json["ranks"][0]["measured_peak_memory_bytes"], 3LL << 30);
  EXPECT_TRUE(json["ranks"][0]["predicted_peak_memory_bytes"].is_null());
  // The warm-up's medians are three times too long.
  EXPECT_NEAR(compared("pp pp --priced-by 1")["error"].get<double>(), 276.0 / 93 - 1, 1e-9);
}

TEST_F(TimelineCommand, HoldsAPlanAgainstIt) {
  const Json json = compared("plan.json pp -o out");
  EXPECT_TRUE(json["priced_by"].is_null());
  EXPECT_EQ(json["iterations"], Json({2, 3, 4}));
  EXPECT_EQ(json["actions"].size(), 8U);
  EXPECT_NEAR(json["actions"][0]["predicted_s"].get<double>(), 0.01, 1e-4);
  EXPECT_TRUE(json["ranks"][1]["predicted_peak_memory_bytes"].is_number());
  EXPECT_EQ(Json::parse(read("out/comparison.json")), json);
  EXPECT_THAT(read("out/both.svg"), HasSubstr("<svg"));
}

// Iteration 2's last backward of rank 0 is held up; both figures are printed, and the rule.
TEST_F(TimelineCommand, SaysWhatWasInterrupted) {
  Json rank;
  // Of two durations no one exceeds thrice their mean: four micro-batches on one rank.
  for (int i = 1; i <= 4; ++i) {
    const double last = i == 2 ? 100 : 20;
    rank[std::to_string(i)] = {{"total", 100 + last},
                               {"memory", 1},
                               {"fwd_start", {0, 10, 20, 30}},
                               {"fwd_end", {10, 20, 30, 40}},
                               {"bwd_start", {40, 60, 80, 100}},
                               {"bwd_end", {60, 80, 100, 100 + last}}};
  }
  TimelineFiles files;
  files.config["pp_size"] = 1;
  files.config["num_mbs"] = 4;
  files.ranks = {rank};
  files.write(folder_ / "one");
  const Json json = compared("one one");
  ASSERT_EQ(json["interruptions"].size(), 1U);
  EXPECT_EQ(json["interruptions"][0]["iteration"], 2);
  EXPECT_EQ(json["interruptions"][0]["action"], "0B3");
  EXPECT_EQ(json["start_errors"]["actions"], 16);
  EXPECT_EQ(json["uninterrupted_start_errors"]["actions"], 8);
  const std::string text = weir("compare one one").out;
  EXPECT_THAT(text, HasSubstr("starts of 16 actions: 0.00 % of the step off in the median"));
  EXPECT_THAT(text, HasSubstr("starts of 8 actions, without interrupted iterations: "));
  EXPECT_THAT(text, HasSubstr("above 3 times its rank's median"));
  EXPECT_THAT(text, HasSubstr("iteration 2: 0B3 took 100 ms where its rank's median is 20 ms"));
  EXPECT_THAT(weir("compare pp pp").out, Not(HasSubstr("interrupted")));
}

TEST_F(TimelineCommand, RefusesWithOneLine) {
  EXPECT_EQ(weir("plan layers.csv -K 2 -M 4 --schedule 1f1b -o longer.json").code, 0);
  EXPECT_EQ(weir("plan layers.csv -K 2 -M 2 --schedule gpipe -o gpipe.json").code, 0);
  TimelineFiles(1).write(folder_ / "single");
  TimelineFiles reordered;  // all forwards first
  for (auto& iteration : reordered.ranks[1]) {
    iteration["fwd_start"] = {11, 21};
    iteration["fwd_end"] = {21, 31};
    iteration["bwd_start"] = {331, 351};
    iteration["bwd_end"] = {341, 371};
  }
  reordered.write(folder_ / "reordered");
  const auto refused = [&](const std::string& what, int code, const std::string& says) {
    const auto [got, out] = weir("compare " + what);
    EXPECT_EQ(got, code) << what << ": " << out;
    EXPECT_THAT(out, HasSubstr(says)) << what;
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
  };
  refused("longer.json pp", 3, "has 2 ranks of one stage and 2 micro-batches, the plan 2 ranks, 2");
  refused("pp pp --priced-by 9", 3, "has no iteration 9: it has 1 to 4");
  refused("single single", 3, "has no iteration beside the one that prices it");
  refused("pp reordered", 3, "has another order of actions than pp");
  refused("plan.json pp --priced-by 2", 2, "--priced-by goes with two timelines");
  refused("plan.json plan.json --priced-by 2", 2, "--priced-by goes with two timelines");
  refused("layers.csv pp", 3, "");
  refused("pp plan.json", 2, "a folder of timelines");
  // Another order of a plan's is no other plan: what it costs is what is asked.
  EXPECT_EQ(weir("compare gpipe.json pp").code, 0);
}

}  // namespace
}  // namespace weir::timeline_command_test
