// `weir model --layout` of einsums: the derivation in the open, runs beside their prediction, and
// what its options refuse.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/commands/tiny_command.hpp"

namespace weir::einsum_layouts_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;
using Result = CommandResult;

// Mesh-TensorFlow's Table 1 as the command prints it, every einsum of the derivation, and where the
// table's terms come from.
TEST_F(Command, LayoutsAreDerivedInTheOpen) {
  const std::string file = WEIR_SOURCE_DIR "/tools/examples/layouts/two-layer.json";
  const Result result = weir("model --layout " + file);
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out,
              HasSubstr("dw = x dh                512 x 1024  b*d_io*d_h/(r*c) = 134217728  rows"));
  EXPECT_THAT(result.out,
              HasSubstr("communication comes from: b*d_io/r by y and dx; d_io*d_h/c by dv and dw"));
  EXPECT_THAT(result.out, HasSubstr("b*d_io*d_h/(r*c)  b*d_io/r + b*d_h/c     c/d_h + r/d_io"));
  EXPECT_THAT(
      result.out,
      HasSubstr("The forward einsums alone would lose of the communication: d_io*d_h of data"));
  EXPECT_EQ(weir("model --layout " + file).out, result.out);
  const Json json = Json::parse(weir("model --json --layout " + file).out);
  EXPECT_EQ(json["schema"], "weir.layout_costs/1");
  EXPECT_EQ(json["layouts"][1]["communication"]["formula"], "2*d_io*d_h");
  EXPECT_EQ(json["layouts"][1]["communication"]["without_constants"]["formula"], "d_io*d_h");
  EXPECT_EQ(json["layouts"][1]["einsums"][3]["communication"]["value"], 512 * 2048);
  EXPECT_EQ(json["layouts"][4]["communication_per_computation"]["formula"], "c/d_h + r/d_io");
  EXPECT_FALSE(json.contains("run"));
}

TEST_F(Command, LayoutsRunBesideTheirPrediction) {
  write("layouts.json",
        R"({"schema": "weir.layout/1", "name": "small", "dimensions": [{"name": "b", "size": 64},
    {"name": "i", "size": 64}, {"name": "h", "size": 128}], "tensors": ["x[b, i]", "w[i, h]", )"
        R"("y[b, h]"],
    "einsums": ["y = x w"], "layouts": [{"name": "both", "mesh": [{"name": "r", "size": 2}, )"
        R"({"name": "c", "size": 4}],
    "rules": "b:r,i:c"}]})");
  const Result result =
      weir("model --layout layouts.json --run --workers 2 --rounds 2 --json 2>/dev/null");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json run = Json::parse(result.out)["run"];
  ASSERT_EQ(run["layouts"].size(), 2U);  // on 2 x 1 and on 1 x 2
  for (const Json& row : run["layouts"]) {
    EXPECT_EQ(row["difference"], 0);
    EXPECT_EQ(row["multiply_adds"], 3 * 64 * 64 * 128 / 2);
    EXPECT_GT(row["measured"]["compute_s"], 0);
    EXPECT_EQ(row["predicted"].is_null(), run["oversubscribed"].get<bool>());
  }
  // dw[i, h] sums over b, which is on r; y[b, h] over i, which is on c.
  EXPECT_EQ(run["layouts"][0]["all_reduced_elements"], 64 * 128);
  EXPECT_EQ(run["layouts"][1]["all_reduced_elements"], 64 * 128);
  EXPECT_EQ(weir("model --layout layouts.json --run --workers 3").out,
            "weir: layouts.json: layouts: both on 3 workers: tensor x[b, i]: dimension b of size "
            "64 does not divide by "
            "the 3 of mesh dimension r\n");
}

TEST_F(Command, LayoutOptionsAreStrict) {
  write("bad.json", R"({"schema": "weir.layout/1", "name": "n", "dimensions": []})");
  EXPECT_EQ(weir("model --layout bad.json").code, 3);
  EXPECT_EQ(weir("model --layout none.json").code, 3);
  EXPECT_EQ(weir("model tiny.json --layout bad.json").code, 2);
  EXPECT_EQ(weir("model tiny.json --run").code, 2);
  EXPECT_EQ(weir("model --layout bad.json --run --rounds 0").code, 2);
}

}  // namespace
}  // namespace weir::einsum_layouts_test
