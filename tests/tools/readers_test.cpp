// What readers once took for granted: each of these ended badly, and is now one line.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/tools/commands/command.hpp"

namespace weir::readers_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Readers : public InFolder {
 protected:
  Readers() {
    write("tiny.json",
          R"({"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,)"
          R"( "n_positions": 8})");
  }
  // A plan of two ranks and four micro-batches, its forecast in p and two steps of it in r.
  nlohmann::json traced() {
    EXPECT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
    EXPECT_EQ(weir("simulate plan.json -o p").code, 0);
    EXPECT_EQ(weir("run plan.json --backend synthetic --steps 2 --warmup 0 -o r").code, 0);
    EXPECT_EQ(weir("compare p/predicted.json r/measured.json").code, 0);
    std::filesystem::copy_file(WEIR_SOURCE_DIR "/tests/fuzz/seeds/costs/measured.json",
                               folder_ / "costs.json");
    return nlohmann::json::parse(read("r/measured.json"));
  }
  // compare and calibrate refuse this trace in one line, and nothing is written.
  void expect_refused(nlohmann::json trace, const std::string& message) {
    // Edited by hand: whoever does takes the seal out.
    trace["weir"].erase("sha256");
    write("r/spoilt.json", trace.dump());
    for (const std::string command : {"compare p/predicted.json r/spoilt.json",
                                      "calibrate r/spoilt.json --costs costs.json -o fit.json"}) {
      const CommandResult result = weir(command);
      EXPECT_EQ(result.code, 3) << command << "\n" << result.out;
      EXPECT_THAT(result.out, StartsWith("weir: r/spoilt.json: " + message)) << command;
      EXPECT_EQ(std::ranges::count(result.out, '\n'), 1) << command << "\n" << result.out;
      EXPECT_FALSE(std::filesystem::exists(folder_ / "fit.json")) << command;
    }
  }
  // The same once `change` has been at the first forward of step 0.
  void expect_refused(nlohmann::json trace, const std::string& message,
                      void (*change)(nlohmann::json& event)) {
    for (nlohmann::json& event : trace["traceEvents"]) {
      if (event.value("name", "") != "0F0" || event["args"]["step"] != 0) continue;
      change(event);
      break;
    }
    expect_refused(trace, "traceEvents: " + message);
  }
};

// Operation 0 is 0F0 on rank 0.
TEST_F(Readers, ATraceIsOfItsPlansRanksLanesAndSteps) {
  const nlohmann::json trace = traced();
  expect_refused(trace, "operation 0, 0F0, is of rank 1,",
                 [](nlohmann::json& event) { event["pid"] = 1; });
  expect_refused(trace, "operation 0, 0F0, is of rank 0, lane send, step 0;",
                 [](nlohmann::json& event) { event["args"]["lane"] = "send"; });
  expect_refused(trace, "", [](nlohmann::json& event) { event["args"]["step"] = 1; });
  expect_refused(trace, "0F0 from 1000000000000000 to 1000000000000005 ns is not of its step 0,",
                 [](nlohmann::json& event) {
                   event["args"]["start_ns"] = 1'000'000'000'000'000;
                   event["args"]["end_ns"] = 1'000'000'000'000'005;
                 });
  nlohmann::json spoilt = trace;
  spoilt["weir"]["ranks"] = 3;  // of which one has no lane
  expect_refused(spoilt, "weir.ranks: expected the plan's 2, found 3");
  spoilt = trace;
  spoilt["weir"]["steps"].erase(1);
  expect_refused(spoilt, "traceEvents: expected 36 spans for each of 1 steps, found 72");
  spoilt = trace;
  std::swap(spoilt["weir"]["steps"][0], spoilt["weir"]["steps"][1]);
  expect_refused(spoilt, "weir.steps[1].start_ns: is before the start of the step before");
  spoilt = trace;
  spoilt["weir"]["steps"][0] = {{"start_ns", 0}, {"end_ns", 0}};
  expect_refused(spoilt, "traceEvents: 0F0 from ");
}

// What a trace's info holds is read again, and is the trace's fault: the plan has gradients whole
// in two waves, where one forward and one backward take turns.
TEST_F(Readers, ATraceIsOfThePlanInIt) {
  const nlohmann::json trace = traced();
  const auto expect_plan_refused = [&](const char* key, const nlohmann::json& value,
                                       const std::string& message) {
    nlohmann::json spoilt = trace;
    auto plan = nlohmann::json::parse(trace["weir"]["info"]["plan"].get<std::string>());
    plan[key] = value;
    spoilt["weir"]["info"]["plan"] = plan.dump();
    expect_refused(spoilt, message);
  };
  expect_plan_refused("microbatches", 5, "traceEvents: expected 44 spans for each of 2 steps,");
  expect_plan_refused("schedule", "gpipe", "traceEvents: 0B0 is not the plan's operation 2");
  expect_plan_refused("schedule", "exec:true", "weir.info: plan: schedule: unknown schedule");
  nlohmann::json spoilt = trace;
  spoilt["weir"]["info"]["disturbance"] = "{";
  expect_refused(spoilt, "weir.info: weir.info.disturbance: no valid JSON");
}

// A line of text that a message quotes does not make two messages of one, nor turns it around.
TEST_F(Readers, AMessageIsOneLineWhateverItQuotes) {
  write("family.json", R"({"model_type": "gpt2\nweir: all is well"})");
  EXPECT_THAT(weir("model family.json").out,
              StartsWith(R"(weir: family.json: model_type: unknown family "gpt2\x0aweir: all)"));
  write("a\nb.json", "{");
  EXPECT_THAT(weir("model 'a\nb.json'").out, StartsWith(R"(weir: a\x0ab.json: no valid JSON: )"));
  EXPECT_EQ(weir("model 'none\n'").out, "weir: none\\x0a: cannot be read: no such file\n");
  EXPECT_EQ(weir("model none\u202e\u2028\u2066").out,
            R"(weir: none\u202e\u2028\u2066: cannot be read: no such file)"
            "\n");
  // What is drawn under a message stays a drawing.
  write("swapped.csv", "0F0,0B0,1F0,1B0\n");
  EXPECT_GT(std::ranges::count(weir("schedule swapped.csv").out, '\n'), 1);
}

TEST_F(Readers, ADeviceWithoutARateIsNamed) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  const std::string clusters = WEIR_SOURCE_DIR "/tools/examples/clusters/";
  std::ifstream in(clusters + "dgx-a100.json");
  nlohmann::json cluster = nlohmann::json::parse(in);
  cluster["device"].erase("peak_fp32_tflops");
  write("mine.json", cluster.dump());
  const CommandResult result = weir("simulate plan.json --cluster mine.json");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("device.peak_fp32_tflops: is missing"));
}

// 1e15 ms are 32,000 years; the limit is a layer list's, 1e6 s.
TEST_F(Readers, TimesHaveABound) {
  write("layers.csv",
        "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
        "a,x,1,1,1e15,1,1,1,1\n");
  const CommandResult table = weir("model layers.csv");
  EXPECT_EQ(table.code, 3);
  EXPECT_THAT(table.out, HasSubstr("layers.csv: line 2: i_ms: expected at most 1000000000 ms"));
  write("graph.txt",
        "node1 -- Linear(3) -- forward_compute_time=1e15, backward_compute_time=2.000, "
        "activation_size=4.0, parameter_size=4.000\n");
  const CommandResult graph = weir("model graph.txt");
  EXPECT_EQ(graph.code, 3);
  EXPECT_THAT(graph.out, HasSubstr("graph.txt: line 1: forward_compute_time: expected at most"));
}

// What is quoted may be of any length; a message is not, and its end is still there.
TEST_F(Readers, MessagesHaveABound) {
  const std::string name(4000, 'x');
  write("layers.json", R"({"schema": "weir.layers/1", "name": ")" + name + R"(", ")" + name +
                           R"(": 1, "layers": []})");
  for (const std::string& line :
       {std::string("model layers.json"), "plan tiny.json --" + name, "model " + name,
        "schedule 1f1b -K 2 -M 2 --uniform " + name, "plan tiny.json --boundaries " + name}) {
    const CommandResult result = weir(line);
    EXPECT_THAT(result.code, testing::AnyOf(2, 3)) << line.substr(0, 40);
    EXPECT_LT(result.out.size(), 1100U) << line.substr(0, 40);
    EXPECT_GT(result.out.size(), 20U) << line.substr(0, 40);
  }
  EXPECT_THAT(weir("model layers.json").out, HasSubstr("bytes left out]"));
}

}  // namespace
}  // namespace weir::readers_test
