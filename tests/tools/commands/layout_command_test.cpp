// `weir layout`: the program of a file and of a model, its layouts, what is refused, and what the
// mesh's shape changes.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::layout_command_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

const std::string kLayouts = WEIR_SOURCE_DIR "/tools/examples/layouts/";
const std::string kModels = WEIR_SOURCE_DIR "/tools/examples/models/";

class LayoutCommand : public InFolder {
 protected:
  Json of(const std::string& arguments) {
    const CommandResult result = shell(WEIR_COMMAND " -q --json layout " + arguments);
    EXPECT_EQ(result.code, 0) << result.out;
    return Json::parse(result.out);
  }
};

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
  EXPECT_EQ(of("written.json --cluster dgx-h100")["layouts"], json["layouts"]);
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

TEST_F(LayoutCommand, WhatCannotBeIsSaid) {
  const auto refused = [this](const std::string& arguments, int code, const char* words) {
    const CommandResult result = weir("layout " + arguments);
    EXPECT_EQ(result.code, code) << result.out;
    EXPECT_THAT(result.out, HasSubstr(words));
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
  write("broken.json", R"({"schema": "weir.layout/1", "name": )");
  refused("broken.json", 3, "broken.json");
}

}  // namespace
}  // namespace weir::layout_command_test
