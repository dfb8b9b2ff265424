// `weir sweep` with little said: the space it searches by itself, what it writes, and how a plan is
// taken out of it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "tests/tools/commands/command.hpp"

namespace weir::search_command_test {
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

// A named degree narrows the search to itself: what the same search had found with it is found
// again, sequence parallelism with it.
TEST_F(SearchCommand, ANamedDegreeKeepsWhatGoesWithIt) {
  const auto best = [&](const std::string& options) {
    const CommandResult result = weir("-q --json " + eight_ + " --cp 1 --dp 2 --pp 2" + options);
    EXPECT_EQ(result.code, 0) << result.out;
    return Json::parse(result.out)["plans"][0]["plan"];
  };
  const Json open = best("");
  ASSERT_EQ(open["tp"], 2);
  EXPECT_EQ(open["sequence_parallel"], true);
  EXPECT_EQ(best(" --tp 2"), open);
}

// As every command that takes the plans refuses them: before anything is searched.
TEST_F(SearchCommand, SequencesAreNoLongerThanTheModelTakes) {
  for (const std::string& search :
       {eight_ + " --seq-length 17", eight_ + " --seq-length 17 --cp 4"}) {
    const CommandResult result = weir("-q " + search);
    EXPECT_EQ(result.code, 3) << result.out;
    EXPECT_THAT(result.out, HasSubstr("17 is above the model's 16 positions"));
  }
  EXPECT_EQ(weir("-q " + eight_ + " --seq-length 16").code, 0);
}

// Where positions are turned they go on, and the forecast says so.
TEST_F(SearchCommand, TurnedPositionsGoOn) {
  write("llama.json", R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 64, "vocab_size": 64,
    "max_position_embeddings": 16})");
  const auto forecast = [&](const std::string& tokens) {
    EXPECT_EQ(
        weir("-q plan llama.json -K 2 -M 2 --seq-length " + tokens + " -o llama_plan.json").code,
        0);
    return weir("simulate llama_plan.json --cluster dgx-a100").out;
  };
  EXPECT_THAT(forecast("17"), HasSubstr("17 is above the 16 positions that the model's file"));
  EXPECT_THAT(forecast("16"), Not(HasSubstr("positions")));
}

// A job of so many devices has no more of them, however many the cluster has; a partition that
// alone is another counts as one key to change.
TEST_F(SearchCommand, DevicesAndPartitionsCount) {
  ASSERT_EQ(weir("plan tiny.json -K 4 -M 8 --tp 4 --boundaries 1,2,3 -o plan.json").code, 0);
  for (const std::string command : {"simulate", "explain"}) {
    const CommandResult result = weir("-q " + command + " plan.json --gpus 7" + cluster_);
    EXPECT_EQ(result.code, 4) << result.out;
    EXPECT_THAT(result.out, HasSubstr("needs 16 devices, --gpus has 7"));
  }
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --boundaries 1 -o uneven.json").code, 0);
  EXPECT_THAT(weir("-q sweep tiny.json -K 2 -M 4 --schedule gpipe --baseline uneven.json").out,
              HasSubstr("(change 1 key of the plan)"));
}

// Of a vocabulary in two shards each rank computes half of the head at once, which no plan of the
// search does: such a baseline is compared with them, and is none of them.
TEST_F(SearchCommand, ABaselineThatNoSearchMakesHasItsPlace) {
  const std::string model = WEIR_SOURCE_DIR "/tools/examples/models/gpt2-mini.json";
  const std::string plan = "plan " + model + " -K 2 -M 1 ";
  ASSERT_EQ(weir(plan + "--schedule vocab-1 --boundaries 1 -o slow.json").code, 0);
  ASSERT_EQ(weir(plan + "--schedule vocab-1 -o quick.json").code, 0);
  const std::string sweep = "-q sweep " + model + " -K 2 -M 1 --report page.html --baseline ";
  // gpipe and 1f1b are found; with the baseline behind them there are three.
  const CommandResult slow = weir(sweep + "slow.json");
  ASSERT_EQ(slow.code, 0) << slow.out;
  EXPECT_THAT(slow.out, HasSubstr("baseline slow.json: place 3 among 3 plans"));
  EXPECT_THAT(read("page.html"), HasSubstr("place 3 among 3 plans"));
  const CommandResult quick = weir(sweep + "quick.json");
  ASSERT_EQ(quick.code, 0) << quick.out;
  EXPECT_THAT(quick.out, HasSubstr("none that was found is faster than the baseline"));
  const std::string page = read("page.html");
  EXPECT_THAT(page, HasSubstr("Keep the present plan: none that was found is faster."));
  EXPECT_THAT(page, HasSubstr("<p>Nothing: none that was found is faster.</p>"));
}

// A search with bounds keeps its best alone: what is behind them has no place among thousands.
TEST_F(SearchCommand, ABaselineBehindTheListedIsSlowerThanThem) {
  ASSERT_EQ(
      weir("plan tiny.json -K 1 -M 1 --dp 8 -b 1 --recompute full -o plan.json" + cluster_).code,
      0);
  const CommandResult result = weir("-q " + eight_ + " --top 2 --baseline plan.json");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("baseline plan.json: slower than the 2 best; its step"));
}

// Two kinds of nodes by their names: every plan says where its ranks stand, and is forecast alike
// there; elsewhere, and where it names too few or wrong nodes, one line says which.
TEST_F(SearchCommand, NodesOfSeveralKindsAreOneCluster) {
  const std::string both = " --cluster dgx-h100:1+dgx-a100:1";
  const CommandResult result =
      weir("-q --json sweep tiny.json --global-batch-size 8 --pp 2,4 --top 3 --plans plans" + both);
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["plans"].size(), 3);
  for (const Json& row : json["plans"]) EXPECT_EQ(row["plan"]["placement"].size(), 2);
  const Json again = Json::parse(weir("-q --json simulate plans/plan-1.json" + both).out);
  EXPECT_EQ(again["step_time_s"], json["plans"][0]["forecast"]["step_time_s"]);
  EXPECT_EQ(again["rank_memory_limits_bytes"].size(), json["plans"][0]["plan"]["pp"]);
  const auto refused = [&](const std::string& command, int code, const std::string& line) {
    refuses("-q " + command, code, line);
  };
  refused("simulate plans/plan-1.json --cluster dgx-h100", 3,
          "plan: placement: dgx-a100 is no pool of dgx-h100");
  refused(
      "simulate plans/plan-1.json --cluster dgx-h100:1+dgx-a100:x", 2,
      "expected CLUSTER:NODES, as dgx-h100:4 or dgx-h100:4+dgx-a100:4, each of 1 to 131071 nodes");
  refused("simulate plans/plan-1.json --cluster dgx-h100:131072", 2, "each of 1 to 131071 nodes");
  refused("simulate plans/plan-1.json --cluster dgx-h100:1+dgx-h100:2", 3, "is there twice");
  refused("sweep tiny.json --global-batch-size 8 --gpus 17" + both, 4, "has 16");
  refused("plan tiny.json -K 2 --placement dgx-h100:3" + both, 3,
          "plan: placement: places 3 ranks; expected all 2");
  refused("plan tiny.json -K 2 --placement dgx-h100" + both, 2, "expected POOL:RANKS");

  write("links.log", "# nccl-tests\n");
  refused("calibrate --nccl links.log -o mine.json" + both, 3,
          "pools: expected nodes of one kind: links are fitted in each pool's own file");

  // One measured step tells what all kinds are off by: as it was forecast, so was it measured.
  ASSERT_EQ(weir("-q calibrate --measured plans/plan-1.json=1s -o costs.json" + both).code, 0);
  const Json told =
      Json::parse(weir("-q --json simulate plans/plan-1.json --costs costs.json" + both).out);
  EXPECT_NEAR(told["step_time_s"].get<double>(), 1, 1e-3);

  // Another order of the devices is a plan of its own; a run here says that it follows neither.
  const std::string two = "-q plan tiny.json -K 2 --dp 2 -M 2 --cluster dgx-h100 -o ";
  ASSERT_EQ(weir(two + "near.json").code, 0);
  ASSERT_EQ(weir(two + "far.json --rank-order tp-cp-pp-dp").code, 0);
  EXPECT_EQ(Json::parse(read("far.json"))["rank_order"], "tp-cp-pp-dp");
  EXPECT_FALSE(Json::parse(read("near.json")).contains("rank_order"));
  EXPECT_THAT(weir("run far.json --backend synthetic --steps 1").out,
              HasSubstr("rank_order of the plan are not followed"));
}

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
  write("odd.json", R"({"schema": 1, "plans": []})");
  const CommandResult odd = weir("plan --from odd.json --place 1");
  EXPECT_EQ(odd.code, 3);
  EXPECT_THAT(odd.out, HasSubstr("odd.json: schema: expected weir.sweep/1"));
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
  EXPECT_THAT(none.out, testing::AllOf(HasSubstr("baseline plan.json: "),
                                       HasSubstr("no plan fits 1.00 KiB")));
}

// From the plan in use to the best: each change is faster than the one before it, none is faster
// than the best plan, for that is what it would then be, and each is forecast as its plan is. What
// every candidate shared, here that exchanges are not overlapped, stands behind it and says so.
TEST_F(SearchCommand, ChangesLeadToTheBestPlanAndNotPastIt) {
  const std::string model = WEIR_SOURCE_DIR "/tools/examples/models/llama-3-8b.json";
  ASSERT_EQ(weir("plan " + model +
                 " -K 4 --tp 4 --sequence-parallel --dp 4 -M 64 -b 1 --seq-length 4096 --zero 1 "
                 "--dtype bf16 --attention fused --recompute full -o plan.json" +
                 cluster_)
                .code,
            0);
  const std::string sweep = "sweep " + model +
                            " --gpus 64 -K 4 --tp 4 --sequence-parallel "
                            "--schedule 1f1b,interleaved-1f1b --baseline plan.json --top 1";
  const Json json = Json::parse(weir("-q --json " + sweep + cluster_).out);
  const double best = json["baseline"]["ratio_to_best"];
  const Json& rows = json["first_changes"];
  ASSERT_GE(rows.size(), 3);
  double before = 1;
  for (const Json& row : rows) {
    const bool last = row == rows.back();
    const double ratio = row["ratio_to_baseline"];
    EXPECT_GT(ratio, before) << row;
    before = ratio;
    EXPECT_EQ(row["searched"], !last) << row;
    EXPECT_EQ(ratio > best * 1.001, last) << row;
    write("row.json", row["plan"].dump());
    const Json its = Json::parse(weir("-q --json simulate row.json" + cluster_).out);
    EXPECT_EQ(its["step_time_s"], row["step_time_s"]) << row;
  }
  EXPECT_EQ(rows.back()["what"], "overlap of tensor parallelism: on");
  EXPECT_EQ(rows.back()["plan"]["overlap_tensor_parallel"], true);
  EXPECT_THAT(weir("-q " + sweep + cluster_).out,
              HasSubstr("besides: overlap of tensor parallelism: on, which the search kept ("));
}

// Where nobody named the software, a place of the list is as sure as a forecast of its plan alone:
// the same step, interval, memory and verdict. What is listed before all else surely fits.
TEST_F(SearchCommand, APlaceIsAsSureAsItsPlansForecast) {
  const std::string model = WEIR_SOURCE_DIR "/tools/examples/models/llama-2-7b.json";
  const std::string machine = " --cluster dgx-a100 --gpus 8";
  const Json json = Json::parse(
      weir("-q --json sweep " + model + machine + " --global-batch-size 64 --top 4").out);
  EXPECT_EQ(json["plans"][0]["forecast"]["fits"], "yes");
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& listed = json["plans"][i]["forecast"];
    write("row.json", json["plans"][i]["plan"].dump());
    const Json its = Json::parse(weir("-q --json simulate row.json" + machine).out);
    for (const char* key : {"step_time_s", "step_time_interval_s", "interval_rows", "fits",
                            "fits_probability", "memory_limit_bytes"})
      EXPECT_EQ(listed[key], its[key]) << i << ' ' << key;
    for (std::size_t r = 0; r < its["ranks"].size(); ++r) {
      for (const char* key : {"peak_memory_bytes", "peak_memory_upper_bytes"})
        EXPECT_EQ(listed["ranks"][r][key], its["ranks"][r][key]) << i << ' ' << key;
    }
  }
}

// What no option names is the baseline's own: its overlap of tensor parallelism is in every plan of
// the search that divides the sequence, so the same degrees are not slower there.
TEST_F(SearchCommand, ABaselinesOverlapsAreThoseOfTheSearch) {
  ASSERT_EQ(weir("plan tiny.json --tp 2 --sequence-parallel --tp-comm-overlap -M 8 --dtype bf16 "
                 "--attention fused -o plan.json")
                .code,
            0);
  const Json json = Json::parse(
      weir("-q --json sweep tiny.json --gpus 2 --tp 2 --baseline plan.json" + cluster_).out);
  ASSERT_FALSE(json["plans"].empty());
  for (const Json& one : json["plans"]) {
    const Json& plan = one["plan"];
    EXPECT_EQ(plan.value("overlap_tensor_parallel", false), plan.value("sequence_parallel", false))
        << plan;
  }
  EXPECT_EQ(json["plans"][0]["plan"]["overlap_tensor_parallel"], true);
}

// Every figure is of a plan that the JSON holds: `weir simulate` of it says the same. The best with
// a value is what a search for that value alone finds.
TEST_F(SearchCommand, ExplainedFiguresAreThoseOfThePlansBesideThem) {
  ASSERT_EQ(
      weir("plan tiny.json -K 2 -M 4 --dtype bf16 --attention fused --dp 2 -o plan.json").code, 0);
  const std::string sweep = "sweep tiny.json --gpus 4 --baseline plan.json" + cluster_;
  const std::string words = " --schedule gpipe,1f1b,zb-h1 --recompute none,full";
  const CommandResult result =
      weir("-q --json " + sweep + words + " --explain --pareto front.svg -o sweep.json");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  const Json& why = json["explained"];
  const double best = json["plans"][0]["forecast"]["step_time_s"];
  std::int64_t path = 0;
  for (const Json& part : why["critical_path"]) path += part["time_ns"].get<std::int64_t>();
  EXPECT_NEAR(static_cast<double>(path) * 1e-9, best, 1e-12);

  int forecasts = 0;
  for (const char* list : {"what_if", "rejected", "towards_best", "front"}) {
    for (const Json& row : why[list]) {
      if (!row.contains("plan") || row.value("choice", "") == "link") continue;
      write("row.json", row["plan"].dump());
      const Json its = Json::parse(weir("-q --json simulate row.json" + cluster_).out);
      EXPECT_EQ(its["step_time_s"], row["step_time_s"]) << list << row;
      ++forecasts;
    }
  }
  EXPECT_GT(forecasts, 25);
  EXPECT_THAT(read("front.svg"), HasSubstr("Pareto front"));

  std::set<std::string> rejected;
  for (const Json& row : why["rejected"]) {
    rejected.insert(row["choice"].get<std::string>() + " " + row["value"].get<std::string>());
    if (row.contains("plan")) {
      EXPECT_DOUBLE_EQ(row["ratio_to_best"], row["step_time_s"].get<double>() / best);
    } else {
      EXPECT_TRUE(row["reason"].is_string()) << row;
    }
    if (row["choice"] != "K") continue;
    const Json alone = Json::parse(
        weir(fmt::format("-q --json {}{} -K {}", sweep, words, row["value"].get<std::string>()))
            .out);
    EXPECT_EQ(alone["plans"][0]["forecast"]["step_time_s"], row["step_time_s"]) << row["value"];
  }
  const Json& winner = json["plans"][0]["plan"];
  EXPECT_EQ(rejected.count("K 2"), winner["pp"] == 2 ? 0 : 1);
  EXPECT_EQ(rejected.count("re-materialisation full"), 1);
  EXPECT_GE(rejected.size(), 10);

  // Each choice of the best plan, taken over alone by the plan in use.
  std::set<std::string> taken;
  for (const Json& row : why["towards_best"]) taken.insert(row["choice"]);
  EXPECT_EQ(taken.contains("degrees"),
            winner["pp"] != 2 || winner["tp"] != 1 || winner["cp"] != 1 || winner["dp"] != 2);
}

TEST_F(SearchCommand, TheFrontHoldsNothingThatAnotherBeats) {
  // Of Weir's executor it is known to the byte what surely fits.
  const std::string asked = "-q --json " + eight_ + " --stack weir --schedule 1f1b,zb-h1 --explain";
  const CommandResult result = weir(asked);
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  const Json& front = json["explained"]["front"];
  using Point = std::pair<double, std::int64_t>;
  const auto point = [](const Json& row) {
    return Point(row["step_time_s"], row["peak_memory_bytes"]);
  };
  std::vector<Point> others;
  for (const Json& row : json["explained"]["rejected"]) {
    if (!row.contains("plan")) continue;
    others.push_back(point(row));
    EXPECT_EQ(row["fits"], "yes") << row;
  }
  for (const Json& row : front) EXPECT_EQ(row["fits"], "yes") << row;
  for (const Json& row : front) others.push_back(point(row));
  EXPECT_GT(front.size(), 1);
  for (std::size_t i = 0; i < front.size(); ++i) {
    const auto [step, bytes] = point(front[i]);
    if (i > 0) {
      EXPECT_GT(step, point(front[i - 1]).first);
      EXPECT_LT(bytes, point(front[i - 1]).second);
    }
    for (const Point& other : others) {
      const bool better = other.first <= step && other.second <= bytes;
      EXPECT_TRUE(!better || other == Point(step, bytes)) << i;
    }
  }
  // With no more memory than the front's smallest plan has, what needs more is told by how much.
  const std::int64_t least = point(front.back()).second;
  const CommandResult small =
      weir(asked + " --memory-limit '" + std::to_string(least / 1024 + 1) + " KiB'");
  ASSERT_EQ(small.code, 0) << small.out;
  bool told = false;
  const Json scarce = Json::parse(small.out);
  for (const Json& row : scarce["explained"]["rejected"]) {
    const std::string reason = row["reason"].is_null() ? "" : row["reason"].get<std::string>();
    told = told || (reason.find(" needs ") != std::string::npos &&
                    reason.find(" of ") != std::string::npos);
    EXPECT_EQ(reason.empty(), row.contains("plan"));
  }
  EXPECT_TRUE(told);
}

TEST_F(SearchCommand, PeopleReadWhy) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 --dtype bf16 --attention fused -o plan.json").code, 0);
  const CommandResult result = weir("sweep tiny.json -K 1,2 --baseline plan.json --explain");
  ASSERT_EQ(result.code, 0) << result.out;
  for (const char* words :
       {"the critical path", "what one change would bring", "instead of the best plan",
        "what to change in the baseline", "what less memory costs"})
    EXPECT_THAT(result.out, HasSubstr(words));
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
}  // namespace weir::search_command_test
