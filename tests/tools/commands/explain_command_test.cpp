// `weir explain`: changed plans as files that `weir simulate` forecasts to the same bits, what
// people read, and measured figures.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::explain_command_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class ExplainCommand : public InFolder {
 protected:
  ExplainCommand() {
    write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":4,"n_layer":6,"vocab_size":32,)"
                       R"("n_positions":16})");
    const CommandResult made =
        weir("plan tiny.json -K 4 -M 8 -b 2 --tp 2 --dp 2 --dtype bf16 -o plan.json" + cluster_);
    EXPECT_EQ(made.code, 0) << made.out;
  }
  Json of(const std::string& arguments) {
    const CommandResult result = weir("-q --json " + arguments);
    EXPECT_EQ(result.code, 0) << result.out;
    return Json::parse(result.out);
  }
  std::string cluster_ = " --cluster " WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json";
};

TEST_F(ExplainCommand, ChangedPlansAreFilesThatSimulateForecastsAlike) {
  const Json json = of("explain plan.json --plans changed/here -o why.json" + cluster_);
  EXPECT_EQ(json, Json::parse(read("why.json")));
  const double step = json["step_time_s"];
  for (const char* list : {"waterfall", "critical_path"}) {
    std::int64_t sum = 0;
    for (const Json& part : json[list]) sum += part["time_ns"].get<std::int64_t>();
    EXPECT_DOUBLE_EQ(static_cast<double>(sum) * 1e-9, step) << list;
  }
  int forecasts = 0, clusters = 0;
  for (std::size_t i = 0; i < json["what_if"].size(); ++i) {
    const Json& row = json["what_if"][i];
    const std::string name = "changed/here/what-if-" + std::to_string(i + 1);
    EXPECT_EQ(std::filesystem::exists(folder_ / (name + ".json")), row["refused"].is_null());
    if (!row["refused"].is_null()) continue;
    const bool changed = std::filesystem::exists(folder_ / (name + ".cluster.json"));
    EXPECT_EQ(changed, row["choice"] == "link");
    const Json its = of("simulate " + name + ".json" +
                        (changed ? " --cluster " + name + ".cluster.json" : cluster_));
    EXPECT_EQ(its["step_time_s"], row["step_time_s"]) << row["choice"] << row["to"];
    std::int64_t peak = 0;
    for (const Json& rank : its["ranks"])
      peak = std::max(peak, rank["peak_memory_bytes"].get<std::int64_t>());
    EXPECT_EQ(peak, row["peak_memory_bytes"]) << row["choice"] << row["to"];
    EXPECT_EQ(its["fits"], row["fits"]);
    ++forecasts;
    clusters += changed ? 1 : 0;
  }
  EXPECT_GT(forecasts, 15);
  EXPECT_EQ(clusters, 2);
}

TEST_F(ExplainCommand, PeopleReadTablesAndABar) {
  const CommandResult result = weir("explain plan.json --measured 1s" + cluster_);
  ASSERT_EQ(result.code, 0) << result.out;
  for (const char* words :
       {"where the step goes", "useful work at the device's peak", "##", "the critical path",
        "what one change would bring", "micro-batches: M 9 b 2, one more in the mini-batch",
        "schedule: gpipe", "measured 1s", "to tell: "})
    EXPECT_THAT(result.out, HasSubstr(words));
}

// A model that computes for most of its step, planned in bf16, whose measured step is what the same
// plan takes in fp32: that is named, with its time. What the plan itself takes, or ten times
// fp32's, is not.
TEST_F(ExplainCommand, AJobInTheWrongNumbersIsNamed) {
  write("large.json", R"({"model_type":"llama","hidden_size":4096,"num_hidden_layers":4,)"
                      R"("num_attention_heads":32,"intermediate_size":11008,"vocab_size":32000,)"
                      R"("max_position_embeddings":2048})");
  const std::string plan = "plan large.json -K 1 -M 8 -b 2 --attention fused" + cluster_;
  ASSERT_EQ(weir(plan + " --dtype bf16 -o meant.json").code, 0);
  ASSERT_EQ(weir(plan + " --dtype fp32 -o ran.json").code, 0);
  const double meant = of("simulate meant.json" + cluster_)["step_time_s"];
  const double ran = of("simulate ran.json" + cluster_)["step_time_s"];
  EXPECT_GT(ran, 3 * meant);
  const auto mistaken = [&](double seconds) {
    return of("explain meant.json --measured " + std::to_string(seconds) + "s" +
              cluster_)["measured"]["mistaken"];
  };
  EXPECT_EQ(mistaken(ran * 1.05)["dtype"], "fp32");
  EXPECT_DOUBLE_EQ(mistaken(ran * 1.05)["step_time_s"], ran);
  EXPECT_TRUE(mistaken(meant * 1.1).is_null());
  EXPECT_TRUE(mistaken(ran * 10).is_null());
}

TEST_F(ExplainCommand, AMeasuredFigureIsATimeOrARate) {
  const double step = of("explain plan.json" + cluster_)["step_time_s"];
  const Json slow = of("explain plan.json --measured 5ktok/s" + cluster_)["measured"];
  EXPECT_GT(slow["step_time_s"].get<double>(), step);
  EXPECT_EQ(slow["figure"], "5ktok/s");
  EXPECT_FALSE(slow["causes"].empty());
  EXPECT_TRUE(slow["within_interval"].is_boolean());
  const CommandResult no = weir("explain plan.json --measured fast" + cluster_);
  EXPECT_EQ(no.code, 2);
  EXPECT_THAT(no.out, HasSubstr("--measured fast: \"fast\": expected a step time"));
  EXPECT_EQ(weir("explain none.json").code, 3);
}

}  // namespace
}  // namespace weir::explain_command_test
