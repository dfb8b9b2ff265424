// `weir calibrate --plan PLAN TRACE...` as users meet it, on PyTorch profiler files of a run that
// never was.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "plan/job/resolve.hpp"
#include "tests/plan/samples.hpp"
#include "tests/tools/commands/command.hpp"
#include "tests/traces/kineto_files.hpp"

namespace weir::kineto_command_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class KinetoCommand : public InFolder {
 protected:
  KinetoCommand() {
    // Two stages of two layers: F 2 ms, I and W 2 ms each, where the run will take 0.1 ms and 0.2
    // ms for all of B.
    write_plain(folder_ / "chain.csv",
                "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\nl,x,10,"
                "1,1,1,64,64,4\n");
    EXPECT_EQ(weir("plan chain.csv -K 2 -M 6 --schedule 1f1b -o plan.json").code, 0);
    run_.program = load_plan(folder_ / "plan.json").program;
    run_.steps = 3;
    run_.clock_ns = {0, 8'000'000'000};
    run_.lay_out();
    write_gzip(folder_ / "0.json.gz", run_.file_of(Rank{0}));
    write_gzip(folder_ / "1.json.gz", run_.file_of(Rank{1}));
  }
  SyntheticRun run_;
};

TEST_F(KinetoCommand, FitsAndKeepsTheTrace) {
  const std::string cluster = WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json";
  const auto [code, out] = weir("calibrate 1.json.gz 0.json.gz --plan plan.json --cluster " +
                                cluster + " --save-trace out/measured.json");
  ASSERT_EQ(code, 0) << out;
  EXPECT_THAT(out,
              HasSubstr("rank 1: 1.json.gz (global rank 1), actions named, clock moved by -8 s"));
  EXPECT_THAT(out, HasSubstr("3 steps"));
  std::ifstream in(folder_ / "costs.json");
  const Json costs = Json::parse(in);
  EXPECT_EQ(costs["basis"], "calibrated");
  EXPECT_NEAR(costs["correction"]["f"].get<double>(), 0.105 / 2, 0.004);  // 100 to 110 us of 2 ms
  EXPECT_NEAR(costs["correction"]["b"].get<double>(), 0.205 / 4, 0.004);
  // 64 bytes in 20 us, of which the cluster file gives 10 to latency.
  EXPECT_NEAR(costs["link"]["latency_s"].get<double>() +
                  64 / costs["link"]["bandwidth_bytes_per_s"].get<double>(),
              20e-6, 1e-9);
  // The saved trace is one of ours, and the plan comes with it.
  ASSERT_EQ(weir("simulate plan.json --costs costs.json -o out").code, 0);
  const auto compared = weir("--json compare out/predicted.json out/measured.json");
  ASSERT_EQ(compared.code, 0) << compared.out;
  EXPECT_EQ(Json::parse(compared.out)["schema"], "weir.comparison/1");
  EXPECT_EQ(weir("-q calibrate 0.json.gz 1.json.gz --plan plan.json --costs costs.json "
                 "--save-trace here.json -o fitted.json")
                .code,
            0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "here.json"));
  EXPECT_EQ(weir("calibrate out/measured.json --costs costs.json -o again.json").code, 0);
}

// A real run without GPUs: of two perceptrons by ScheduleGPipe over gloo.
TEST_F(KinetoCommand, ARunOverGlooIsFittedAndCompared) {
  write_plain(folder_ / "perceptrons.csv",
              "name,kind,parameters,f_ms,i_ms,w_ms,activation_bytes,boundary_bytes,count\n"
              "p,x,33088,0.2,0.2,0.2,16384,2048,2\n");
  ASSERT_EQ(weir("plan perceptrons.csv -K 2 -M 4 --schedule gpipe -o gloo.json").code, 0);
  const std::string folder = WEIR_SOURCE_DIR "/tests/traces/gloo/";
  write_plain(folder_ / "two-cores.json",
              R"({"schema": "weir.cluster/1", "name": "two cores", "device": {"name": "Xeon",)"
              R"( "memory": "16 GiB", "peak_fp32_tflops": 0.2, "memory_bandwidth": "20 GB/s"},)"
              R"( "devices_per_node": 2, "nodes": 1, "intra": {"latency": "10 us",)"
              R"( "bandwidth": "5 GB/s"}, "origin": ["an example"]})");
  const std::string command = "calibrate " + folder + "gpipe-rank0.json " + folder +
                              "gpipe-rank1.json --plan gloo.json --save-trace gloo/run.json"
                              " --cluster ";
  const auto gpu = weir("-q " + command + "dgx-h100");
  EXPECT_EQ(gpu.code, 3);
  EXPECT_EQ(gpu.out,
            "weir: traces: traceEvents: they were recorded on CPU, the cluster has "
            "H100-SXM5-80GB: give the --cluster they are of\n");
  const auto [code, out] = weir(command + "two-cores.json");
  ASSERT_EQ(code, 0) << out;
  EXPECT_THAT(out, HasSubstr("1 steps, of the CPU's operators and gloo's messages"));
  EXPECT_THAT(out, HasSubstr("gloo marks a message until it was waited for"));
  ASSERT_EQ(weir("simulate gloo.json --costs costs.json -o gloo").code, 0);
  const auto compared = weir("--json compare gloo/predicted.json gloo/run.json");
  ASSERT_EQ(compared.code, 0) << compared.out;
  EXPECT_EQ(Json::parse(compared.out)["schema"], "weir.comparison/1");
}

// The run takes a twentieth of what its plan says: another model's, it seems.
TEST_F(KinetoCommand, AnotherDeviceIsRefusedAndAnotherModelDoubted) {
  const std::string clusters = WEIR_SOURCE_DIR "/tools/examples/clusters/";
  const std::string command =
      "calibrate 0.json.gz 1.json.gz --plan plan.json --cluster " + clusters;
  const auto v100 = weir("-q " + command + "dgx1-v100.json");
  EXPECT_EQ(v100.code, 3);
  EXPECT_EQ(v100.out,
            "weir: traces: deviceProperties.name: they were recorded on H100, the cluster has "
            "V100-SXM2-32GB: give the --cluster they are of\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "costs.json"));
  const auto doubted = weir(command + "dgx-h100.json");
  EXPECT_EQ(doubted.code, 0);
  EXPECT_THAT(doubted.out, HasSubstr("F took 0.05 times what its costs forecast: is this trace of "
                                     "the plan's model, sizes and number format?\n"));
}

// Recorded on an A100; of the one rank of K = 1, whatever rank the job gave it.
TEST_F(KinetoCommand, ARealFileIsOfItsDevice) {
  const std::optional<std::filesystem::path> samples = sample_folder("kineto");
  if (!samples) GTEST_SKIP() << "no samples here";
  ASSERT_EQ(weir("plan chain.csv -K 1 -M 1 --schedule gpipe -o one.json").code, 0);
  const std::string command =
      "calibrate " + (*samples / "hta_nccl_data.json.gz").string() + " --plan one.json --cluster ";
  const auto h100 = weir("-q " + command + "dgx-h100");
  EXPECT_EQ(h100.code, 3);
  EXPECT_EQ(h100.out,
            "weir: traces: deviceProperties.name: they were recorded on NVIDIA A100-PG509-200, "
            "the cluster has H100-SXM5-80GB: give the --cluster they are of\n");
  EXPECT_EQ(weir(command + "dgx-a100").code, 0);
}

TEST_F(KinetoCommand, RefusesWithOneLine) {
  EXPECT_EQ(weir("calibrate 0.json.gz 1.json.gz --plan plan.json").code, 2);  // from which costs?
  EXPECT_EQ(weir("calibrate 0.json.gz --costs c.json --save-trace t.json").code, 2);
  EXPECT_EQ(weir("calibrate out.json").code, 2);
  const auto missing = weir("calibrate 1.json.gz --plan plan.json --costs c.json");
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.out, HasSubstr("rank 0 missing"));
  ASSERT_EQ(weir("plan chain.csv -K 2 -M 6 --schedule gpipe -o other.json").code, 0);
  const auto other = weir("calibrate 0.json.gz 1.json.gz --plan other.json --costs c.json");
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.out, HasSubstr("  plan:  0F0 0F1 [0F2]"));
}

}  // namespace
}  // namespace weir::kineto_command_test
