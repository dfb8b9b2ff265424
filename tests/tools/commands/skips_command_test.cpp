// A U-Net whose skips go directly, from the plan to the run: the bits of one device, traces that
// are read again, and one line where skips cannot go so.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::skips_command_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kLevels = " -K 5 -M 4 -b 2 --boundaries 1,2,3,4 ";

class SkipsCommand : public InFolder {
 protected:
  SkipsCommand() {
    write("unet.json", R"({"schema":"weir.cnn/1","network":"unet","layers":"blocks","depth":2,)"
                       R"("convolutions":1,"channels":4,"image":16,"output_channels":3})");
    write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,)"
                       R"("vocab_size":32,"n_positions":8})");
  }
  nlohmann::json json_of(const std::string& arguments) {
    const CommandResult done = weir("--json -q " + arguments + " 2> notes");
    EXPECT_EQ(done.code, 0) << read("notes");
    return nlohmann::json::parse(done.out);
  }
  void refused(const std::string& arguments, int code, const std::string& line) const {
    const CommandResult done = weir("plan " + arguments);
    EXPECT_EQ(done.code, code) << arguments;
    EXPECT_THAT(done.out, HasSubstr(line));
  }
};

TEST_F(SkipsCommand, RunToTheBitsOfOneDevice) {
  ASSERT_EQ(weir("plan unet.json -M 4 -b 2 -o one.json").code, 0);
  const nlohmann::json one = json_of("run one.json --steps 2 --warmup 0");
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    ASSERT_EQ(weir(std::string("plan unet.json --skips direct -o plan.json --schedule ") +
                   schedule + kLevels)
                  .code,
              0);
    EXPECT_EQ(nlohmann::json::parse(read("plan.json")).at("skips"), "direct");
    const nlohmann::json run = json_of("run plan.json --steps 2 --warmup 0 -o out");
    EXPECT_EQ(run.at("parameters_sha256"), one.at("parameters_sha256")) << schedule;
  }
  // What the run has written is read again: the skips' messages have names of their own.
  EXPECT_THAT(read("out/measured.json"), HasSubstr("0SEND_F3:4"));
  ASSERT_EQ(weir("simulate plan.json -o out").code, 0);
  const CommandResult compared = weir("compare out/predicted.json out/measured.json");
  EXPECT_TRUE(compared.code == 0 || compared.out.find("oversubscribed") != std::string::npos)
      << compared.out;
  // Two replicas of three ranks, as threads.
  ASSERT_EQ(
      weir("plan unet.json -K 3 -M 2 -b 2 --dp 2 --boundaries 2,4 --skips direct -o two.json").code,
      0);
  const nlohmann::json two = json_of("run two.json --steps 2 --warmup 0");
  EXPECT_NEAR(two.at("steps")[1].at("loss").get<double>(),
              one.at("steps")[1].at("loss").get<double>(), 1e-4);
}

// The stage between two that a skip joins sends less and holds less.
TEST_F(SkipsCommand, AreForecast) {
  const std::string plan = std::string("plan unet.json --schedule 1f1b") + kLevels;
  ASSERT_EQ(weir(plan + "-o relay.json").code, 0);
  ASSERT_EQ(weir(plan + "--skips direct -o direct.json").code, 0);
  EXPECT_THAT(read("relay.json"), Not(HasSubstr("skips")));
  const auto peak = [&](const char* file) {
    return json_of(std::string("simulate ") + file)
        .at("ranks")[2]
        .at("peak_memory_bytes")
        .get<std::int64_t>();
  };
  EXPECT_LT(peak("direct.json"), peak("relay.json"));
  const CommandResult explained = weir("-q --json explain relay.json");
  EXPECT_EQ(explained.code, 0);
  EXPECT_THAT(explained.out, HasSubstr("\"choice\": \"skips\""));
}

TEST_F(SkipsCommand, AreRefusedInOneLine) {
  refused("tiny.json -K 2 -M 2 --skips direct", 3,
          "plan: skips: direct: expected a model whose layers make and take skips");
  refused("unet.json -K 2 -v 2 -M 2 --schedule interleaved-1f1b --skips direct", 3,
          "plan: skips: direct: expected one stage a rank");
  refused("unet.json -K 4 -M 2 --skips portal", 2, "relay");
  refused("unet.json -K 4 -M 2 --skips direct --recompute auto", 2, "--skips direct: ");
  refused("unet.json -K 4 -M 2 --skips direct --schedule auto", 2, "--skips direct: ");
  // Left to the planner, boundaries are those of a relay, and that is said.
  const CommandResult chosen = weir("plan unet.json -K 4 -M 2 --skips direct -o plan.json");
  EXPECT_EQ(chosen.code, 0);
  EXPECT_THAT(chosen.out, HasSubstr("boundaries: chosen for skips that are relayed"));
}

}  // namespace
}  // namespace weir::skips_command_test
