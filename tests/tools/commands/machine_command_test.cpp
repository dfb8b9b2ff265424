// Machines by name through the command: clusters and the software on them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::machine_command_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

// A stack with nothing of its own but a name.
constexpr const char* kStack =
    "{\"schema\": \"weir.stack/1\", \"name\": \"mine\", \"placement\": \"layers\",\n"
    " \"origins\": {\"placement\": {\"source\": \"this test\"}}}\n";

class MachineCommand : public InFolder {
 protected:
  MachineCommand() {
    EXPECT_EQ(weir("plan " WEIR_SOURCE_DIR
                   "/tools/examples/models/gpt2.json --dtype bf16 -K 4 -M 8 -o plan.json")
                  .code,
              0);
    write("mine.json", kStack);
  }
  Json forecast(const std::string& options) {
    const CommandResult result = weir("--json -q simulate plan.json " + options + " 2>/dev/null");
    EXPECT_EQ(result.code, 0) << result.out;
    return Json::parse(result.out);
  }
};

TEST_F(MachineCommand, ABareNameIsABuiltInCluster) {
  const Json by_name = forecast("--cluster dgx-a100 --stack mine.json");
  const Json by_file = forecast("--cluster " WEIR_SOURCE_DIR
                                "/tools/examples/clusters/dgx-a100.json --stack mine.json");
  EXPECT_EQ(by_name, by_file);
  const CommandResult none = weir("simulate plan.json --cluster dgx-z100");
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.out, HasSubstr("dgx-z100: is no file and no cluster of "));
  EXPECT_THAT(none.out, HasSubstr("dgx-a100, dgx-b200, dgx-b300, dgx-h100"));
}

TEST_F(MachineCommand, AForecastNamesItsStack) {
  EXPECT_EQ(forecast("")["stack"], "weir");
  EXPECT_EQ(forecast("--cluster dgx-h100")["stack"], "typical");
  EXPECT_EQ(forecast("--cluster dgx-h100 --stack nanotron")["stack"], "nanotron");
  EXPECT_THAT(weir("simulate plan.json --cluster dgx-h100").out,
              HasSubstr("weir: no --stack given: typical, half-way between the leanest "));
  EXPECT_EQ(forecast("--stack mine.json --cluster dgx-h100")["stack"], "mine");
  EXPECT_EQ(weir("simulate plan.json --stack none.json").code, 3);
  const CommandResult none = weir("simulate plan.json --stack megatron-cure");
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.out, HasSubstr("megatron-cure: is no file and no stack of "));
  write("wrong.json", std::string(kStack).replace(1, 0, "\"overlap\": 1, "));
  const CommandResult wrong = weir("simulate plan.json --stack wrong.json");
  EXPECT_EQ(wrong.code, 3);
  EXPECT_THAT(wrong.out, HasSubstr("wrong.json: overlap"));
}

// Of software that nobody names no sums run beside other work: tensor parallelism costs more than
// under Megatron-Core by name, which sums beside weights' gradients.
TEST_F(MachineCommand, UnnamedSoftwareHidesNothingUnasked) {
  ASSERT_EQ(weir("plan " WEIR_SOURCE_DIR
                 "/tools/examples/models/llama-3-8b.json --seq-length 4096 --dtype bf16 "
                 "--attention fused --tp 8 -K 1 -M 8 -o plan.json")
                .code,
            0);
  const auto step = [&](const char* options) {
    return forecast(options)["step_time_s"].get<double>();
  };
  EXPECT_GT(step("--cluster dgx-a100"), 1.01 * step("--cluster dgx-a100 --stack megatron-core"));
}

// The shape of the doubt: without a limit no answer, with one an answer and a probability.
TEST_F(MachineCommand, ALimitHasAnAnswer) {
  EXPECT_TRUE(forecast("")["fits"].is_null());
  const Json large = forecast("--memory-limit 1TiB");
  EXPECT_EQ(large["fits"], "yes");
  EXPECT_GE(large["fits_probability"], 0.95);
  for (const Json& rank : large["ranks"])
    EXPECT_GE(rank["peak_memory_upper_bytes"], rank["peak_memory_bytes"]);
  const CommandResult small = weir("simulate plan.json --memory-limit 1MiB");
  EXPECT_EQ(small.code, 4);
  EXPECT_THAT(small.out, HasSubstr("does not fit"));
}

TEST_F(MachineCommand, PlansAreComparedOnACluster) {
  const CommandResult result = weir(
      "--json -q compare plan.json plan.json --cluster dgx-h100 --stack mine.json 2>/dev/null");
  ASSERT_EQ(result.code, 0) << result.out;
  const Json json = Json::parse(result.out);
  const Json alone = forecast("--cluster dgx-h100 --stack mine.json");
  EXPECT_EQ(json["step_time_s"][0], alone["step_time_s"]);
}

}  // namespace
}  // namespace weir::machine_command_test
