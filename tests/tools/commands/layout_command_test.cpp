// `weir layout`: the program of a file and of a model, its layouts, what is refused, and what the
// mesh's shape changes.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::layout_command_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

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
    const CommandResult result = weir("plan " + options);
    EXPECT_EQ(result.code, code) << result.out;
    EXPECT_THAT(result.out, HasSubstr(words));
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

// d is d_model's symbol there: of the mesh dimension d the file has another, and reads back.
TEST_F(LayoutCommand, AProgramWhoseMeshIsNamedAsADimension) {
  ASSERT_EQ(weir("-q layout " + kLayouts +
                 "transformer-lm.json --mesh d=2 --rules batch:d --program lm.json")
                .code,
            0);
  EXPECT_EQ(Json::parse(read("lm.json"))["layouts"][0]["mesh"][0]["symbol"], "n_d");
  EXPECT_EQ(of("lm.json")["layouts"][0]["rules"], "batch:d");
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
    const CommandResult made =
        weir("-q plan " + model + both + " --layout four.json --layout-name " + name + " -K " +
             plan["pp"].dump() + " -M " + plan["microbatches"].dump() +
             " --schedule 1f1b --stack weir -o " + name + ".json" + boundaries);
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
    const CommandResult result =
        weir("sweep " + kModels + "gpt2.json --global-batch-size 16 " + more);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.out, HasSubstr(words));
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
    const CommandResult result = weir(search + more);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.out, HasSubstr(words));
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

// Run on two cores: counted is what is derived, and all numbers are the unsplit computation's. The
// search's fastest layouts are run with their own rules.
TEST_F(LayoutCommand, NetworksRun) {
  write("small.json", R"json({"schema": "weir.layout/1", "name": "small", "dimensions": [
    {"name": "batch", "size": 16}, {"name": "hidden", "size": 32}, {"name": "ffn", "size": 64}],
    "layers": [{"name": "mlp", "repeat": 2, "tensors": ["x[batch, hidden]", "weight w[hidden, ffn]",
      "u[batch, ffn]", "a[batch, ffn]", "weight v[ffn, hidden]", "z[batch, hidden]"],
      "operations": ["u = x w", "a = gelu(u)", "z = a v"]}],
    "layouts": [{"name": "both", "mesh": [{"name": "d", "size": 4}, {"name": "m", "size": 4}],
      "rules": "batch:d,ffn:m"}]})json");
  const Json run = of("small.json --run --workers 2 --rounds 1 2> notes")["run"];
  ASSERT_EQ(run["layouts"].size(), 2U);
  for (const Json& row : run["layouts"]) {
    // Six products of 16 x 32 x 64 a layer.
    EXPECT_EQ(row["multiply_adds"], 2 * 6 * 16 * 32 * 64 / 2);
    EXPECT_EQ(row["exchanged_elements"], row["derived_elements"]);
    EXPECT_EQ(row["difference_in_order"], 0);
    EXPECT_LT(row["difference_reordered"], 1e-4);
  }
  // d=2: the weights' gradients, 2 x 2 x 32 x 64, each read once by the two together.
  EXPECT_EQ(run["layouts"][0]["exchanged_elements"], 2 * 2 * 32 * 64);
  // `weir model` runs them likewise.
  const CommandResult its = shell(
      WEIR_COMMAND " -q --json model --layout small.json --run --workers 2 --rounds 1 2> notes");
  ASSERT_EQ(its.code, 0) << its.out;
  for (std::size_t l = 0; l < 2; ++l) {
    EXPECT_EQ(Json::parse(its.out)["run"]["layouts"][l]["exchanged_elements"],
              run["layouts"][l]["exchanged_elements"]);
  }
  const Json found = of("small.json --run --devices 2 --rounds 1 2> notes");
  EXPECT_LE(found["run"]["layouts"].size(), 5U);
  EXPECT_GT(found["run"]["layouts"].size(), 1U);
  EXPECT_EQ(found["run"]["layouts"][0]["name"], "fastest 1");
  // Two rounds have a spread, and this machine's memory is what it is.
  const Json twice = of("small.json --run --workers 2 --rounds 2 2> notes");
  EXPECT_GE(twice["run"]["layouts"][0]["spread"].get<double>(), 0);
  EXPECT_EQ(weir("layout small.json --run --devices 2 --workers 3").code, 2);
  EXPECT_EQ(weir("layout small.json --run --workers 3").code, 3);
  EXPECT_EQ(weir("layout small.json --run --cluster dgx-h100").code, 2);
  const CommandResult refused = weir("layout small.json --run --workers 2 --stages 2");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, HasSubstr("--stages is forecast, not run"));
}

// Rotary positions, attention in one kernel and experts, as a decoder of Weir's has them and as a
// file has; weights whose optimizer's numbers two workers share. What a turn is by has to be said.
TEST_F(LayoutCommand, DecodersWithExpertsRun) {
  write("tiny.json", R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"],
    "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 64,
    "max_position_embeddings": 64, "num_local_experts": 4, "num_experts_per_tok": 2})");
  const std::string model = "tiny.json -b 4 --seq-length 16 --attention fused --run --rounds 1 ";
  for (const char* rules : {"heads:m,ffn:m,vocab:m", "batch:m,experts:m,optimizer:m"}) {
    const Json json = of(model + "--mesh m=2 --rules " + rules + " 2> notes");
    const Json& row = json["run"]["layouts"][0];
    EXPECT_EQ(row["rules"], json["layouts"][0]["rules"]);
    EXPECT_EQ(row["exchanged_elements"], row["derived_elements"]) << rules;
    EXPECT_EQ(row["difference_in_order"], 0) << rules;
    EXPECT_LT(row["difference_reordered"], 1e-3) << rules;
  }
  write("turn.json", R"json({"schema": "weir.layout/1", "name": "turn", "dimensions": [
    {"name": "tokens", "size": 4}, {"name": "width", "size": 4}],
    "layers": [{"name": "one", "tensors": ["x[tokens, width]", "y[tokens, width]"],
      "operations": ["y = turn(x)"]}],
    "layouts": [{"name": "two", "mesh": [{"name": "m", "size": 2}], "rules": "tokens:m"}]})json");
  const CommandResult refused = weir("layout turn.json --run --workers 2");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.out, HasSubstr("y = turn(x) is priced, not run: write over which dimension"));
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
    const CommandResult result = weir("layout " + options);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.out, HasSubstr(words));
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

// Seven dimensions, each on any set of three mesh dimensions: 2^21 layouts are too many to rank,
// and those that are run are of the front, by their names there.
TEST_F(LayoutCommand, OfTooManyLayoutsTheFrontRuns) {
  write("many.json", R"json({"schema": "weir.layout/1", "name": "many", "dimensions": [
    {"name": "a", "size": 8}, {"name": "b", "size": 8}, {"name": "c", "size": 8},
    {"name": "d", "size": 8}, {"name": "e", "size": 8}, {"name": "f", "size": 8},
    {"name": "g", "size": 8}],
    "layers": [{"name": "chain", "tensors": ["x[a, b, c]", "weight w[c, d]", "u[a, b, d]",
      "weight v[d, e]", "y[a, b, e]", "weight r[e, f]", "z[a, b, f]", "weight s[f, g]",
      "o[a, b, g]"], "operations": ["u = x w", "y = u v", "z = y r", "o = z s"]}],
    "layouts": [{"name": "whole", "mesh": [{"name": "m", "size": 2}], "rules": ""}]})json");
  const Json json = of("many.json --run --devices 8 --rounds 1 2> notes");
  const Json& rows = json["run"]["layouts"];
  ASSERT_GE(rows.size(), 1U);
  EXPECT_LE(rows.size(), 5U);
  for (std::size_t r = 0; r < rows.size(); ++r)
    EXPECT_EQ(rows[r]["name"], "found " + std::to_string(r + 1));
}

// A GPT-2 of two small blocks, whose head is the embedding's table: its gradients are the
// embedding's and the head's. With the vocabulary split both have half of the table.
TEST_F(LayoutCommand, ATiedHeadRuns) {
  write("tiny.json", R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 16, "vocab_size": 64,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true})");
  const std::string model = "tiny.json -b 4 --seq-length 16 --attention unfused ";
  for (const char* rules :
       {"heads:m,ffn:m,vocab:m", "heads:m,ffn:m,vocab:m,rows:m", "batch:m", "batch:m,shard:m"}) {
    const Json json = of(model + "--run --rounds 1 --mesh m=2 --rules " + rules + " 2> notes");
    const Json& head = json["layouts"][0]["layers"].back();
    EXPECT_EQ(head["weights"], 0) << rules;
    const Json& row = json["run"]["layouts"][0];
    EXPECT_EQ(row["difference_in_order"], 0) << rules;
    EXPECT_LT(row["difference_reordered"], 1e-3) << rules;
    EXPECT_TRUE(row["spread"].is_null());
  }
}

// 2^40 weights and as many gradients of 4 bytes, 8 TiB, split over two; and the same unsplit.
TEST_F(LayoutCommand, ARunThatMemoryCannotHold) {
  write("huge.json", R"json({"schema": "weir.layout/1", "name": "huge", "dimensions": [
    {"name": "batch", "size": 16}, {"name": "hidden", "size": 1048576},
    {"name": "ffn", "size": 1048576}],
    "layers": [{"name": "mlp", "tensors": ["x[batch, hidden]", "weight w[hidden, ffn]",
      "u[batch, ffn]"], "operations": ["u = x w"]}],
    "layouts": [{"name": "wide", "mesh": [{"name": "m", "size": 2}], "rules": "ffn:m"}]})json");
  const CommandResult refused = weir("layout huge.json --run --workers 2");
  EXPECT_EQ(refused.code, 6);
  EXPECT_THAT(refused.out,
              testing::MatchesRegex("weir: runs of 1 layout and of the unsplit computation hold "
                                    "16384.4 GiB together, 8192.3 GiB of them layout wide "
                                    "\\(ffn:m\\): [^\n]* are free\n"));
  // Of einsums: x, dx 2^24, w, dw 2^40, y, dy 2^24 numbers, and w's gradient's room once more.
  write("einsum.json", R"json({"schema": "weir.layout/1", "name": "huge", "dimensions": [
    {"name": "batch", "size": 16}, {"name": "hidden", "size": 1048576},
    {"name": "ffn", "size": 1048576}],
    "tensors": ["x[batch, hidden]", "w[hidden, ffn]", "y[batch, ffn]"], "einsums": ["y = x w"],
    "layouts": [{"name": "wide", "mesh": [{"name": "m", "size": 2}], "rules": "ffn:m"}]})json");
  const CommandResult einsum = weir("layout einsum.json --run --workers 2");
  EXPECT_EQ(einsum.code, 6);
  EXPECT_THAT(einsum.out, HasSubstr("weir: runs of 1 layout and of the unsplit computation hold "));
  EXPECT_THAT(einsum.out, HasSubstr("layout wide (ffn:m): "));
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
  const auto of_model = [this](const std::string& arguments, const char* words) {
    const CommandResult result = weir("model " + arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.out, HasSubstr(words));
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
  for (const std::string file : {"two-layer.json", "transformer-lm.json"}) {
    EXPECT_EQ(told(kLayouts + file, "layout pipe"),
              weir("-q --json layout " + kLayouts + file).out);
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
