// `weir fits`: the verdict is `simulate`'s, and so is that of each plan that it proposes.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "tests/tools/commands/command.hpp"

namespace weir::fits_command_test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class FitsCommand : public InFolder {
 protected:
  // 8 B parameters on 8 devices of 80 GB, in four stages of two replicas: with 16 bytes and more a
  // parameter 2 B of them take 32 GB a device, and with all activations kept the rest is not
  // enough.
  void make(const std::string& sizes) {
    const CommandResult made = weir("-q plan " WEIR_SOURCE_DIR
                                    "/tools/examples/models/llama-3-8b.json -K 4 --dp 2 --dtype "
                                    "bf16 --attention fused -o plan.json " +
                                    sizes);
    ASSERT_EQ(made.code, 0) << made.out;
  }
  Json of(const std::string& arguments, int code) {
    const CommandResult result = shell(WEIR_COMMAND " -q --json " + arguments + " 2> errors");
    EXPECT_EQ(result.code, code) << result.out;
    return Json::parse(result.out);
  }
};

TEST_F(FitsCommand, AJobThatFits) {
  make("-M 8 -b 1 --zero 1 --recompute full");
  const Json json = of("fits plan.json --cluster dgx-h100", 0);
  EXPECT_EQ(json["fits"], "yes");
  EXPECT_TRUE(json["changes"].empty());
}

TEST_F(FitsCommand, WhatItProposesFitsAsSimulateSays) {
  make("-M 8 -b 2");
  const Json json = of("fits plan.json --cluster dgx-h100", 4);
  EXPECT_NE(json["fits"], "yes");
  ASSERT_FALSE(json["changes"].empty());
  EXPECT_EQ(json["choices"], 1);
  for (const Json& change : json["changes"]) {
    write("changed.json", change["plan"].dump());
    const Json its = of("simulate changed.json --cluster dgx-h100", 0);
    EXPECT_EQ(its["fits"], "yes") << change["change"];
    EXPECT_EQ(its["step_time_s"], change["step_time_s"]) << change["change"];
  }
}

// Where memory is said and no cluster, a job of Megatron's is counted as Megatron-Core keeps it on
// a GPU, context and PyTorch's allocator included: more than the same plan in Weir's own executor.
TEST_F(FitsCommand, AJobsSoftwareIsCountedWithoutACluster) {
  write("job.args",
        "--num-layers 8 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
        "--max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 "
        "--global-batch-size 16 --bf16 --pipeline-model-parallel-size 2\n");
  const std::string fits = "fits job.args --from megatron --gpus 4 --memory-limit 80GiB";
  const Json json = of(fits, 0);
  EXPECT_EQ(json["stack"], "megatron-core");
  const Json own = of(fits + " --stack weir", 0);
  const auto peak = [](const Json& of) {
    return of["ranks"][0]["peak_memory_bytes"].get<double>();
  };
  EXPECT_GE(peak(json), peak(own) + 544.0 * (1 << 20));
  EXPECT_EQ(of(fits + " --stack megatron-core", 0)["ranks"], json["ranks"]);
  // Whose job it is, its text says, as arguments and as a log prints them; a plan keeps those lines
  // and is a plan all the same.
  EXPECT_EQ(of("fits job.args --gpus 4 --memory-limit 80GiB", 0), json);
  write("log.txt",
        "  num_layers ......... 8\n  hidden_size ........ 2048\n  num_attention_heads .. 16\n"
        "  seq_length ......... 2048\n  max_position_embeddings .. 2048\n  vocab_size ... 32000\n"
        "  micro_batch_size ... 1\n  global_batch_size .. 16\n  bf16 ............... True\n"
        "  pipeline_model_parallel_size .. 2\n");
  EXPECT_EQ(of("fits log.txt --gpus 4 --memory-limit 80GiB", 0)["stack"], "megatron-core");
  ASSERT_EQ(weir("plan --from megatron job.args --gpus 4 -o job.json").code, 0);
  EXPECT_EQ(of("fits job.json --memory-limit 80GiB", 0)["ranks"], json["ranks"]);
}

// 6.7 B numbers in four stages of two replicas leave an H100 room for a second stage a rank, for
// which Megatron-LM has an argument; for the fastest of all schedules it has none, and why is said.
TEST_F(FitsCommand, WhatTheJobHasNoWordForIsSaid) {
  write("job.args",
        "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 "
        "--max-position-embeddings 4096 --vocab-size 32000 --micro-batch-size 1 "
        "--global-batch-size 16 --bf16 --pipeline-model-parallel-size 4\n");
  const std::string fits = "fits job.args --gpus 8 --cluster dgx-h100";
  const Json own = of(fits, 0)["faster"];
  EXPECT_EQ(own["arguments"][0]["name"], "num-layers-per-virtual-pipeline-stage") << own["change"];
  EXPECT_TRUE(own["not_carried"].empty());
  const Json other = of(fits + " --any-schedule", 0)["faster"];
  EXPECT_TRUE(other["arguments"].empty());
  ASSERT_EQ(other["not_carried"].size(), 1);
  EXPECT_EQ(other["not_carried"][0]["name"], "job");
  EXPECT_THAT(other["not_carried"][0]["text"].get<std::string>(),
              HasSubstr("row megatron/own-schedules"));
  EXPECT_THAT(weir("-q " + fits + " --any-schedule").out,
              HasSubstr("    The job has no words for it: plan: schedule: "));
}

TEST_F(FitsCommand, WithoutMemoryThereIsNoAnswer) {
  make("-M 8 -b 1");
  const CommandResult result = weir("-q fits plan.json");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, HasSubstr("--cluster or --memory-limit"));
}

// A node of eight devices whose host keeps 16 bytes of each of 8 B numbers, 120 GiB, and has 64:
// the host is what is full, and with the state on the devices the job fits.
TEST_F(FitsCommand, AFullHostIsNamed) {
  make("-M 8 -b 1 --zero 1 --recompute full --cluster dgx-h100 --offload-optimizer 1");
  Json cluster = Json::parse(read(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json"));
  EXPECT_TRUE(of("fits plan.json --cluster dgx-h100", 0)["full"].is_null());
  cluster["host"]["memory"] = "64 GiB";
  write("small.json", cluster.dump());
  const Json json = of("fits plan.json --cluster small.json", 4);
  EXPECT_EQ(json["fits"], "no");
  EXPECT_EQ(json["full"], "host");
  EXPECT_NEAR(json["host"]["optimizer_bytes"].get<double>(), 8.03e9 * 16, 0.01e9 * 16);
  EXPECT_EQ(json["host"]["memory_bytes"].get<std::int64_t>(), std::int64_t{64} << 30);
  ASSERT_FALSE(json["changes"].empty());
  EXPECT_EQ(json["changes"][0]["change"], "optimizer's state: on the device");
  const CommandResult said = weir("-q fits plan.json --cluster small.json");
  EXPECT_THAT(said.out, HasSubstr("does not fit: "));
  EXPECT_THAT(said.out, HasSubstr("): a node's host holds 119.66 GiB"));
  EXPECT_THAT(said.out, HasSubstr("plan.json does not fit: a node's host needs 119.66 GiB"));
  EXPECT_THAT(weir("-q simulate plan.json --cluster small.json").out,
              HasSubstr("plan.json keeps 119.66 GiB"));
}

// With no software named a rank's upper bound is of its parameters and its activations: here rank 0
// has the larger expected peak, and rank 1, with the head, the larger bound, which decides.
TEST_F(FitsCommand, TheRankIsTheOneThatDecides) {
  ASSERT_EQ(weir("plan " WEIR_SOURCE_DIR
                 "/tools/examples/models/llama-3-70b.json -K 2 --tp 8 -M 8 --seq-length 4096 "
                 "--dtype bf16 --attention fused --offload-optimizer 1 --recompute full "
                 "--cluster dgx-h100 -o host.json")
                .code,
            0);
  const Json forecast =
      of("simulate host.json --cluster dgx-h100 --memory-limit '38 GiB'", 0)["ranks"];
  ASSERT_EQ(forecast.size(), 2);
  EXPECT_GT(forecast[0]["peak_memory_bytes"], forecast[1]["peak_memory_bytes"]);
  EXPECT_LT(forecast[0]["peak_memory_upper_bytes"], forecast[1]["peak_memory_upper_bytes"]);
  EXPECT_THAT(weir("-q fits host.json --cluster dgx-h100 --memory-limit '38 GiB'").out,
              HasSubstr("host.json may not fit: rank 1 needs "));
}

}  // namespace
}  // namespace weir::fits_command_test
