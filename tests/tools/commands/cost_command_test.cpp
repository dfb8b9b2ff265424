// What training costs, as commands tell it: hours always on GPUs, money where the cluster has a
// price, and a whole training where its tokens are said.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::cost_command_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class CostCommand : public InFolder {
 protected:
  // 16 devices at `price`, and none in dgx-h100's own file; a plan of 4 x 2 x 2 of them, 64
  // sequences of 8192 tokens a step.
  void make(const std::string& price) {
    std::ifstream file(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json");
    Json cluster = Json::parse(file);
    cluster["price_per_gpu_hour"] = price;
    write("priced.json", cluster.dump());
    const CommandResult made = weir("-q plan " WEIR_SOURCE_DIR
                                    "/tools/examples/models/llama-3-8b.json -K 4 --tp 2 --dp 2 -M "
                                    "32 -b 1 --dtype bf16 --attention fused --zero 1 -o plan.json");
    ASSERT_EQ(made.code, 0) << made.out;
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
  EXPECT_NEAR(cost["billion_tokens"]["gpu_hours"], hours * steps / 1000, 1e-9 * hours * steps);
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
  EXPECT_EQ(of("explain plan.json --cluster priced.json")["training_cost"]["step"], cost["step"]);
  EXPECT_EQ(of("fits plan.json --cluster priced.json")["training_cost"]["step"], cost["step"]);
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

// Half the file's nodes cost 2 USD a device and hour, the other half 4: a plan of 16 devices that
// stands on both, 8 on each, costs 48 USD an hour.
TEST_F(CostCommand, DevicesOfTwoKindsHaveTheirOwnPrices) {
  make("2 USD");
  Json both{{"schema", "weir.cluster/1"}, {"name", "both"}, {"pools", Json::array()}};
  for (const char* price : {"2 USD", "4 USD"}) {
    Json pool = Json::parse(read("priced.json"));
    pool["name"] = pool["price_per_gpu_hour"] = price;
    pool["nodes"] = 1;
    both["pools"].push_back(pool);
  }
  write("both.json", both.dump());
  const Json forecast = of("simulate plan.json --cluster both.json");
  const double step = forecast["step_time_s"];
  EXPECT_NEAR(forecast["training_cost"]["step"]["price"], 48 * step / 3600, 1e-9 * step);
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
  for (const char* tokens : {"0", "-1", "nan", "many", "1e30"}) {
    const CommandResult refused =
        weir(std::string("simulate plan.json --cluster dgx-h100 --train-tokens=") + tokens);
    EXPECT_EQ(refused.code, 2) << refused.out;
    EXPECT_THAT(refused.out, HasSubstr("--train-tokens: ")) << tokens;
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
  EXPECT_THAT(unequal.out, HasSubstr("GPU-hours/1e9 tokens"));
  EXPECT_THAT(unequal.out, HasSubstr("USD/1e9 tokens"));
  EXPECT_THAT(unequal.out, HasSubstr("\n  1,000,000,000,000 tokens: "));
  const CommandResult equal = weir(sweep + "--gpus 16 -K 4 --dp 2");
  EXPECT_THAT(equal.out, Not(HasSubstr("GPU-hours/1e9 tokens")));
  EXPECT_THAT(equal.out, HasSubstr(" a billion tokens\n"));
  // Programs get the columns always.
  const CommandResult csv = weir(sweep + "--gpus 16 -K 4 --dp 2 --format csv 2> /dev/null");
  EXPECT_THAT(csv.out.substr(0, csv.out.find('\n')),
              HasSubstr("GPU-hours/1e9 tokens,USD/1e9 tokens"));
  const CommandResult json =
      shell(WEIR_COMMAND " --json " + sweep + "--gpus 16 -K 4 --dp 2 2> errors");
  const Json best = Json::parse(json.out)["plans"][0]["forecast"];
  EXPECT_EQ(best["training_cost"]["training"]["tokens"], 1e12);
}

}  // namespace
}  // namespace weir::cost_command_test
