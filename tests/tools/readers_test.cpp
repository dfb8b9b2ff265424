// What readers once took for granted: each of these ended badly, and is now one line.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/command.hpp"

namespace weir {
namespace {

using testing::HasSubstr;

class Readers : public InFolder {
 protected:
  Readers() {
    write("tiny.json",
          R"({"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 3, "vocab_size": 32,)"
          R"( "n_positions": 8})");
  }
  // compare refuses r/measured.json once `change` has been at its first forward's arguments.
  void expect_refused(const nlohmann::json& trace, const std::string& message,
                      void (*change)(nlohmann::json& event)) {
    nlohmann::json spoilt = trace;
    for (nlohmann::json& event : spoilt["traceEvents"]) {
      if (event.value("name", "") != "0F0" || event["args"]["step"] != 0) continue;
      change(event);
      break;
    }
    write("r/measured.json", spoilt.dump());
    const CommandResult result = weir("compare p/predicted.json r/measured.json");
    EXPECT_EQ(result.code, 3) << result.out;
    EXPECT_THAT(result.out, HasSubstr("r/measured.json: traceEvents: " + message));
  }
};

// Two ranks, four micro-batches, two steps of timed waits: operation 0 is 0F0 on rank 0.
TEST_F(Readers, ATraceIsOfItsPlansRanksLanesAndSteps) {
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  ASSERT_EQ(weir("simulate plan.json -o p").code, 0);
  ASSERT_EQ(weir("run plan.json --backend synthetic --steps 2 --warmup 0 -o r").code, 0);
  ASSERT_EQ(weir("compare p/predicted.json r/measured.json").code, 0);
  const auto trace = nlohmann::json::parse(read("r/measured.json"));
  expect_refused(trace, "operation 0, 0F0, is of rank 1,",
                 [](nlohmann::json& event) { event["pid"] = 1; });
  expect_refused(trace, "operation 0, 0F0, is of rank 0, lane send, step 0;",
                 [](nlohmann::json& event) { event["args"]["lane"] = "send"; });
  expect_refused(trace, "", [](nlohmann::json& event) { event["args"]["step"] = 1; });
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
}  // namespace weir
