// Built-in costs anchored through the command: figures in, forecasts out.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::anchor_command_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class AnchorCommand : public InFolder {
 protected:
  AnchorCommand() {
    for (const int m : {8, 64}) {
      const CommandResult made = weir("plan " WEIR_SOURCE_DIR
                                      "/tools/examples/models/gpt2.json --dtype bf16 -K 4 --dp 4 "
                                      "-M " +
                                      std::to_string(m) + " -o m" + std::to_string(m) + ".json");
      EXPECT_EQ(made.code, 0) << made.out;
    }
  }
  Json simulate(const std::string& rest) {
    const CommandResult result = weir("--json -q simulate " + rest + cluster_ + " 2>/dev/null");
    EXPECT_EQ(result.code, 0) << result.out;
    return Json::parse(result.out);
  }
  const std::string cluster_ =
      " --cluster " WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json";
};

// Whatever a figure says of a run, the costs made of it give that run so; of a plan with other
// degrees they are the same factor.
TEST_F(AnchorCommand, OneFigureIsForecastExactly) {
  const Json before = simulate("m8.json");
  const double step = before["step_time_s"];
  const double measured = 1.4 * step;
  ASSERT_EQ(
      weir("calibrate --measured m8.json=" + std::to_string(measured) + "s -o a.json" + cluster_)
          .code,
      0);
  const Json anchor = Json::parse(read("a.json"))["anchor"];
  EXPECT_NEAR(anchor["factors"]["compute"], 1.4, 1e-3);
  EXPECT_EQ(anchor["runs"][0]["plan"], "m8.json");
  EXPECT_EQ(anchor["factors"]["memory"], 1);
  const Json after = simulate("m8.json --costs a.json");
  EXPECT_EQ(after["basis"], "anchored");
  EXPECT_NEAR(after["step_time_s"], measured, 1e-6);
  const double split = simulate("m8.json --tp 2")["step_time_s"];
  EXPECT_NEAR(simulate("m8.json --tp 2 --costs a.json")["step_time_s"], 1.4 * split, 2e-4 * split);
}

// 1.4 times the forecast lies within what other clusters showed; twice as long asks why.
TEST_F(AnchorCommand, AFigureFarFromTheForecastIsDoubted) {
  const double step = simulate("m8.json")["step_time_s"];
  const auto said = [&](double times) {
    const CommandResult result = weir(
        "calibrate --measured m8.json=" + std::to_string(times * step) + "s -o a.json" + cluster_);
    EXPECT_EQ(result.code, 0) << result.out;
    return result.out;
  };
  EXPECT_THAT(said(1.4), Not(HasSubstr("times what is forecast")));
  EXPECT_THAT(said(2), HasSubstr("s is 2.00 times what is forecast: is it this plan's"));
  EXPECT_THAT(said(0.5), HasSubstr("s is 0.50 times what is forecast"));
}

// GPT-2's layers are so small that hosts set the pace, and PyTorch's without a compiler launches
// most: a step of it is over 1.17 (e^0.16) of the default's, and is known for what it is. One that
// the default forecasts asks nothing, nor does any where the software is named.
TEST_F(AnchorCommand, AStepLikeThatOfOtherSoftwareNamesIt) {
  const auto said = [&](double seconds, const std::string& rest = "") {
    const CommandResult result = weir("calibrate --measured m8.json=" + std::to_string(seconds) +
                                      "s -o a.json" + cluster_ + rest);
    EXPECT_EQ(result.code, 0) << result.out;
    return result.out;
  };
  const double eager = simulate("m8.json --stack torchtitan-eager")["step_time_s"];
  EXPECT_GT(eager, 1.2 * simulate("m8.json")["step_time_s"].get<double>());
  EXPECT_THAT(said(eager), HasSubstr("of what is known torchtitan-eager is nearest (1.00): "
                                     "--stack torchtitan-eager, if it is yours"));
  EXPECT_THAT(said(eager, " --stack megatron-core"), Not(HasSubstr("is nearest")));
  EXPECT_THAT(said(simulate("m8.json")["step_time_s"]), Not(HasSubstr("is nearest")));
  // Nothing that is known takes twenty times as long.
  EXPECT_THAT(said(20 * eager), Not(HasSubstr("is nearest")));
}

// Stacks of 32 bits forecast the second plan alone: none of them ran both.
TEST_F(AnchorCommand, SoftwareOfSomeOfThePlansIsNotNamed) {
  const std::string in_32_bits = "megatron-deepspeed-fp32";
  ASSERT_EQ(weir("plan " WEIR_SOURCE_DIR
                 "/tools/examples/models/gpt2.json --dtype fp32 -K 4 -M 8 -o f8.json")
                .code,
            0);
  const double half = simulate("m8.json")["step_time_s"],
               full = simulate("f8.json --stack " + in_32_bits)["step_time_s"];
  const auto said = [&](const std::string& more) {
    const CommandResult result = weir("calibrate --measured f8.json=" + std::to_string(full) + "s" +
                                      more + " -o a.json" + cluster_);
    EXPECT_EQ(result.code, 0) << result.out;
    return result.out;
  };
  EXPECT_THAT(said(" --measured m8.json=" + std::to_string(3 * half) + "s"),
              Not(HasSubstr(in_32_bits)));
}

// 30 % fewer tokens or model FLOPs a second: the step is 1 / 0.7 as long.
TEST_F(AnchorCommand, RatesAreStepTimes) {
  const Json before = simulate("m8.json");
  const std::string tokens =
      std::to_string(0.7e-3 * before["tokens_per_s"].get<double>()) + "ktok/s";
  const std::string flops =
      std::to_string(0.7 * before["model_tflops_per_device"].get<double>()) + "TFLOPs";
  for (const std::string& figure : {tokens, flops}) {
    ASSERT_EQ(weir("calibrate --measured m8.json=" + figure + " -o a.json" + cluster_).code, 0);
    const Json factors = Json::parse(read("a.json"))["anchor"]["factors"];
    EXPECT_NEAR(factors["compute"], 1 / 0.7, 1e-4) << figure;
  }
}

TEST_F(AnchorCommand, MemoryHasItsOwnFactor) {
  ASSERT_EQ(weir("calibrate --measured m8.json=900ms,20.5GiB -o a.json" + cluster_).code, 0);
  const Json after = simulate("m8.json --costs a.json");
  double most = 0;
  for (const Json& rank : after["ranks"])
    most = std::max(most, rank["peak_memory_bytes"].get<double>());
  EXPECT_NEAR(most, 20.5 * std::pow(2, 30), 1e3);
}

TEST_F(AnchorCommand, FiguresThatContradictAreNamed) {
  const CommandResult result =
      weir("calibrate --measured m8.json=1s --measured m8.json=2s -o a.json" + cluster_);
  ASSERT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("m8.json=2s contradicts the other figures"));
  const CommandResult clear =
      weir("calibrate --measured m8.json=1s --measured m8.json=1.02s -o a.json" + cluster_);
  EXPECT_THAT(clear.out, testing::Not(HasSubstr("contradicts")));
}

TEST_F(AnchorCommand, WhatIsNoFigureIsRefused) {
  const auto line = [this](const std::string& measured) {
    const CommandResult result = weir("calibrate --measured " + measured + " -o a.json" + cluster_);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "a.json"));
    EXPECT_EQ(std::ranges::count(result.out, '\n'), 1) << result.out;
    return std::pair(result.code, result.out);
  };
  EXPECT_EQ(line("m8.json").first, 2);
  EXPECT_EQ(line("m8.json=22.3").first, 2);
  EXPECT_EQ(line("m8.json=22.3parsec").first, 2);
  EXPECT_EQ(line("m8.json=0s").first, 2);
  EXPECT_EQ(line("m8.json=1s,61").first, 2);
  EXPECT_THAT(line("m8.json=61GiB").second, HasSubstr("\"61GiB\": expected a step time"));
  // No device of 80 GiB has held 200.
  const auto [many, more] = line("m8.json=1s,200GiB");
  EXPECT_EQ(many, 2);
  EXPECT_THAT(more, HasSubstr("m8.json=1s,200GiB: 200.00 GiB is more than the 79.10 GiB"));
  EXPECT_EQ(line("none.json=22.3s").first, 3);
  weir("plan " WEIR_SOURCE_DIR
       "/tools/examples/models/gpt2.json --dtype bf16 -K 12 -M 12 --dp 1024 -o large.json");
  const auto [code, text] = line("large.json=22.3s");
  EXPECT_EQ(code, 3);
  EXPECT_THAT(text, HasSubstr("needs 12288 devices"));
}

// Costs of H100s say nothing of an A100, and a trace is no figure.
TEST_F(AnchorCommand, OtherDevicesAndOtherSourcesAreRefused) {
  ASSERT_EQ(weir("calibrate --measured m8.json=900ms -o a.json" + cluster_).code, 0);
  const CommandResult other = weir("simulate m8.json --costs a.json --cluster " WEIR_SOURCE_DIR
                                   "/tools/examples/clusters/dgx-a100.json");
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.out, HasSubstr("a.json: anchor.device: is H100"));
  EXPECT_EQ(weir("calibrate --measured m8.json=900ms --costs a.json -o b.json" + cluster_).code, 2);
}

// A sweep takes them, for every split that it looks at, and a file loaded and written again is the
// same.
TEST_F(AnchorCommand, ASweepTakesThem) {
  ASSERT_EQ(weir("calibrate --measured m8.json=900ms -o a.json" + cluster_).code, 0);
  const CommandResult swept =
      weir("--json -q sweep " WEIR_SOURCE_DIR
           "/tools/examples/models/gpt2.json --dtype bf16 -K 1,2 --tp 1,2 -M 8 --costs a.json" +
           cluster_ + " 2>/dev/null");
  ASSERT_EQ(swept.code, 0) << swept.out;
  EXPECT_EQ(Json::parse(swept.out)["plans"][0]["forecast"]["basis"], "anchored");
}

// A log is its median step behind the warm-up, here of 505, 495 and 900 ms: costs as the figure
// gives them. The memory that it says is of tensors: 4 GiB hold against the forecast's peak without
// its overhead, the process's own and what the allocator keeps, while a figure holds against all.
TEST_F(AnchorCommand, ALogIsItsFigures) {
  std::string log;
  for (const auto& [iteration, ms] :
       {std::pair(1, 9000), {20, 480}, {21, 505}, {22, 900}, {23, 495}})
    log += " iteration " + std::to_string(iteration) +
           "/ 100 | elapsed time per iteration (ms): " + std::to_string(ms) +
           ".0 | global batch size: 32 |\n";
  log += "[Rank 0] (after 23 iterations) memory (MB) | allocated: 9.0 | max allocated: 4096.0\n";
  write("job.log", log);
  const CommandResult learnt = weir("calibrate --measured m8.json=job.log -o log.json" + cluster_);
  ASSERT_EQ(learnt.code, 0) << learnt.out;
  EXPECT_THAT(learnt.out, HasSubstr("m8.json=job.log: 4 lines of Megatron-LM (1 of the warm-up or "
                                    "another batch left out): 500 ms, half of them 491 ms to"));
  ASSERT_EQ(weir("calibrate --measured m8.json=500ms,4GiB -o said.json" + cluster_).code, 0);
  const Json factors = Json::parse(read("log.json"))["anchor"]["factors"];
  const Json said = Json::parse(read("said.json"))["anchor"]["factors"];
  EXPECT_EQ(factors["compute"], said["compute"]);
  double whole = 0, tensors = 0;  // of the fullest rank
  const Json plain = simulate("m8.json");
  for (const Json& rank : plain["ranks"]) {
    const double peak = rank["peak_memory_bytes"];
    whole = std::max(whole, peak);
    tensors = std::max(tensors, peak - rank["memory_bytes"]["overhead"].get<double>());
  }
  ASSERT_LT(tensors, whole);
  EXPECT_NEAR(said["memory"], std::pow(2, 32) / whole, 1e-6);
  EXPECT_NEAR(factors["memory"], std::pow(2, 32) / tensors, 1e-6);
  EXPECT_NEAR(simulate("m8.json --costs log.json")["step_time_s"], 0.5, 1e-6);
  const Json compared = Json::parse(
      weir("-q --json compare m8.json job.log --costs log.json" + cluster_ + " 2>/dev/null").out);
  EXPECT_EQ(compared["schema"], "weir.log_comparison/1");
  EXPECT_DOUBLE_EQ(compared["measured_s"], 0.5);
  EXPECT_NEAR(compared["error"], 0, 1e-5);
  EXPECT_EQ(compared["memory_count"], "allocated");
  EXPECT_EQ(compared["measured_peak_memory_bytes"], std::int64_t{4} << 30);
  EXPECT_NEAR(compared["predicted_peak_memory_bytes"].get<double>(), std::pow(2, 32), 1e3);
}

// One line of the first iteration is the warm-up's, which is said; a tool that prints no time is
// named.
TEST_F(AnchorCommand, LogsThatSayLittle) {
  write("one.log",
        " iteration 1/ 100 | elapsed time per iteration (ms): 9000.0 | global batch size: 32 |\n");
  const CommandResult one = weir("-q compare m8.json one.log" + cluster_);
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.out, HasSubstr("; all of the warm-up, whose steps are slower: a later line"));
  write("hf.log", "{'loss': 1.2, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}\n");
  write("bar.log", "Epoch 0:  10%| | 10/100 [02:30<22:30, 15.00s/it, v_num=0]\n");
  for (const auto& [file, tool] :
       {std::pair("hf.log", "Hugging Face's Trainer"), {"bar.log", "PyTorch Lightning"}}) {
    const CommandResult silent = weir("-q compare m8.json " + std::string(file) + cluster_);
    EXPECT_EQ(silent.code, 3);
    EXPECT_EQ(silent.out, "weir: " + std::string(file) + ": is a log of " + tool +
                              ", whose lines do not say how long a step took: give the time "
                              "itself\n");
  }
}

// The job's own list of arguments, and its steps' sequence length, say whose log it is.
TEST_F(AnchorCommand, TheLogOfAnotherJobIsRefused) {
  const auto refusal = [&](const std::string& arguments, const std::string& behind = "") {
    write("job.log", arguments +
                         " iteration 20/ 100 | elapsed time per iteration (ms): 500.0 | "
                         "global batch size: 32 |" +
                         behind + "\n");
    return weir("-q compare m8.json job.log" + cluster_);
  };
  EXPECT_EQ(refusal("  pipeline_model_parallel_size .... 4\n  world_size .... 16\n").code, 0);
  const CommandResult other = refusal("  pipeline_model_parallel_size .... 8\n");
  EXPECT_EQ(other.code, 3);
  EXPECT_EQ(other.out, "weir: m8.json: is of pipeline_model_parallel_size 4, the log's job of 8\n");
  EXPECT_EQ(refusal("", " actual seqlen: 512 |").out,
            "weir: m8.json: has 1024 tokens a sample, the log's steps have 512\n");
}

}  // namespace
}  // namespace weir::anchor_command_test
