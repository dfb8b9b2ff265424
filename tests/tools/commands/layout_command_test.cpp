// `weir layout`: the program of a file and of a model, its layouts, what is refused, and what the
// mesh's shape changes.
// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/commands/layout_command.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace weir::layout_command_test {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Of a model of dense blocks a search has ZeRO's third stage among its rules: what somebody writes
// by hand beats no row of the front. Of experts it says that it has not.
TEST_F(LayoutCommand, ASearchIsOfEveryRule) {
  const std::string job = kModels + "llama-10m.json -b 8 --seq-length 512 --cluster dgx-h100 ";
  const Json all = of(job + "--devices 4");
  EXPECT_THAT(all["search"]["rules"].dump(),
              AllOf(HasSubstr("\"shard\""), HasSubstr("\"optimizer\",\"gradients\"]")));
  const Json& found = all["layouts"];
  ASSERT_GT(found.size(), 2U);
  EXPECT_THAT(found.dump(), HasSubstr("shard:"));
  for (const char* by_hand : {"--mesh d=4 --rules batch:d,shard:d",
                              "--mesh d=2,m=2 --rules batch:d,rows:m,heads:m,ffn:m,vocab:m,shard:d",
                              "--mesh d=4 --rules batch:d,optimizer:d,gradients:d",
                              "--mesh d=2,m=2 --rules batch:d,batch:m,shard:m,optimizer:d"}) {
    const Json one = of(job + by_hand)["layouts"][0];
    const double time = one["cost"]["step_time_s"], memory = one["cost"]["memory_bytes"];
    for (const Json& row : found) {
      const bool slower = row["cost"]["step_time_s"].get<double>() > time * (1 + 1e-9);
      EXPECT_FALSE(slower && row["cost"]["memory_bytes"].get<double>() >= memory) << by_hand;
    }
  }
}

// The paper's Transformer on 2 x 4: a layer's two partial sums are made whole in F and their
// mirror images in I, all over cols; gradients of weights over rows. A block x[b, l, d] is
// 64/2 * 256 * 1024 * 4 bytes in fp32.
TEST_F(LayoutCommand, ThePapersTransformer) {
  const Json json = of(kLayouts + "transformer-lm.json");
  const Json& both = json["layouts"][2];
  EXPECT_EQ(both["name"], "data and model");
  const Json& block = both["layers"][1];
  std::map<std::string, int> calls;
  for (const Json& exchange : block["exchanges"]) {
    ++calls[exchange["pass"].get<std::string>() + " " + exchange["over"][0].get<std::string>()];
    if (exchange["pass"] == "step") continue;
    EXPECT_EQ(exchange["collective"], "all-reduce");
    EXPECT_EQ(exchange["bytes"], 64 / 2 * 256 * 1024 * 4);
  }
  // Eight weights: four of attention, two of the MLP, two gains.
  EXPECT_EQ(calls, (std::map<std::string, int>{{"F cols", 2}, {"I cols", 2}, {"step rows", 8}}));
  for (const Json& tensor : block["tensors"]) {
    if (tensor["tensor"] != "weight wq[d_model, heads, d_kv]") continue;
    EXPECT_EQ(tensor["local_shape"], (Json{1024, 4, 64}));
    EXPECT_EQ(tensor["formula"], "d*h*d_k/c");
    EXPECT_TRUE(tensor["made_by"].is_null());
  }
}

// A model's network is the same as the one that `weir model --rules` has, and as the file that
// --program writes of it.
TEST_F(LayoutCommand, AModelAndTheFileOfIt) {
  const std::string options =
      " --mesh d=2,m=4 --rules batch:d,heads:m,ffn:m,vocab:m --cluster dgx-h100 ";
  const std::string model = kModels + "gpt2.json -b 8 --dtype bf16";
  const Json json = of(model + options + "--program written.json");
  const CommandResult older = shell(WEIR_COMMAND " -q --json model " + model + options);
  EXPECT_EQ(Json::parse(older.out), json);
  const Json file = of("written.json --cluster dgx-h100");
  EXPECT_EQ(file["layouts"], json["layouts"]);
  const CommandResult its = shell(WEIR_COMMAND
                                  " -q --json model --layout written.json --cluster "
                                  "dgx-h100");
  EXPECT_EQ(Json::parse(its.out), file);
  // Other rules in the place of the file's.
  EXPECT_EQ(of("written.json --mesh m=2 --rules heads:m")["layouts"][0]["rules"], "heads:m");
}

TEST_F(LayoutCommand, WhatTheMeshsShapeChanges) {
  const Json json = of(kLayouts +
                       "transformer-lm.json --devices 32 --cluster dgx-h100:4 --rules "
                       "batch:d,heads:m,d_ff:m,vocab:m");
  // d=32, m=32 (16 heads do not divide by it), and 2, 4, 8, 16 with the other in both orders.
  ASSERT_EQ(json["shapes"].size(), 10U);
  EXPECT_THAT(json["shapes"][9]["illegal"].get<std::string>(),
              HasSubstr("dimension heads of size 16 does not divide by the 32"));
  EXPECT_EQ(json["layouts"].size(), 9U);
  const Json found = of(kLayouts + "transformer-lm.json --devices 32 --cluster dgx-h100:4");
  // The file's network has no words for weights in shards, and the search says so.
  EXPECT_THAT(found["search"]["rules"].dump(),
              AllOf(HasSubstr("\"heads\""), Not(HasSubstr("shard"))));
  // 1 + 4 + 6 ordered ways to make 2^5 of one to three factors; the best of all is one mesh's best.
  ASSERT_EQ(found["search"]["by_mesh"].size(), 11U);
  double least = 1e9;
  for (const Json& mesh : found["search"]["by_mesh"]) {
    if (!mesh["cost"].is_null()) least = std::min(least, mesh["cost"]["step_time_s"].get<double>());
  }
  const auto best = std::ranges::find(found["layouts"], found["search"]["best"],
                                      [](const Json& one) { return one["name"]; });
  ASSERT_NE(best, found["layouts"].end());
  EXPECT_EQ((*best)["cost"]["step_time_s"], least);
  EXPECT_LE(least, json["shapes"][0]["cost"]["step_time_s"].get<double>());
}

// d is d_model's symbol there: of the mesh dimension d the file has another, and reads back.
TEST_F(LayoutCommand, AProgramWhoseMeshIsNamedAsADimension) {
  ASSERT_EQ(weir("-q layout " + kLayouts +
                 "transformer-lm.json --mesh d=2 --rules batch:d --program lm.json")
                .code,
            0);
  EXPECT_EQ(Json::parse(read("lm.json"))["layouts"][0]["mesh"][0]["symbol"], "n_d");
  EXPECT_EQ(of("lm.json")["layouts"][0]["rules"], "batch:d");
}

// Two processors: of w[hidden, units] over units each holds all rows and half of the columns, which
// are the left and the right half of the picture of 30 points; its data say so in numbers.
TEST_F(LayoutCommand, APictureOfBlocks) {
  ASSERT_EQ(weir("-q layout " + kLayouts +
                 "recurrent.json --mesh m=2 --rules units:m --svg drawn.svg > held.txt")
                .code,
            0);
  const std::string csv = read("drawn.data.csv");
  EXPECT_THAT(csv, HasSubstr("asked,lstm,wi,0,hidden 0..127 units 0..63,8192\n"));
  EXPECT_THAT(csv, HasSubstr("asked,lstm,wi,1,hidden 0..127 units 64..127,8192\n"));
  EXPECT_THAT(csv, HasSubstr("asked,lstm,h,1,batch 0..31 hidden 0..127,4096\n"));
  const std::string svg = read("drawn.svg");
  EXPECT_THAT(svg, HasSubstr("weight wi[hidden, units]"));
  EXPECT_THAT(svg, HasSubstr("F all-gather over m 16.00 KiB x 15"));
  EXPECT_EQ(weir("layout " + kLayouts + "two-layer.json --svg drawn.svg").code, 2);
}

TEST_F(LayoutCommand, WhatCannotBeIsSaid) {
  const auto refused = [this](const std::string& arguments, int code, const char* words) {
    refuses("layout " + arguments, code, words);
  };
  const std::string lm = kLayouts + "transformer-lm.json ";
  refused(lm + "--mesh m=4 --rules d_model:m,d_ff:m", 2,
          "layer block: weight w[d_model, d_ff]: dimensions d_model and d_ff are both on mesh "
          "dimension m");
  refused(lm + "--mesh m=4 --devices 4 --cluster dgx-h100", 2, "--devices tries every mesh");
  refused(lm + "--devices 4", 2, "--devices needs --cluster");
  refused(lm + "-b 4", 2, "--micro-batch-size is of a model");
  refused(lm + "--workers 4", 2, "--workers and --rounds are of --run");
  refused(kLayouts + "two-layer.json --devices 4 --cluster dgx-h100", 2, "einsums");
  refused("none.json", 3, "none.json");
  const auto of_model = [this](const std::string& arguments, const char* words) {
    refuses("model " + arguments, 2, words);
  };
  of_model("--layout " + lm + "--seq-length 64", "--seq-length is of a model");
  of_model(kModels + "gpt2.json --mesh d=2 --rules batch:d --lora-rank 4",
           "--lora-rank does not change what a layout costs");
  of_model(kModels + "gpt2.json --run", "--run needs --layout, --rules or --devices");
  of_model(kModels + "gpt2.json -b 4", "--micro-batch-size is of --kernels and of layouts");
  write("broken.json", R"({"schema": "weir.layout/1", "name": )");
  refused("broken.json", 3, "broken.json");
  // It says that it is a layout file: its own JSON is at fault, not its schema.
  write("nan.json", R"({"schema": "weir.layout/1", "name": "n",
    "dimensions": [{"name": "b", "size": NaN}]})");
  refused("nan.json", 3, "weir: nan.json: no valid JSON: parse error at line 2, column ");
  write("large.json", R"({"schema": "weir.layout/1", "name": "n",
    "dimensions": [{"name": "b", "size": 1e999}]})");
  refused("large.json", 3,
          "weir: large.json: line 2: 1e999: expected a number of at most 1.8e+308\n");
}

// A pipe gives what it has once.
TEST_F(LayoutCommand, OfAPipe) {
  ASSERT_EQ(shell("mkfifo pipe").code, 0);
  const auto told = [this](const std::string& file, const std::string& command) {
    const CommandResult result =
        shell("cat " + file + " > pipe & timeout 20 " WEIR_COMMAND " -q --json " + command);
    EXPECT_EQ(result.code, 0) << command << result.out;
    return result.out;
  };
  for (const char* name : {"two-layer.json", "transformer-lm.json"}) {
    const std::string file = kLayouts + name;
    EXPECT_EQ(told(file, "layout pipe"), weir("-q --json layout " + file).out);
  }
  const std::string options = " --mesh d=2 --rules batch:d -b 2";
  const std::string gpt2 = kModels + "gpt2.json";
  EXPECT_EQ(Json::parse(told(gpt2, "layout pipe" + options))["layouts"],
            of(gpt2 + options)["layouts"]);
  EXPECT_EQ(Json::parse(told(gpt2, "model pipe"))["layers"],
            Json::parse(weir("-q --json model " + gpt2).out)["layers"]);
}

// Each name in its own line, whatever it holds.
TEST_F(LayoutCommand, NamesThatBreakLines) {
  write("odd.json", R"json({"schema": "weir.layout/1", "name": "o\no", "dimensions": [
    {"name": "batch", "size": 16}, {"name": "hidden", "size": 8}, {"name": "ffn", "size": 8}],
    "layers": [{"name": "bl\no\"ck<b>", "tensors": ["x[batch, hidden]", "weight w[hidden, ffn]",
      "u[batch, ffn]"], "operations": ["u = x w"]}],
    "layouts": [{"name": "w\u001bide\n", "mesh": [{"name": "m", "size": 2}],
                 "rules": "ffn:m"}]})json");
  for (const std::string format : {"table", "markdown", "csv"}) {
    const CommandResult result = weir("layout odd.json --format " + format);
    ASSERT_EQ(result.code, 0) << result.out;
    EXPECT_THAT(result.out, HasSubstr("o\\x0ao in fp32")) << format;
    EXPECT_THAT(result.out, HasSubstr("w\\x1bide\\x0a: ffn:m on mesh")) << format;
    EXPECT_THAT(result.out, HasSubstr("bl\\x0ao")) << format;
    EXPECT_THAT(result.out, Not(HasSubstr("bl\n"))) << format;
  }
}

}  // namespace
}  // namespace weir::layout_command_test
