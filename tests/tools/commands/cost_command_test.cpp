// What training costs, as commands tell it: hours always on GPUs, money where the cluster has a
// price, and a whole training where its tokens are said.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/commands/command.hpp"

namespace weir::cost_command_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const std::string kModels = WEIR_SOURCE_DIR "/tools/examples/models/";
const std::string kPlan = "-q plan " + kModels + "llama-3-8b.json --dtype bf16 --attention fused ";

class CostCommand : public InFolder {
 protected:
  // 16 devices at `price`, and none in dgx-h100's own file; a plan of 4 x 2 x 2 of them, 64
  // sequences of 8192 tokens a step.
  void make(const std::string& price) {
    std::ifstream file(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json");
    Json cluster = Json::parse(file);
    cluster["price_per_gpu_hour"] = price;
    write("priced.json", cluster.dump());
    const CommandResult made = weir(kPlan + "-K 4 --tp 2 --dp 2 -M 32 -b 1 --zero 1 -o plan.json");
    ASSERT_EQ(made.code, 0) << made.out;
  }
  // A node of 8 of its devices, and another; "" for no price.
  Json two_pools(const std::string& first, const std::string& second) {
    Json both{{"schema", "weir.cluster/1"}, {"name", "both"}, {"pools", Json::array()}};
    for (const std::string& price : {first, second}) {
      Json pool = Json::parse(read("priced.json"));
      pool["name"] = both["pools"].empty() ? "one" : "other";
      pool["nodes"] = 1;
      pool["price_per_gpu_hour"] = price;
      if (price.empty()) pool.erase("price_per_gpu_hour");
      both["pools"].push_back(pool);
    }
    return both;
  }
  // The lines of a CSV, cell by cell.
  std::vector<std::vector<std::string>> rows_of(const std::string& csv) {
    std::vector<std::vector<std::string>> rows;
    std::istringstream lines(csv);
    for (std::string line; std::getline(lines, line);) {
      rows.emplace_back();
      bool quoted = false;
      rows.back().emplace_back();
      for (const char c : line) {
        if (c == '"') quoted = !quoted;
        if (c == ',' && !quoted) {
          rows.back().emplace_back();
        } else {
          rows.back().back() += c;
        }
      }
    }
    return rows;
  }
  Json of(const std::string& arguments) {
    const CommandResult result = shell(WEIR_COMMAND " -q --json " + arguments + " 2> errors");
    EXPECT_EQ(result.code, 0) << result.out;
    return Json::parse(result.out);
  }
};

// A step of t seconds is 16 t / 3600 GPU-hours. It has 64 x 8192 = 524,288 tokens, of which 1e12
// are 1e12 / 524,288 steps; a GPU-hour is 2 USD.
TEST_F(CostCommand, SimulateTellsHoursAndMoney) {
  make("2 USD");
  const std::string simulate = "simulate plan.json --cluster priced.json ";
  const Json forecast = of(simulate + "--train-tokens 1e12");
  const double step = forecast["step_time_s"], hours = 16 * step / 3600, steps = 1e12 / 524288;
  const Json& cost = forecast["training_cost"];
  EXPECT_NEAR(cost["step"]["gpu_hours"], hours, 1e-9 * hours);
  EXPECT_NEAR(cost["billion_tokens"]["gpu_hours"], hours * steps / 1000, 1e-9 * hours);
  EXPECT_NEAR(cost["training"]["gpu_hours"], hours * steps, 1e-9 * hours * steps);
  EXPECT_NEAR(cost["training"]["price"], 2 * hours * steps, 1e-9 * hours * steps);
  EXPECT_NEAR(cost["training"]["time_s"], step * steps, 1e-9 * step * steps);
  EXPECT_EQ(cost["training"]["currency"], "USD");
  const double high = forecast["step_time_interval_s"][1];
  EXPECT_NEAR(cost["training"]["price_interval"][1], 2 * 16 * high / 3600 * steps,
              1e-9 * hours * steps);
  const CommandResult text = weir("-q " + simulate + "--train-tokens 1e12");
  EXPECT_THAT(text.out, HasSubstr("USD) a billion tokens\n"));
  EXPECT_THAT(text.out, HasSubstr("1,000,000,000,000 tokens: "));
  // Of the same forecast.
  for (const std::string command : {"explain", "fits"}) {
    const std::string whole = command + " plan.json --cluster priced.json --train-tokens 1e12";
    EXPECT_EQ(of(whole)["training_cost"], cost) << command;
    const std::string line = text.out.substr(text.out.find("1,000,000,000,000 tokens: "));
    EXPECT_THAT(weir("-q " + whole).out, HasSubstr(line.substr(0, line.find('\n') + 1)));
  }
}

TEST_F(CostCommand, WithoutAPriceThereIsNoMoney) {
  make("2 USD");
  const CommandResult text = weir("-q simulate plan.json --cluster dgx-h100");
  EXPECT_THAT(text.out, HasSubstr(" GPU-hours a billion tokens\n"));
  const Json cost = of("simulate plan.json --cluster dgx-h100")["training_cost"];
  EXPECT_FALSE(cost["step"].contains("price"));
  EXPECT_FALSE(cost["step"].contains("currency"));
  EXPECT_FALSE(cost.contains("training"));
}

// 8 devices of the first kind cost 2 USD an hour each, those of the second 4: a plan of 4 ranks of
// 3 devices has 8 of the first and 4 of the second, 8 x 2 + 4 x 4 = 32 USD an hour.
TEST_F(CostCommand, DevicesOfTwoKindsHaveTheirOwnPrices) {
  make("2 USD");
  Json both = two_pools("2 USD", "4 USD");
  write("both.json", both.dump());
  ASSERT_EQ(weir(kPlan + "-K 4 --tp 1 --dp 3 -M 32 -b 1 -o plan.json").code, 0);
  const Json forecast = of("simulate plan.json --cluster both.json");
  const double step = forecast["step_time_s"];
  EXPECT_NEAR(forecast["training_cost"]["step"]["price"], 32 * step / 3600, 1e-9 * step);
  // Where one of them has none there is no sum.
  both["pools"][1].erase("price_per_gpu_hour");
  write("both.json", both.dump());
  EXPECT_FALSE(
      of("simulate plan.json --cluster both.json")["training_cost"]["step"].contains("price"));
}

TEST_F(CostCommand, ABadPriceAndTokensOfNone) {
  for (const char* price : {"-2 USD", "nan USD", "cheap", "2"}) {
    make(price);
    const CommandResult refused = weir("simulate plan.json --cluster priced.json");
    EXPECT_EQ(refused.code, 3);
    EXPECT_EQ(refused.out,
              "weir: priced.json: price_per_gpu_hour: expected an amount with its currency, as "
              "\"2.50 USD\"\n");
  }
  for (const std::string command : {"simulate", "explain", "fits"}) {
    for (const char* tokens : {"0", "-1", "nan", "many", "1e30", "2.5"}) {
      const CommandResult refused =
          weir(command + " plan.json --cluster dgx-h100 --train-tokens=" + tokens);
      EXPECT_EQ(refused.code, 2) << refused.out;
      EXPECT_THAT(refused.out, HasSubstr("--train-tokens: ")) << tokens;
    }
  }
}

// Rows of unequally many devices are told apart by their hours; the order stays that of time.
TEST_F(CostCommand, ASweepTellsHoursWhereDevicesDiffer) {
  make("2 USD");
  const std::string sweep =
      "-q sweep " WEIR_SOURCE_DIR
      "/tools/examples/models/llama-3-8b.json --cluster priced.json --global-batch-size 64 --tp 2 "
      "--schedule 1f1b --recompute full --train-tokens 1e12 ";
  const CommandResult unequal =
      weir(sweep + "--at-most 16 -K 4 --cp 1 --dp 1,2 -M 32,64 -b 1 --zero 1");
  EXPECT_THAT(unequal.out, HasSubstr("device-hours/1e9 tokens"));
  EXPECT_THAT(unequal.out, HasSubstr("USD/1e9 tokens"));
  EXPECT_THAT(unequal.out, HasSubstr("\n  1,000,000,000,000 tokens: "));
  const CommandResult equal = weir(sweep + "--gpus 16 -K 4 --dp 2");
  EXPECT_THAT(equal.out, Not(HasSubstr("device-hours/1e9 tokens")));
  EXPECT_THAT(equal.out, HasSubstr(" a billion tokens\n"));
  // Programs get the columns always.
  const CommandResult csv = weir(sweep + "--gpus 16 -K 4 --dp 2 --format csv 2> /dev/null");
  EXPECT_THAT(csv.out.substr(0, csv.out.find('\n')),
              HasSubstr("device-hours/1e9 tokens,USD/1e9 tokens"));
  const CommandResult json =
      shell(WEIR_COMMAND " --json " + sweep + "--gpus 16 -K 4 --dp 2 2> errors");
  const Json best = Json::parse(json.out)["plans"][0]["forecast"];
  EXPECT_EQ(best["training_cost"]["training"]["tokens"], 1e12);
}

// A plan of one pool's devices alone may have a price where another has none, and the column is
// there whichever row is first.
TEST_F(CostCommand, ASweepTellsThePricesThatThereAre) {
  make("2 USD");
  const std::string sweep =
      "-q sweep " + kModels +
      "llama-3-8b.json --cluster both.json --global-batch-size 64 --at-most 16 -K 4 --tp 2 --cp 1 "
      "--dp 1,2 -M 32,64 -b 1 --zero 1 --schedule 1f1b --recompute full --format csv 2> errors";
  write("both.json", two_pools("2 USD", "").dump());
  const auto rows = rows_of(weir(sweep).out);
  ASSERT_GE(rows.size(), 3);
  ASSERT_EQ(rows[0].back(), "USD/1e9 tokens");
  // The faster plan is on both pools, of which one has no price.
  EXPECT_EQ(rows[1].back(), "");
  bool told = false;
  for (std::size_t row = 2; row < rows.size(); ++row) {
    if (rows[row].back().empty()) continue;
    told = true;
    const double hours = std::stod(rows[row][rows[row].size() - 2]);
    EXPECT_NEAR(std::stod(rows[row].back()), 2 * hours, 1e-4 * hours);
  }
  EXPECT_TRUE(told);
}

// Without a mini-batch's size rows train unequally much a step: the shortest step tells nothing.
TEST_F(CostCommand, ASweepTellsHoursWhereMiniBatchesDiffer) {
  make("2 USD");
  const CommandResult result = weir(
      "-q sweep " + kModels +
      "llama-3-8b.json --cluster priced.json --gpus 16 -K 4 --tp 2 --cp 1 --dp 2 -M 16,32 -b 1 "
      "--zero 1 --schedule 1f1b --recompute full");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("device-hours/1e9 tokens"));
}

// Pictures are no tokens: hours are of a thousand steps, as elsewhere.
TEST_F(CostCommand, ASweepOfPicturesTellsAThousandSteps) {
  const std::string sweep = "-q sweep " + kModels +
                            "resnet-18-cifar.json --cluster dgx-h100 --gpus 2 "
                            "--global-batch-size 16 -K 2 -M 4 --dp 1 --schedule 1f1b ";
  const auto rows = rows_of(weir(sweep + "--format csv 2> errors").out);
  ASSERT_GE(rows.size(), 2);
  ASSERT_EQ(rows[0].back(), "device-hours/1000 steps");
  const double step = of(sweep)["plans"][0]["forecast"]["step_time_s"];
  EXPECT_NEAR(std::stod(rows[1].back()), 2 * step * 1000 / 3600, 1e-5 * step * 1000);
}

// tpu-v3's file has no multiprocessors: its devices are no CPU's cores.
TEST_F(CostCommand, WhatMayBeNoGpuIsADevice) {
  make("2 USD");
  EXPECT_THAT(weir("-q simulate plan.json --cluster " WEIR_SOURCE_DIR
                   "/tools/examples/clusters/tpu-v3.json")
                  .out,
              HasSubstr(" device-hours a billion tokens\n"));
}

// What fails every microsecond trains nothing.
TEST_F(CostCommand, ATrainingThatFailuresNeverEnd) {
  make("2 USD");
  const std::string simulate =
      "simulate plan.json --cluster priced.json --train-tokens 1234567 --mtbf 1ms "
      "--checkpoint-cost "
      "30s --restart-cost 5min";
  const Json cost = of(simulate)["training_cost"];
  ASSERT_TRUE(cost.contains("training"));
  EXPECT_TRUE(cost["training"].is_null());
  EXPECT_THAT(weir("-q " + simulate).out, HasSubstr("1,234,567 tokens: never done"));
}

// A sweep may name a faster plan that may not fit: what trains by it costs is told as well.
TEST_F(CostCommand, ASweepsOtherPlansTellTheTrainingToo) {
  const Json result = of("sweep " + kModels +
                         "llama-3-8b.json --cluster dgx-h100 --gpus 8 --global-batch-size 64 -K 4 "
                         "--dp 2 --tp 1 --cp 1 --train-tokens 1e12");
  ASSERT_FALSE(result["faster_if_it_fits"].is_null());
  EXPECT_EQ(result["faster_if_it_fits"]["forecast"]["training_cost"]["training"]["tokens"], 1e12);
}

// Without a host that keeps the optimizer's state nothing but more devices helps: 1 keeps 8e9 x 16
// bytes, of 79 GiB. What the job's own step costs stands beside theirs.
TEST_F(CostCommand, FitsTellsTheCostOfMoreDevicesBesideTheJobs) {
  make("2 USD");
  Json cluster = Json::parse(read("priced.json"));
  cluster.erase("host");
  cluster.erase("origins");
  write("priced.json", cluster.dump());
  ASSERT_EQ(weir(kPlan + "-K 1 -M 2 -b 1 --recompute full -o large.json").code, 0);
  const CommandResult result = weir("-q fits large.json --cluster priced.json");
  const std::string cost = "[0-9.]+ GPU-hours [(][0-9.]+ USD[)] a billion tokens";
  EXPECT_THAT(result.out, testing::ContainsRegex("on [0-9]+ devices instead of 1, " + cost +
                                                 " instead of " + cost + ":\n"));
}

// Clusters that say nothing of their host are told so by every command that prices such a plan.
TEST_F(CostCommand, OffloadingNeedsAClusterWithAHost) {
  const std::string mixtral = kModels +
                              "mixtral-8x7b.json --seq-length 4096 -M 8 -b 1 --dp 8 --ep 8 "
                              "--dtype bf16 ";
  ASSERT_EQ(weir("-q plan " + mixtral + "-o plan.json").code, 0);
  Json plan = Json::parse(read("plan.json"));
  plan["offload_activations"] = 0.5;
  write("away.json", plan.dump());
  for (const std::string& command :
       {std::string("simulate away.json --cluster dgx-a100"),
        "plan " + mixtral + "--offload-activations 0.2 -o other.json",
        "sweep " + mixtral + "--cluster dgx-a100 --offload-activations 0.3"}) {
    const CommandResult result = weir("-q " + command);
    EXPECT_EQ(result.code, 3) << result.out;
    EXPECT_THAT(result.out, HasSubstr("says nothing of its host (`host`), which the plan's "
                                      "offload_activations needs"));
  }
}

}  // namespace
}  // namespace weir::cost_command_test
