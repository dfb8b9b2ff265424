// Links through the command: nccl-tests and nvidia-smi refine a cluster or costs.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::links_command_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

// sendrecv on one node: 4 us + S / 100 GB/s, in microseconds with two digits as nccl-tests prints
// them.
std::string sendrecv() {
  std::string text =
      "# Collective test starting: sendrecv_perf\n"
      "#  Rank  0 Group  0 Pid 1 on a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
      "#  Rank  1 Group  0 Pid 2 on a device  1 [0000:1c:00] NVIDIA H100 80GB HBM3\n"
      "#       size         count      type     time   algbw   busbw  #wrong\n"
      "#        (B)    (elements)               (us)  (GB/s)  (GB/s)        \n";
  for (long size = 1024; size <= 1L << 30; size *= 4) {
    text += fmt::format("{} {} float {:.2f} 1.00 1.00 0\n", size, size / 4,
                        4 + static_cast<double>(size) / 100e3);
  }
  return text;
}

class LinksCommand : public InFolder {
 protected:
  LinksCommand() {
    write("sendrecv.log", sendrecv());
    write("topo.txt", "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n");
  }
  const std::string cluster_ =
      " --cluster " WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json";
};

TEST_F(LinksCommand, AClusterLearnsItsLinks) {
  const CommandResult result = weir("calibrate --nccl sendrecv.log" + cluster_ + " -o here.json");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("sendrecv      2      1  1.00 KiB  1.00 GiB     4 us       100 "
                                    "GB/s      0.0%"));
  const Json cluster = Json::parse(read("here.json"));
  EXPECT_EQ(cluster["devices_per_node"], 8);
  EXPECT_THAT(cluster["origin"].back().get<std::string>(),
              HasSubstr("intra: nccl-tests sendrecv of 2 x NVIDIA H100"));
  ASSERT_EQ(weir("calibrate --topo topo.txt --cluster here.json -o there.json").code, 0);
  const Json wired = Json::parse(read("there.json"));
  EXPECT_EQ(wired["devices_per_node"], 2);
  EXPECT_EQ(wired["intra"]["bandwidth"], "450 GB/s");  // 18 links of 25 GB/s
  EXPECT_EQ(Json::parse(weir("--json calibrate --nccl sendrecv.log" + cluster_).out)["schema"],
            "weir.links/1");
}

// Each file has an option of its own; a word behind one is a trace, and refused by its name.
TEST_F(LinksCommand, EachFileHasItsOption) {
  EXPECT_EQ(
      weir("calibrate --nccl sendrecv.log --nccl sendrecv.log" + cluster_ + " -o here.json").code,
      0);
  const CommandResult two = weir("calibrate --nccl sendrecv.log more.log" + cluster_);
  EXPECT_EQ(two.code, 2);
  EXPECT_THAT(two.out, HasSubstr("more.log: --nccl and --topo are read alone, without traces; each "
                                 "file of nccl-tests has an --nccl of its own"));
}

TEST_F(LinksCommand, CostsLearnTheirLink) {
  write("tiny.json", R"({"model_type":"gpt2","n_embd":16,"n_head":2,"n_layer":3,"vocab_size":32,)"
                     R"("n_positions":8})");
  ASSERT_EQ(weir("profile tiny.json -b 1 -o profile.json").code, 0);
  const CommandResult result =
      weir("calibrate --nccl sendrecv.log --costs profile.json -o costs.json");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_NEAR(Json::parse(read("costs.json"))["link"]["bandwidth_bytes_per_s"].get<double>(), 100e9,
              1e9);
  ASSERT_EQ(weir("plan tiny.json -K 2 -M 4 -o plan.json").code, 0);
  EXPECT_EQ(weir("simulate plan.json --costs costs.json").code, 0);
}

TEST_F(LinksCommand, RefusesInOneLine) {
  EXPECT_EQ(weir("calibrate").code, 2);
  EXPECT_EQ(weir("calibrate --nccl sendrecv.log").code, 2);
  EXPECT_EQ(weir("calibrate --nccl sendrecv.log --costs c.json" + cluster_).code, 2);
  write("failed.log",
        "# Collective test starting: sendrecv_perf\nb: Test NCCL failure sendrecv.cu:1 'no "
        "network'\n");
  const CommandResult failed = weir("calibrate --nccl failed.log" + cluster_);
  EXPECT_EQ(failed.code, 3);
  EXPECT_EQ(failed.out,
            "weir: failed.log: line 2: sendrecv failed before its first result: b: Test NCCL "
            "failure sendrecv.cu:1 'no "
            "network'\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cluster.json"));
}

}  // namespace
}  // namespace weir::links_command_test
