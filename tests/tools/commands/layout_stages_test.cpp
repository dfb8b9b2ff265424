// A layout inside each stage of a pipeline: as a plan's degrees, searched together with K, and of
// any cut by `weir layout --stages`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/commands/layout_command.hpp"

namespace weir::layout_stages_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// A layout inside each of two stages: what the layout exchanges in a stage is what the plan's
// degrees are; what is not Megatron's cut is refused by its rule.
TEST_F(LayoutCommand, InsideTheStagesOfAPlan) {
  const std::string model = kModels + "gpt2.json ";
  const auto program = [&](const std::string& options) {
    return weir("-q layout " + model + "-b 8 " + options + " --program cut.json").code;
  };
  ASSERT_EQ(program("--mesh d=2,m=4 --rules batch:d,heads:m,ffn:m,vocab:m,rows:m"), 0);
  const CommandResult planned = shell(WEIR_COMMAND " -q plan " + model + "--layout cut.json -K 2");
  ASSERT_EQ(planned.code, 0) << planned.out;
  const Json plan = Json::parse(planned.out);
  EXPECT_EQ(plan["pp"], 2);
  EXPECT_EQ(plan["tp"], 4);
  EXPECT_EQ(plan["dp"], 2);
  EXPECT_EQ(plan["sequence_parallel"], true);
  EXPECT_EQ(plan["micro_batch_size"], 4);
  EXPECT_EQ(plan["seq_length"], 1024);
  const CommandResult same =
      shell(WEIR_COMMAND " -q plan " + model + "-K 2 --tp 4 --dp 2 --sequence-parallel -b 4");
  EXPECT_EQ(same.out, planned.out);
  const auto refused = [&](const std::string& options, int code, const char* words) {
    refuses("plan " + options, code, words);
  };
  refused(model + "--layout cut.json -K 2 --tp 2", 2, "--tp 2 contradicts --layout, whose is 4");
  refused(model + "--layout cut.json -K 2 --cp 2", 2, "--cp 2 contradicts --layout, whose is 1");
  refused(model + "--layout cut.json -K 2 --zero 3", 2, "--zero 3 contradicts --layout");
  // ZeRO's first two stages are rules of their own, or left to the plan.
  ASSERT_EQ(weir("-q plan " + model + "--layout cut.json -K 2 --zero 1").code, 0);
  ASSERT_EQ(program("--mesh d=2,m=4 --rules batch:d,heads:m,ffn:m,vocab:m,optimizer:d"), 0);
  const CommandResult zero = weir("-q plan " + model + "--layout cut.json -K 2");
  ASSERT_EQ(zero.code, 0) << zero.out;
  EXPECT_EQ(Json::parse(zero.out)["zero"], 1);
  refused(model + "--layout cut.json -K 2 --zero 2", 2,
          "--zero 2 contradicts --layout, whose is 1");
  ASSERT_EQ(program("--mesh d=2,m=4 --rules batch:d,heads:m,ffn:m,vocab:m,rows:m"), 0);
  // A mini-batch of 64 with the layout's 4 samples and 2 replicas: M = 64 / (4 x 2) = 8.
  const auto whole = weir("-q plan " + model + "--layout cut.json -K 2 --global-batch-size 64");
  ASSERT_EQ(whole.code, 0) << whole.out;
  EXPECT_EQ(Json::parse(whole.out)["microbatches"], 8);
  EXPECT_EQ(Json::parse(whole.out)["micro_batch_size"], 4);
  refused(model + "--layout cut.json -K 2 -M 4 --global-batch-size 64", 2,
          "contradicts --layout's micro-batches of 4 times --microbatches 4 times --dp 2");
  refused(kModels + "opt-125m.json --layout cut.json -K 2", 3, "not the network of");
  ASSERT_EQ(program("--mesh d=2,m=4 --rules batch:d,heads:m"), 0);
  refused(model + "--layout cut.json -K 2", 3,
          "vocab is split over nothing, where Megatron's cut has it over m");
}

// K and layouts together, against each pair by itself: of 8 devices a layout on n has K = 8/n. What
// the search lists is what `weir plan --layout` makes, at the same step, and its best is the best
// of the pairs. A layout that is no cut of Megatron's is named and left out.
TEST_F(LayoutCommand, SearchedTogetherWithK) {
  const std::string model = kModels + "gpt2.json ";
  const std::string both = " --cluster dgx-h100 --dtype bf16 --attention fused";
  ASSERT_EQ(weir("-q layout " + model + "--dtype bf16 --attention fused -b 8 --program cut.json " +
                 "--mesh d=2,m=4 --rules batch:d,heads:m,ffn:m,vocab:m")
                .code,
            0);
  Json file = Json::parse(read("cut.json"));
  const auto layout = [](const char* name, int d, int m, const char* rules) {
    Json mesh = Json::array({{{"name", "d"}, {"size", d}}});
    if (m > 1) mesh.push_back({{"name", "m"}, {"size", m}});
    return Json{{"name", name}, {"mesh", mesh}, {"rules", rules}};
  };
  file["layouts"] = {layout("wide", 2, 2, "batch:d,heads:m,ffn:m,vocab:m"),
                     layout("rows", 2, 4, "batch:d,heads:m,ffn:m,vocab:m,rows:m"),
                     layout("data", 4, 1, "batch:d"), layout("odd", 8, 1, "rows:d")};
  write("four.json", file.dump());
  const CommandResult swept =
      weir("sweep " + model + both +
           " --gpus 8 --global-batch-size 32 --layouts four.json -v 1 --schedule 1f1b --zero 0 "
           "--recompute none --stack weir -o found.json");
  ASSERT_EQ(swept.code, 0) << swept.out;
  EXPECT_THAT(swept.out, HasSubstr("layout odd: rows is split over d"));
  const Json found = Json::parse(read("found.json"));
  EXPECT_EQ(found["gap"], 0);
  ASSERT_EQ(found["plans"].size(), 3U);  // one K each
  std::map<std::string, double> steps;
  for (const Json& one : found["plans"]) {
    const Json& plan = one["plan"];
    const auto name = one["layout"]["name"].get<std::string>();
    const std::string boundaries =
        plan["pp"] == 1 ? "" : " --boundaries " + std::to_string(plan["boundaries"][0].get<int>());
    const CommandResult made = weir(fmt::format(
        "-q plan {}{} --layout four.json --layout-name {} -K {} -M {} --schedule 1f1b --stack weir "
        "-o {}.json{}",
        model, both, name, plan["pp"].dump(), plan["microbatches"].dump(), name, boundaries));
    ASSERT_EQ(made.code, 0) << made.out;
    const Json again = Json::parse(read(name + ".json"));
    EXPECT_EQ(again, plan) << name;
    // As it is forecast by itself, not as the sweep lists it.
    const CommandResult forecast =
        shell(WEIR_COMMAND " -q --json simulate " + name + ".json --cluster dgx-h100 --stack weir");
    ASSERT_EQ(forecast.code, 0) << forecast.out;
    steps[name] = Json::parse(forecast.out)["step_time_s"];
    EXPECT_EQ(steps[name], one["forecast"]["step_time_s"].get<double>()) << name;
  }
  EXPECT_EQ(steps.size(), 3U);
  const double best = found["plans"][0]["forecast"]["step_time_s"];
  for (const auto& [name, step] : steps) EXPECT_LE(best, step) << name;
}

// All layouts of given degrees are those with rows whole and those with rows split: the same plans
// as of two searches of degrees, one without and one with sequence parallelism.
TEST_F(LayoutCommand, AllLayoutsAreTheDegreesThatPlansHave) {
  const auto candidates = [&](const std::string& more) {
    const CommandResult swept = shell(
        WEIR_COMMAND " -q --json sweep " + kModels +
        "gpt2.json --cluster dgx-h100 --global-batch-size 64 -K 1,2 -v 1 --schedule 1f1b --cp 1 " +
        more);
    EXPECT_EQ(swept.code, 0) << swept.out;
    return Json::parse(swept.out)["candidates"].get<int>();
  };
  EXPECT_EQ(candidates("--tp 2,4 --layouts all"),
            candidates("--tp 2,4") + candidates("--tp 2,4 --sequence-parallel"));
  EXPECT_EQ(candidates("--tp 1 --layouts all"), candidates("--tp 1"));
  const auto refused = [&](const std::string& more, const char* words) {
    refuses("sweep " + kModels + "gpt2.json --global-batch-size 16 " + more, 2, words);
  };
  refused("--layouts all", "--layouts needs --cluster");
  refused("--cluster dgx-h100 --layouts all --cp 2", "--cp contradicts --layouts");
  // GPT-2 has 12 heads.
  refused("--cluster dgx-h100 --gpus 5 --layouts all --tp 5 --dp 1", "tp 5, dp 1, ep 1: ");
  refused("--cluster dgx-h100 --layouts all --tp 2 --dp 4 --ep 3", "ep 3 does not divide dp 4");
}

// Experts have no words for shards of weights: the layouts without are searched, and that is said;
// with --zero 3 alone wanted of them there is none.
TEST_F(LayoutCommand, ExpertsAreSearchedWithoutShards) {
  const std::string search =
      " sweep " + kModels +
      "mixtral-8x7b.json --seq-length 128 --dtype bf16 --attention fused --cluster dgx-h100:2 "
      "--gpus 16 --global-batch-size 16 -K 1,2 -v 1 --tp 2,4 --cp 1 --dp 2,4 --ep 1,2 "
      "--schedule 1f1b --recompute full --layouts all --memory-limit 2TiB ";
  const CommandResult swept = shell(WEIR_COMMAND + search + "--json --zero 0,3 2> notes");
  ASSERT_EQ(swept.code, 0) << swept.out << read("notes");
  const std::string notes = read("notes");
  EXPECT_THAT(notes, HasSubstr("layouts with shards of weights are left out: "));
  EXPECT_GT(Json::parse(swept.out)["candidates"].get<int>(), 0);
  const CommandResult alone = weir(search + "--zero 3");
  EXPECT_EQ(alone.code, 2) << alone.out;
  EXPECT_THAT(alone.out, HasSubstr("no layout is left to search: "));
  EXPECT_THAT(alone.out, HasSubstr("a shard of an expert's weights"));
}

// A value that no layout of the file has is refused by its option; a layout that has no candidate
// is named with its cause; the file is not written over; one cut has one name.
TEST_F(LayoutCommand, WhatAFileOfLayoutsDoesNotHaveIsNamed) {
  const std::string model = kModels + "gpt2.json ";
  ASSERT_EQ(weir("-q layout " + model + "--dtype bf16 --attention fused -b 8 --program cut.json " +
                 "--mesh d=2,m=4 --rules batch:d,heads:m,ffn:m,vocab:m")
                .code,
            0);
  Json file = Json::parse(read("cut.json"));
  const auto layout = [](const char* name, int d, int m) {
    return Json{{"name", name},
                {"mesh", Json::array({{{"name", "d"}, {"size", d}}, {{"name", "m"}, {"size", m}}})},
                {"rules", "batch:d,heads:m,ffn:m,vocab:m"}};
  };
  file["layouts"] = {layout("wide", 2, 4), layout("again", 2, 4), layout("narrow", 4, 2)};
  write("three.json", file.dump());
  const std::string before = read("three.json");
  const std::string search =
      "sweep " + model +
      "--cluster dgx-h100 --dtype bf16 --attention fused --layouts three.json -K 1 -v 1 "
      "--schedule 1f1b --recompute none --gpus 8 ";
  const auto refused = [&](const std::string& more, const char* words) {
    refuses(search + more, 2, words);
  };
  const std::string batch = "--global-batch-size 32 ";
  refused(batch + "--tp 2,8", "--tp 8 contradicts --layouts, whose are 2, 4");
  refused(batch + "--dp 1", "--dp 1 contradicts --layouts, whose are 2, 4");
  refused(batch + "--ep 2", "--ep 2 contradicts --layouts, whose are 1");
  refused("-M 4 -b 3", "--micro-batch-size 3 contradicts --layouts, whose are 2, 4");
  refused(batch + "--zero 3", "--zero 3 contradicts --layouts: none has shards");
  refused(batch + "--sequence-parallel", "--sequence-parallel contradicts --layouts");
  refused(batch + "-o three.json", "is read by this command and would be written over");
  EXPECT_EQ(read("three.json"), before);
  const CommandResult swept = weir(search + batch + "--tp 2");
  EXPECT_EQ(swept.code, 0) << swept.out;
  EXPECT_THAT(swept.out, HasSubstr("layout again: the same cut as layout wide"));
  EXPECT_THAT(swept.out, HasSubstr("layout wide: --tp is not 4"));
  EXPECT_THAT(swept.out, Not(HasSubstr("layout narrow: --")));
  // Neither makes 4 devices, whatever K is.
  const CommandResult few = weir("sweep " + model +
                                 "--cluster dgx-h100 --dtype bf16 --attention fused --gpus 4 "
                                 "--layouts three.json --global-batch-size 32");
  EXPECT_EQ(few.code, 2) << few.out;
  EXPECT_THAT(few.out, HasSubstr("layout wide: no K makes its 8 devices the 4 of a plan"));
}

// Pipelines with a layout inside each stage, which need not be Megatron's cut.
TEST_F(LayoutCommand, InsideTheStagesOfAnyPipeline) {
  const std::string lm = kLayouts + "transformer-lm.json --cluster dgx-h100:2 ";
  const Json asked = of(lm +
                        "--mesh r=2,c=2 --rules batch:r,d_model:c --stages 2,4 "
                        "--microbatches 4 --schedule gpipe");
  ASSERT_EQ(asked["pipelines"].size(), 2U);
  const Json& two = asked["pipelines"][0];
  EXPECT_EQ(two["stages"], 2);
  ASSERT_EQ(two["parts"].size(), 2U);
  // 12 blocks, an embedding and a head; GPipe keeps all four micro-batches.
  EXPECT_EQ(two["parts"][0]["layers"].get<int>() + two["parts"][1]["layers"].get<int>(), 14);
  EXPECT_EQ(two["parts"][0]["in_flight"], 4);
  EXPECT_GT(two["parts"][0]["exchanges_s"], 0.0);
  EXPECT_GT(two["bubble_fraction"], 0.0);
  // Each K once, and of several the stages of one, by its name: the fastest that fits, which is the
  // second here.
  EXPECT_EQ(of(lm + "--mesh r=2,c=2 --rules batch:r --stages 2,2")["pipelines"].size(), 1U);
  const CommandResult printed =
      weir("-q layout " + lm + "--mesh r=2,c=2 --rules batch:r,d_model:c --stages 1,2");
  EXPECT_THAT(printed.out,
              HasSubstr("The stages of K = 2 under layout asked, the fastest that fits:"));
  const auto refused = [&](const std::string& options, const char* words) {
    refuses("layout " + options, 2, words);
  };
  refused(kLayouts + "transformer-lm.json --mesh r=2 --rules batch:r --stages 2",
          "--stages needs --cluster");
  refused(lm + "--devices 8 --stages 3", "--stages 3 does not divide --devices 8");
  refused(lm + "--devices 8 --stages 2 --rules batch:d", "drop --rules");
  refused(lm + "--mesh r=2 --rules batch:r --microbatches 4", "are of --stages");
  refused(lm + "--mesh r=2 --rules batch:r --stages 2 --schedule zb-v", "several stages on a rank");
  refused(lm + "--mesh r=2 --rules batch:r --stages 2 --schedule seq1f1b", "slices sequences");
  // 2^20 x 2^16 devices are not the 0 that an int has of them.
  refused(lm + "--mesh r=64,c=16384 --rules batch:r --stages 65536", "68719476736 devices in all");
  refused(lm + "--mesh r=2 --rules batch:r --stages 16", "are fewer than 16 stages");
  refused(kLayouts + "dag.json --cluster dgx-h100 --mesh r=2 --rules batch:r --stages 2",
          "does not read the layer before it alone");
}

// What ZeRO's first stage saves in each stage of a pipeline is what a plan of the same cut is
// forecast to save, the last stage's copy of the table included; but for what the plan rounds up,
// tensor by tensor, and fills its vocabulary up with.
TEST_F(LayoutCommand, ZeroInsideStagesSavesWhatPlansSave) {
  const std::string model = kModels + "gpt2.json --dtype bf16 ";
  const std::string layout =
      model + "-b 4 --cluster dgx-h100 --mesh d=4 --stages 2 " + "--microbatches 4 --rules batch:d";
  const Json whole = of(layout)["pipelines"][0]["parts"];
  const Json shared = of(layout + ",optimizer:d")["pipelines"][0]["parts"];
  const std::string cut = whole[1]["first_layer"].dump();
  ASSERT_EQ(shared[1]["first_layer"].dump(), cut);
  // Of a stage of the plan.
  const auto state = [&](const char* zero, std::size_t stage) {
    EXPECT_EQ(weir("-q plan " + model + "-K 2 --dp 4 -M 4 -b 1 --schedule 1f1b --boundaries " +
                   cut + " --zero " + zero + " -o zero.json")
                  .code,
              0);
    const Json forecast = Json::parse(
        shell(WEIR_COMMAND " -q --json simulate zero.json --cluster dgx-h100 --stack weir").out);
    double sum = 0;
    for (const char* kind : {"weights", "gradients", "optimizer_state"})
      sum += forecast["ranks"][stage]["memory_bytes"][kind].get<double>();
    return sum;
  };
  for (std::size_t s = 0; s < 2; ++s) {
    const double saved =
        whole[s]["memory_bytes"].get<double>() - shared[s]["memory_bytes"].get<double>();
    const double expected = state("0", s) - state("1", s);
    EXPECT_NEAR(saved, expected, 0.005 * expected) << "stage " << s;
  }
}

}  // namespace
}  // namespace weir::layout_stages_test
