// `weir layout --run`: networks that train on this machine's cores in their layouts, and runs that
// its memory cannot hold.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/commands/layout_command.hpp"

namespace weir::layout_run_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

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

}  // namespace
}  // namespace weir::layout_run_test
