// `weir sweep` with little said: the space it searches by itself, what it writes, and how a plan is
// taken out of it.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/command.hpp"

namespace weir {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class SearchCommand : public InFolder {
 protected:
  SearchCommand() {
    write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":4,"n_layer":6,"vocab_size":32,)"
                       R"("n_positions":16})");
  }
  std::string cluster_ = " --cluster " WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json";
  std::string eight_ = "sweep tiny.json --gpus 8 --global-batch-size 8" + cluster_;
};

TEST_F(SearchCommand, AModelAClusterAndABatchAreEnough) {
  const CommandResult result = weir("-q --json " + eight_ + " -o found/sweep.json --plans plans");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  EXPECT_GT(json["candidates"].get<int>(), 256);
  ASSERT_EQ(json["plans"].size(), 20);
  std::set<std::string> schedules;
  for (const Json& row : json["plans"]) {
    const Json& p = row["plan"];
    schedules.insert(p["schedule"].get<std::string>());
    EXPECT_EQ(p["pp"].get<int>() * p["tp"].get<int>() * p["cp"].get<int>() * p["dp"].get<int>(), 8);
    EXPECT_EQ(p["micro_batch_size"].get<int>() * p["microbatches"].get<int>() * p["dp"].get<int>(),
              8);
    EXPECT_EQ(p["dtype"], "bf16");
  }
  std::set<std::string> reasons;
  for (const Json& left_out : json["left_out"]) {
    reasons.insert(left_out["reason"]);
    EXPECT_GT(left_out["count"].get<int>(), 0);
    EXPECT_NE(left_out["nearest"], "");
  }
  EXPECT_THAT(reasons, testing::IsSupersetOf({"devices", "schedule"}));
  EXPECT_GE(json["effort"]["looked_at"].get<int>(), 20);

  // The files are for the folders they are in: taken out from here, and forecast as listed.
  const double third = json["plans"][2]["forecast"]["step_time_s"];
  ASSERT_EQ(weir("plan --from found/sweep.json --place 3 -o elsewhere/p.json").code, 0);
  for (const std::string plan : {"elsewhere/p.json", "plans/plan-3.json"}) {
    const Json again = Json::parse(weir("-q --json simulate " + plan + cluster_).out);
    EXPECT_EQ(again["step_time_s"], third) << plan;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "plans/plan-21.json"));
  const CommandResult beyond = weir("plan --from found/sweep.json --place 21");
  EXPECT_EQ(beyond.code, 3);
  EXPECT_THAT(beyond.out, HasSubstr("found/sweep.json: plans: has 20 plans, none at place 21"));
  EXPECT_EQ(weir("plan --from found/sweep.json -K 2").code, 2);
  EXPECT_EQ(weir("plan --from abacus").code, 2);
  EXPECT_EQ(weir("plan tiny.json --place 2").code, 2);
}

// The degrees of a plan in use are in the space, and it is shown whether it fits or not; on other
// devices than the search has, device by device.
TEST_F(SearchCommand, ABaselineIsAlwaysShown) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 8 --dtype bf16 --attention fused -o plan.json").code, 0);
  const Json json =
      Json::parse(weir("-q --json sweep tiny.json --gpus 4 --baseline plan.json" + cluster_).out);
  const Json& baseline = json["baseline"];
  EXPECT_EQ(baseline["place"], nullptr);
  EXPECT_DOUBLE_EQ(baseline["device_ratio_to_best"].get<double>(),
                   baseline["ratio_to_best"].get<double>() * 2 / 4);
  const CommandResult none =
      weir("sweep tiny.json --gpus 2 --baseline plan.json --memory-limit '1 KiB'" + cluster_);
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.out, testing::AllOf(HasSubstr("baseline plan.json: "), HasSubstr("by memory")));
}

TEST_F(SearchCommand, DevicesAreOfOneKindOfCount) {
  EXPECT_EQ(weir(eight_ + " --at-most 8").code, 2);
  const Json json = Json::parse(
      weir("-q --json sweep tiny.json --at-most 4 --global-batch-size 4 --schedule 1f1b" + cluster_)
          .out);
  ASSERT_GT(json["plans"].size(), 0);
  for (const Json& row : json["plans"]) {
    const Json& p = row["plan"];
    EXPECT_LE(p["pp"].get<int>() * p["tp"].get<int>() * p["cp"].get<int>() * p["dp"].get<int>(), 4);
  }
}

}  // namespace
}  // namespace weir
