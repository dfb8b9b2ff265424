// `weir run` that ends in the middle: by Ctrl-C, and by kill -9 at any moment, in the midst of
// writing a checkpoint too.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>

#include "tests/tools/commands/command.hpp"

namespace weir::resume_command_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Resume : public InFolder {
 protected:
  Resume() {
    // A few MB of state, so that a checkpoint takes some milliseconds.
    write("tiny.json", R"({"model_type":"gpt2","n_embd":64,"n_head":2,"n_layer":3,)"
                       R"("vocab_size":2048,"n_positions":8,"resid_pdrop":0.1})");
    EXPECT_EQ(weir("plan tiny.json -K 2 -M 2 -o k2.json").code, 0);
    EXPECT_EQ(weir("plan tiny.json -K 1 -M 2 -o k1.json").code, 0);
  }
  nlohmann::json result(const std::string& arguments) {
    const CommandResult done = weir("--json -q run " + arguments + " 2> notes");
    EXPECT_EQ(done.code, 0) << read("notes");
    return nlohmann::json::parse(done.out);
  }
  // The command, to which `signal` is sent after so long: once, not a second time as one of a
  // group.
  CommandResult interrupted(const std::string& arguments, const std::string& signal, int after_ms) {
    return shell("timeout --foreground --preserve-status -s " + signal + " " +
                 std::to_string(after_ms / 1000.0) + " " WEIR_COMMAND " -q run " + arguments);
  }
};

TEST_F(Resume, CtrlCSavesAndEndsClean) {
  // A machine may be so busy that the signal comes before the command listens: then it is early.
  CommandResult stopped;
  for (const int after_ms : {2000, 8000, 30000}) {
    stopped =
        interrupted("k2.json --steps 1000000 --checkpoint-every 1000000 -o out", "INT", after_ms);
    if (stopped.out.find("stopped after step") != std::string::npos) break;
  }
  EXPECT_EQ(stopped.code, 130) << stopped.out;
  EXPECT_THAT(stopped.out, HasSubstr("stopped after step"));
  EXPECT_THAT(stopped.out, HasSubstr("--resume out/checkpoints/step-"));
  const auto report = nlohmann::json::parse(read("out/run.json"));
  EXPECT_TRUE(report.at("stopped"));
  const int trained = static_cast<int>(report.at("steps").size());
  const auto more = result("k1.json --warmup 0 --steps 1 --resume out");
  EXPECT_EQ(more.at("first_step"), trained);
  const auto whole = result("k1.json --warmup 0 --steps " + std::to_string(trained + 1));
  EXPECT_EQ(more.at("parameters_sha256"), whole.at("parameters_sha256"));
}

// Steps 1 to 4 of the run before, 5 and 6 of the one that goes on: losses by step, one curve each.
TEST_F(Resume, LossesAreDrawn) {
  const auto before = result("k2.json --warmup 0 --steps 4 --checkpoint-every 4 -o out");
  const auto more = result("k1.json --warmup 0 --steps 2 --resume out --svg loss.svg");
  EXPECT_THAT(read("loss.svg"), HasSubstr("before it was stopped"));
  std::istringstream rows(read("loss.data.csv"));
  std::string row;
  std::getline(rows, row);
  for (int step = 1; step <= 6; ++step) {
    ASSERT_TRUE(std::getline(rows, row));
    const auto& steps = step <= 4 ? before.at("steps") : more.at("steps");
    const double loss = steps[static_cast<std::size_t>(step <= 4 ? step - 1 : step - 5)].at("loss");
    const auto y = row.rfind(','), x = row.rfind(',', y - 1);
    EXPECT_EQ(std::stod(row.substr(x + 1)), step) << row;
    EXPECT_NEAR(std::stod(row.substr(y + 1)), loss, 1e-4) << row;
  }
  EXPECT_FALSE(std::getline(rows, row)) << row;
  EXPECT_EQ(weir("run k1.json --steps 0 --svg none.svg").code, 2);
  EXPECT_EQ(weir("run k1.json --backend synthetic --svg none.svg").code, 2);
}

// A run that goes on in its own folder leaves the losses of those before it there: 3 steps, of
// which the last is trained again, then 2 and 1.
TEST_F(Resume, LossesBeforeStay) {
  const auto whole = result("k2.json --warmup 0 --steps 5").at("steps");
  result("k2.json --warmup 0 --steps 3 --checkpoint-every 2 -o out");
  const char* second = "out/checkpoints/step-000002";
  result("k2.json --warmup 0 --steps 2 --checkpoint-every 1 -o out --resume " +
         std::string(second));
  const auto last = result("k1.json --warmup 0 --steps 1 --resume out -o out");
  EXPECT_EQ(nlohmann::json::parse(read("out/run.json")), last);
  ASSERT_EQ(last.at("first_step"), 4);
  ASSERT_EQ(last.at("losses_before").size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(last["losses_before"][i], whole[i]["loss"]) << i;
  EXPECT_EQ(last["steps"][0]["loss"], whole[4]["loss"]);
}

// Most of the time goes into checkpoints, so most kills fall into one. What is found afterwards is
// whole and goes on to the bits of a run that was never killed.
TEST_F(Resume, AKillLeavesNoBrokenCheckpoint) {
  std::mt19937 random(11);
  int trained = 0;
  for (int kill = 0; kill < 12; ++kill) {
    const std::string from = trained > 0 ? " --resume out" : "";
    static_cast<void>(
        interrupted("k2.json --warmup 0 --steps 1000000 --checkpoint-every 1 -o out" + from, "KILL",
                    300 + static_cast<int>(random() % 400)));
    if (!std::filesystem::exists(folder_ / "out" / "checkpoints")) continue;  // killed too early
    const CommandResult found = weir("--json -q run k1.json --steps 0 --resume out 2> notes");
    if (trained == 0 && found.code == 3) continue;  // before its first checkpoint was whole
    ASSERT_EQ(found.code, 0) << found.out;
    const int first = nlohmann::json::parse(found.out).at("first_step");
    EXPECT_GE(first, trained);
    trained = first;
  }
  EXPECT_GT(trained, 3);
  const auto rest = result("k1.json --warmup 0 --steps 1 --resume out");
  const auto whole = result("k1.json --warmup 0 --steps " + std::to_string(trained + 1));
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
  EXPECT_EQ(rest.at("steps").back().at("loss"), whole.at("steps").back().at("loss"));
}

// Six steps at once are three and three, the warm-up among them each time.
TEST_F(Resume, StepsAreCountedWithTheirWarmUp) {
  const auto whole = result("k2.json --steps 6");
  EXPECT_EQ(whole.at("steps").size(), 6U);
  EXPECT_EQ(result("k2.json --steps 3 --checkpoint-every 3 -o out").at("steps").size(), 3U);
  const auto rest = result("k2.json --steps 3 --resume out");
  EXPECT_EQ(rest.at("first_step"), 3);
  EXPECT_EQ(rest.at("parameters_sha256"), whole.at("parameters_sha256"));
  const CommandResult none = weir("run k2.json --steps 2 --warmup 5 -o unmeasured");
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.out, HasSubstr("weir: no step is measured: all 2 are warm-up (--warmup)\n"));
  EXPECT_THAT(none.out, Not(HasSubstr("median")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "unmeasured" / "measured.json"));
}

// No old step may win over a new one: another run's folder is gone on with, cleared, or left alone.
TEST_F(Resume, AnothersCheckpointsAreNotMixedWithOnesOwn) {
  ASSERT_EQ(weir("run k2.json --steps 4 --checkpoint-every 2 -o out -q").code, 0);
  const CommandResult refused = weir("run k2.json --steps 2 --checkpoint-every 2 -o out -q");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out,
            "weir: out holds checkpoints of another run: --resume out goes on with it, --restart "
            "removes them, or name another folder\n");
  ASSERT_EQ(weir("run k2.json --steps 2 --checkpoint-every 2 -o other -q").code, 0);
  EXPECT_EQ(weir("run k2.json --steps 2 --resume other -o out -q").code, 2);
  EXPECT_EQ(weir("run k2.json --steps 2 --resume out --restart -o out -q").code, 2);
  EXPECT_EQ(weir("run k2.json --steps 2 --restart -q").code, 2);
  const CommandResult anew = weir("run k2.json --steps 3 --checkpoint-every 3 -o out --restart");
  EXPECT_EQ(anew.code, 0);
  EXPECT_THAT(anew.out, HasSubstr("weir: checkpoints of another run in out are removed\n"));
  EXPECT_EQ(result("k2.json --steps 0 --resume out").at("first_step"), 3);
  EXPECT_EQ(
      result("k2.json --steps 1 --resume out/checkpoints/step-000003 -o out").at("first_step"), 3);
}

// The lock is the first's for as long as it lives, and its process is named.
TEST_F(Resume, TwoRunsDoNotWriteIntoOneFolder) {
  const CommandResult both =
      shell("(" WEIR_COMMAND
            " -q run k2.json --steps 1000000 -o out > first 2>&1 & echo $! > pid; "
            "while [ ! -s out/last-actions/rank-0.txt ]; do sleep 0.05; done; " WEIR_COMMAND
            " -q run k1.json --steps 1 --warmup 0 -o out; echo code $?; kill -TERM $(cat pid); "
            "wait $(cat pid); echo code $?)");
  std::string pid = read("pid");
  pid.pop_back();
  EXPECT_EQ(both.out, "weir: out is being written by process " + pid + "\ncode 6\ncode 143\n");
  EXPECT_EQ(weir("run k1.json --steps 1 --warmup 0 -o out -q").code, 0);
}

TEST_F(Resume, WhatIsNoFileIsSaidAndNotWaitedFor) {
  ASSERT_EQ(weir("run k2.json --steps 2 --checkpoint-every 2 -o out -q").code, 0);
  ASSERT_EQ(shell("mkfifo pipe; mv out/checkpoints/step-000002/state.safetensors kept; "
                  "mkfifo out/checkpoints/step-000002/state.safetensors")
                .code,
            0);
  for (const std::string option : {"--data pipe", "--init pipe", "--evaluate pipe", "--resume out",
                                   "--resume out/checkpoints/step-000002"}) {
    const CommandResult refused = weir("run k2.json -q " + option);
    EXPECT_EQ(refused.code, 3) << option;
    EXPECT_EQ(std::count(refused.out.begin(), refused.out.end(), '\n'), 1) << refused.out;
    EXPECT_THAT(refused.out, HasSubstr("expected a file")) << option;
  }
}

TEST_F(Resume, AnotherTrainingIsBadInput) {
  ASSERT_EQ(weir("run k2.json --steps 1 --warmup 0 --checkpoint-every 1 -o out -q").code, 0);
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o m4.json").code, 0);
  const CommandResult refused = weir("run m4.json --resume out");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.out, HasSubstr("the checkpoint has 2, this run has 4"));
  EXPECT_EQ(weir("run k2.json --checkpoint-every 1").code, 2);
  // What it cost is what goodput asks for.
  const CommandResult goodput =
      weir("--json simulate k2.json --mtbf 3h --checkpoint-cost out/run.json --restart-cost 5min");
  ASSERT_EQ(goodput.code, 0) << goodput.out;
  const double cost = nlohmann::json::parse(goodput.out).at("goodput").at("checkpoint_cost_s");
  EXPECT_EQ(cost, nlohmann::json::parse(read("out/run.json"))["checkpoints"][0]["time_s"]);
}

TEST_F(Resume, ADivergedRunFailsAndItsCheckpointIsThere) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 2 --optimizer sgd --learning-rate 1e6 -o far.json").code,
            0);
  const CommandResult ended =
      weir("run far.json -q --warmup 0 --steps 9 --checkpoint-every 1 -o out");
  EXPECT_EQ(ended.code, 6);
  EXPECT_THAT(ended.out, HasSubstr("0: embedding has made a number that is not finite"));
  EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), 1) << ended.out;
  EXPECT_EQ(weir("run far.json -q --steps 0 --resume out").code, 0);
}

// GPT-2's actions take far longer than the tenth of a second that is allowed.
TEST_F(Resume, AnActionThatHangsEndsTheRun) {
  const std::string model = WEIR_SOURCE_DIR "/tools/examples/models/gpt2.json";
  ASSERT_EQ(weir("plan " + model + " -K 2 -M 4 -b 8 -o long.json").code, 0);
  const CommandResult ended =
      weir("run long.json -q --backend synthetic --longest-action 0.1 --steps 1 --warmup 0");
  EXPECT_EQ(ended.code, 6) << ended.out;
  EXPECT_THAT(ended.out, HasSubstr("weir: rank 0, step 0, 0F0: has not ended for"));
}

}  // namespace
}  // namespace weir::resume_command_test
